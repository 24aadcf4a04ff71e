//! `espalier bench calibration`: what a drafter's confidence (PCT paper, figure 3b) and entropy (SVIP paper, figure 2)
//! say of acceptance.
//!
//! The target writes its own text; the drafter reads along and guesses each token from those before it. So a guess counts
//! as one whose path was accepted, which is what `c_i` stands for in every policy. At a temperature the confidence is the
//! chance that the candidate wins given the noise that both share.

mod bins;
mod chart;
mod guesses;
mod observe;
mod reader;

use serde::Serialize;

use self::bins::{Bin, Said, bins, calibration_error};
use self::guesses::Observation;
use self::observe::Observer;
use crate::Verdict;
use crate::args::{Calibration, SystemArgs};
use crate::error::CliError;
use crate::{prompts, report};

/// Bins of confidence, as in the paper.
const CONFIDENCE_BINS: usize = 10;

/// The width of a bin of entropy in nats.
const ENTROPY_WIDTH: f64 = 0.5;

/// Most bins of entropy: a vocabulary whose logarithm is beyond the last has yet to be seen.
const ENTROPY_BINS_MAX: usize = 30;

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    target: String,
    drafter: String,
    prompts: usize,
    /// Tokens that the drafter had a guess at.
    guessed: usize,
    /// The share of guesses that were accepted.
    acceptance: Option<f64>,
    mean_confidence: Option<f64>,
    calibration_error: Option<f64>,
    confidence: Vec<Bin>,
    /// Empty for a drafter without a distribution.
    entropy: Vec<Bin>,
}

impl Report {
    fn new((target, drafter): (&str, &str), prompts: usize, seen: &[Observation]) -> Self {
        let confidences: Vec<Said> = seen.iter().map(|seen| (seen.confidence, seen.accepted)).collect();
        let entropies: Vec<Said> = seen.iter().filter_map(|seen| Some((seen.entropy?, seen.accepted))).collect();
        let whole = bins(&confidences, 1.0, 1);
        let confidence = bins(&confidences, 1.0, CONFIDENCE_BINS);
        Self {
            target: target.to_owned(),
            drafter: drafter.to_owned(),
            prompts,
            guessed: seen.len(),
            acceptance: whole.first().and_then(|all| all.acceptance),
            mean_confidence: whole.first().and_then(|all| all.mean),
            calibration_error: calibration_error(&confidence),
            confidence,
            entropy: entropy_bins(&entropies),
        }
    }
}

/// As many bins as the greatest entropy needs.
fn entropy_bins(said: &[Said]) -> Vec<Bin> {
    let greatest = said.iter().map(|(entropy, _)| *entropy).reduce(f64::max);
    let count = greatest.map_or(0, |greatest| ((greatest / ENTROPY_WIDTH).ceil() as usize).clamp(1, ENTROPY_BINS_MAX));
    bins(said, ENTROPY_WIDTH * count as f64, count)
}

pub(crate) fn run(system: &SystemArgs, args: &Calibration) -> Result<Verdict, CliError> {
    let prompts = prompts::read(&args.prompts, Some(args.limit.get()))?;
    let mut observer = Observer::load(args, system)?;
    let bar = report::progress(prompts.len() as u64, "prompts");
    let observations = prompts.iter().map(|prompt| observer.observe(prompt).inspect(|_| bar.inc(1)));
    let observations = observations.collect::<Result<Vec<_>, _>>();
    bar.finish_and_clear();
    let report = Report::new((&args.target, &args.drafter), prompts.len(), &observations?.concat());
    if args.json {
        report::json(&report);
    } else {
        print(&report);
    }
    if let Some(path) = &args.plot {
        chart::chart(&report).save(path)?;
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
        report::figure(found.acceptance, 3),
        report::figure(found.mean_confidence, 3),
        report::figure(found.calibration_error, 3),
    );
    anstream::println!("{}", table("confidence", &found.confidence));
    if !found.entropy.is_empty() {
        anstream::println!("{}", table("entropy (nats)", &found.entropy));
    }
}

fn table(what: &str, bins: &[Bin]) -> comfy_table::Table {
    let row = |bin: &Bin| {
        let range = format!("{:.1}-{:.1}", bin.low, bin.high);
        let interval = bin.acceptance_low.zip(bin.acceptance_high);
        let interval = interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.3}-{high:.3}"));
        vec![range, bin.count.to_string(), report::figure(bin.mean, 3), report::figure(bin.acceptance, 3), interval]
    };
    report::table(&[what, "tokens", "mean", "accepted", "95 % interval"], bins.iter().map(row))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_bins_of_entropy_as_the_greatest_needs() {
        let bins_to = |greatest| entropy_bins(&[(0.0, true), (greatest, false)]).last().map(|bin| bin.high);
        assert_eq!([0.0, 0.5, 0.6, 8.3].map(bins_to), [Some(0.5), Some(0.5), Some(1.0), Some(8.5)]);
        assert_eq!(bins_to(1e9), Some(ENTROPY_WIDTH * ENTROPY_BINS_MAX as f64));
        assert_eq!(entropy_bins(&[]), []);
    }

    #[test]
    fn a_report_sums_up_what_was_seen() {
        let seen = |confidence, accepted| Observation { confidence, entropy: Some(1.0), accepted };
        let report = Report::new(("t", "d"), 2, &[seen(0.75, true), seen(0.25, false)]);
        assert_eq!((report.guessed, report.acceptance, report.mean_confidence), (2, Some(0.5), Some(0.5)));
        assert_eq!(report.calibration_error, Some(0.25));
        assert_eq!(report.entropy.iter().map(|bin| bin.count).collect::<Vec<_>>(), [0, 2]);
    }
}
