//! `espalier bench calibration`: what a drafter's confidence (PCT paper, figure 3b) and entropy (SVIP paper, figure 2)
//! say of acceptance.
//!
//! The target writes its own text; the drafter reads along and guesses each token from those before it. So a guess counts
//! as one whose path was accepted, which is what `c_i` stands for in every policy. At a temperature the confidence is the
//! chance that the candidate wins given the noise that both share.

mod args;
mod bins;
mod chart;
mod guesses;
mod observe;
mod reader;
mod report;

use espalier_command::Verdict;
use espalier_command::report::{figure, json, progress, table, write};
use espalier_local::SystemArgs;

use self::bins::Bin;
use self::observe::Observer;
use self::report::{Pair, Report};
use crate::error::BenchError;

pub use args::Calibration;

pub(crate) fn run(system: &SystemArgs, args: &Calibration) -> Result<Verdict, BenchError> {
    let prompts = args.asked.read()?;
    let mut observer = Observer::load(args, system)?;
    let bar = progress(prompts.len() as u64, "prompts");
    let observations = prompts.iter().map(|prompt| observer.observe(prompt).inspect(|_| bar.inc(1)));
    let observations = observations.collect::<Result<Vec<_>, _>>();
    bar.finish_and_clear();
    let report = Report::new(
        Pair { target: &args.target, drafter: &args.drafter.drafter },
        prompts.len(),
        &observations?.concat(),
    );
    if args.json {
        json(&report);
    } else {
        print(&report);
    }
    if let Some(path) = &args.plot {
        write(path, &chart::chart(&report)?)?;
    }
    Ok(Verdict::Good)
}

fn print(found: &Report) {
    anstream::println!(
        "target {}, drafter {}: {} tokens guessed on {} prompts, a share of {} accepted at a mean confidence of {}\n\
         expected calibration error {}\n",
        found.target,
        found.drafter,
        found.guessed,
        found.prompts,
        figure(found.acceptance, 3),
        figure(found.mean_confidence, 3),
        figure(found.calibration_error, 3),
    );
    anstream::println!("{}", bins_table("confidence", &found.confidence));
    if !found.entropy.is_empty() {
        anstream::println!("{}", bins_table("entropy (nats)", &found.entropy));
    }
}

fn bins_table(what: &str, bins: &[Bin]) -> comfy_table::Table {
    let row = |bin: &Bin| {
        let range = format!("{:.1}-{:.1}", bin.low, bin.high);
        let interval = bin.acceptance_low.zip(bin.acceptance_high);
        let interval = interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.3}-{high:.3}"));
        vec![range, bin.count.to_string(), figure(bin.mean, 3), figure(bin.acceptance, 3), interval]
    };
    table(&[what, "tokens", "mean", "accepted", "95 % interval"], bins.iter().map(row))
}
