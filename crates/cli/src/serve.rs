//! `espalier serve`: a whole system, until it is told to stop.

use espalier_service_kit::signal;

use crate::Verdict;
use crate::args::{Serve, SystemArgs};
use crate::error::CliError;
use crate::system::{Plan, System};

pub(crate) async fn run(system: &SystemArgs, args: &Serve) -> Result<Verdict, CliError> {
    let stop = signal()?;
    let running = System::start(&Plan::for_serving(args, system)?).await?;
    for (role, name, url) in running.addresses() {
        anstream::println!("{role:8} {name:12} {url}");
    }
    anstream::println!("ready");
    running.run_until(stop).await?;
    Ok(Verdict::Good)
}
