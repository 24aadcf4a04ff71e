//! `espalier top`: what a running system does, as a screen, a table or JSON.
//!
//! Services tell counts that only grow. Two readings of them make [`figures`]; how those are shown is another matter.

mod args;
mod cells;
mod figures;
mod screen;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, stdout};

use espalier_command::{Verdict, report};
use espalier_proto::SystemStatus;
use tokio::time::sleep;

use self::figures::Figures;
use crate::error::CliError;

pub(crate) use args::Top;

pub(crate) async fn run(args: &Top) -> Result<Verdict, CliError> {
    let mut client = args.access.client(&args.gateway)?;
    if !args.once && !args.json {
        if !stdout().is_terminal() {
            return Err(CliError::NoTerminal);
        }
        // A gateway that is not there is told of before the screen is taken.
        let first = client.status().await?;
        terminal::watch(args, client, first).await?;
        return Ok(Verdict::Good);
    }
    let mut before = client.status().await?;
    loop {
        sleep(args.interval).await;
        let now = client.status().await?;
        print(&before, &now, args.json);
        if args.once {
            return Ok(Verdict::Good);
        }
        before = now;
    }
}

fn print(before: &SystemStatus, now: &SystemStatus, json: bool) {
    let figures = Figures::between(Some(before), now);
    match json {
        true => report::json(&figures),
        false => tables::print(&figures),
    }
}
