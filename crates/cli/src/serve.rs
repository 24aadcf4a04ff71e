//! `espalier serve`: a whole system, until it is told to stop.

use espalier_service_kit::signal;

use crate::Verdict;
use crate::args::{Serve, SystemArgs};
use crate::error::CliError;
use crate::system::{addresses, plan_to_serve, start};

pub(crate) async fn run(system: &SystemArgs, args: &Serve) -> Result<Verdict, CliError> {
    let stop = signal()?;
    tokio::pin!(stop);
    let running = tokio::select! {
        () = &mut stop => return Ok(Verdict::Good),
        running = start(plan_to_serve(args, system)?) => running?,
    };
    anstream::println!("{}\nready", addresses(&running));
    running.run_until(stop).await?;
    Ok(Verdict::Good)
}
