//! `espalier explain`.

use std::fs;
use std::path::PathBuf;

use espalier_command::{Verdict, report};
use espalier_trace::terminal::{Ink, summary, tree};
use espalier_trace::{Trace, page};

use crate::error::CliError;

/// The options of `espalier explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// What `espalier generate --trace` wrote.
    #[arg(value_name = "FILE.json")]
    pub(crate) trace: PathBuf,
    /// Only this round, counted from 1.
    #[arg(long, value_name = "N")]
    pub(crate) round: Option<usize>,
    /// Write a page for a browser, which needs nothing else, in place of printing.
    #[arg(long, conflicts_with = "round", value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
}

pub(crate) fn run(args: &Explain) -> Result<Verdict, CliError> {
    let read = fs::read_to_string(&args.trace).map_err(|source| CliError::Read { path: args.trace.clone(), source })?;
    let trace =
        Trace::parse(&read).map_err(|source| CliError::Trace { path: args.trace.clone(), source: Box::new(source) })?;
    if let Some(path) = &args.html {
        fs::write(path, page::page(&trace)).map_err(|source| CliError::Write { path: path.clone(), source })?;
        return Ok(Verdict::Good);
    }
    let rounds = trace.rounds.len();
    if let Some(round) = args.round.filter(|&round| round == 0 || round > rounds) {
        return Err(CliError::NoRound { round, rounds });
    }
    print(&trace, args.round);
    Ok(Verdict::Good)
}

fn print(trace: &Trace, only: Option<usize>) {
    let Trace { target, drafter, policy, prompt, .. } = trace;
    let about = format!("{target}, drafted by {drafter}: policy {policy}, tau {}", report::figure(trace.tau(), 2));
    anstream::println!("{about}\n{}", report::styled(report::FAINT, prompt));
    for (number, round) in (1..).zip(&trace.rounds).filter(|(number, _)| only.is_none_or(|only| only == *number)) {
        anstream::println!("\n{}\n{}", summary(number, round), tree(round, &paint).trim_end());
    }
}

fn paint(ink: Ink, text: &str) -> String {
    match ink {
        Ink::Faint => report::styled(report::FAINT, text),
        Ink::Accepted => report::styled(report::DRAFTED, text),
        Ink::Rejected => text.to_owned(),
        Ink::Bonus => report::styled(report::ADDED, text),
    }
}
