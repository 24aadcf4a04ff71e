//! `espalier bench perf`: two builds of this program, measured in turns.
//!
//! The pace of a shared machine changes by the hour, so figures of two runs cannot be compared. Here both builds make
//! each measurement one right after the other, and the ratio of the two is what counts. Which goes first changes from
//! turn to turn. The builds are asked by their own `bench` commands, whose JSON is read; what only one of them measures
//! is left out.

mod error;
mod ratio;
mod suite;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::builder::PossibleValuesParser;
use espalier_command::Verdict;
use espalier_command::report::{self, figure};
use espalier_local::SystemArgs;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::Value;

pub use self::error::PerfError;
use self::ratio::Interval;
use self::suite::{Figure, SUITES, Suite, Unit};
use crate::error::BenchError;
use crate::statistics::median;

/// The options of `espalier bench perf`.
#[derive(Debug, clap::Args)]
pub struct Perf {
    /// The program that is compared with, built from another commit.
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The program that is measured; this one when absent.
    #[arg(long, value_name = "PROGRAM")]
    new: Option<PathBuf>,
    /// Prompts, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl")]
    prompts: PathBuf,
    /// Turns of each build; of less than 6 there is no interval. One takes about a minute.
    #[arg(long, default_value = "9", value_name = "N")]
    turns: NonZeroUsize,
    /// Make these measurements only.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(SUITES.map(|suite| suite.name)))]
    only: Vec<String>,
    /// The exit code is 1 if the whole interval of a ratio lies below this, like 0.97.
    #[arg(long, value_name = "X")]
    least: Option<f64>,
    /// Print JSON, one object for each measurement.
    #[arg(long)]
    json: bool,
}

/// What both builds say of one thing. Ratios are of speeds: above 1 the new build is faster.
#[derive(Debug, Serialize)]
struct Compared {
    suite: &'static str,
    measurement: String,
    unit: Unit,
    turns: usize,
    /// Medians over turns.
    base: f64,
    new: f64,
    /// The median of the turns' ratios, and its 95 % interval if there are turns enough for one.
    ratio: f64,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
}

/// The figures of both builds, turn by turn, in the order in which they came up.
#[derive(Default)]
struct Pairs {
    order: Vec<(&'static str, String, Unit)>,
    values: BTreeMap<(&'static str, String), Vec<[f64; 2]>>,
}

pub(crate) fn run(system: &SystemArgs, args: &Perf) -> Result<Verdict, BenchError> {
    let own = || std::env::current_exe().map_err(|source| PerfError::Run { program: "espalier".into(), source });
    let new = args.new.clone().map_or_else(own, Ok)?;
    let suites: Vec<&Suite> = SUITES.iter().filter(|suite| is_wanted(suite, &args.only)).collect();
    let bar = report::progress((2 * suites.len() * args.turns.get()) as u64, "measurements");
    let measured = measure([&args.base, &new], &suites, &common(system, args), args.turns.get(), &bar);
    bar.finish_and_clear();
    let compared = measured?.compared();
    if compared.is_empty() {
        return Err(PerfError::Nothing.into());
    }
    print(&compared, args.json);
    let least = args.least.unwrap_or(0.0);
    Ok(compared.iter().all(|one| one.ratio_high.is_none_or(|high| high >= least)).into())
}

fn is_wanted(suite: &Suite, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|name| name == suite.name)
}

/// What both builds are told alike, whatever they measure.
fn common(system: &SystemArgs, args: &Perf) -> Common {
    let path = |flag: &str, path: &Option<PathBuf>| {
        path.iter().flat_map(|path| [flag.to_owned(), path.display().to_string()]).collect::<Vec<_>>()
    };
    let threads = system.threads.iter().flat_map(|threads| ["--threads".to_owned(), threads.to_string()]).collect();
    let system = [path("--models", &system.models), path("--profiles", &system.profiles), threads].concat();
    Common { system, prompts: args.prompts.display().to_string() }
}

/// See [`common`].
struct Common {
    system: Vec<String>,
    prompts: String,
}

/// All turns of `programs`, the base first.
fn measure(
    programs: [&Path; 2],
    suites: &[&'static Suite],
    common: &Common,
    turns: usize,
    bar: &ProgressBar,
) -> Result<Pairs, PerfError> {
    let mut pairs = Pairs::default();
    for turn in 0..turns {
        for suite in suites {
            let mut found = [const { Vec::new() }; 2];
            for build in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                found[build] = ask(programs[build], suite, common)?;
                bar.inc(1);
            }
            pairs.add(suite.name, found);
        }
    }
    Ok(pairs)
}

/// What a build finds.
fn ask(program: &Path, suite: &Suite, common: &Common) -> Result<Vec<Figure>, PerfError> {
    let mut args = suite.args(&common.prompts);
    args.extend_from_slice(&common.system);
    let output = Command::new(program).args(&args).stdin(Stdio::null()).output();
    let output = output.map_err(|source| PerfError::Run { program: program.to_owned(), source })?;
    let (program, args) = (program.to_owned(), args.join(" "));
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(PerfError::Failed { program, args, status: output.status, said });
    }
    let lines: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect();
    Ok((suite.read)(&lines.map_err(|source| PerfError::Json { program, args, source })?))
}

impl Pairs {
    /// What the builds found in one turn, as far as both did.
    fn add(&mut self, suite: &'static str, [base, new]: [Vec<Figure>; 2]) {
        for figure in base {
            let Some(other) = new.iter().find(|other| other.name == figure.name) else { continue };
            let values = self.values.entry((suite, figure.name.clone())).or_default();
            if values.is_empty() {
                self.order.push((suite, figure.name.clone(), figure.unit));
            }
            values.push([figure.value, other.value]);
        }
    }

    fn compared(mut self) -> Vec<Compared> {
        let of = |(suite, measurement, unit): (&'static str, String, Unit)| {
            let values = self.values.remove(&(suite, measurement.clone()))?;
            let ratios: Vec<f64> = values.iter().map(|&[base, new]| unit.speed_ratio(base, new)).collect();
            let interval = Interval::of_median(&ratios);
            Some(Compared {
                suite,
                measurement,
                unit,
                turns: values.len(),
                base: median(values.iter().map(|pair| pair[0]))?,
                new: median(values.iter().map(|pair| pair[1]))?,
                ratio: median(ratios)?,
                ratio_low: interval.map(|interval| interval.low),
                ratio_high: interval.map(|interval| interval.high),
            })
        };
        self.order.into_iter().filter_map(of).collect()
    }
}

fn print(compared: &[Compared], json: bool) {
    if json {
        return compared.iter().for_each(report::json);
    }
    let header = ["measurement", "unit", "base", "new", "speed, new / base", "95 % interval", ""];
    anstream::println!("{}", report::table(&header, compared.iter().map(row)));
}

fn row(one: &Compared) -> Vec<String> {
    let interval = one.ratio_low.zip(one.ratio_high);
    let verdict = match interval {
        Some((low, _)) if low > 1.0 => "faster",
        Some((_, high)) if high < 1.0 => "slower",
        _ => "",
    };
    let digits = one.unit.digits();
    vec![
        format!("{}: {}", one.suite, one.measurement),
        one.unit.name().to_owned(),
        figure(Some(one.base), digits),
        figure(Some(one.new), digits),
        format!("{:.3}", one.ratio),
        interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}")),
        verdict.to_owned(),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn figures(values: &[(&str, Unit, f64)]) -> Vec<Figure> {
        values.iter().map(|&(name, unit, value)| Figure { name: name.to_owned(), unit, value }).collect()
    }

    #[test]
    fn a_ratio_is_of_speeds_and_the_median_of_turns() {
        let mut pairs = Pairs::default();
        for turn in 0..9 {
            // The machine slows down by half in the middle, which the ratios do not show; one turn of the new build is
            // disturbed, which the median does not show.
            let pace = if turn < 4 { 1.0 } else { 0.5 };
            let disturbed = if turn == 6 { 0.1 } else { 1.0 };
            let base = [("a", Unit::TokensPerSecond, 100.0 * pace), ("b", Unit::Milliseconds, 2.0 / pace)];
            let new = [("b", Unit::Milliseconds, 2.5 / pace), ("a", Unit::TokensPerSecond, 110.0 * pace * disturbed)];
            pairs.add("s", [figures(&base), figures(&new)]);
        }
        let compared = pairs.compared();
        let [a, b] = &compared[..] else { panic!("{compared:?}") };
        assert_eq!((a.measurement.as_str(), a.turns, a.base, a.new), ("a", 9, 50.0, 55.0));
        assert!((a.ratio - 1.1).abs() < 1e-9 && a.ratio_low.is_some_and(|low| low > 1.09), "{a:?}");
        assert_eq!((b.ratio, b.ratio_low, b.ratio_high), (0.8, Some(0.8), Some(0.8)));
        assert_eq!([row(a)[6].as_str(), row(b)[6].as_str()], ["faster", "slower"]);
    }

    #[test]
    fn what_one_build_alone_measures_is_left_out() {
        let mut pairs = Pairs::default();
        let of = |name| figures(&[(name, Unit::Milliseconds, 1.0)]);
        pairs.add("s", [of("old"), of("new")]);
        assert!(pairs.compared().is_empty());
    }

    #[test]
    fn of_few_turns_there_is_no_interval_and_no_verdict() {
        let mut pairs = Pairs::default();
        for _ in 0..5 {
            pairs.add("s", [[1.0], [2.0]].map(|[ms]| figures(&[("a", Unit::Milliseconds, ms)])));
        }
        let compared = pairs.compared();
        assert_eq!((compared[0].ratio, compared[0].ratio_low), (0.5, None));
        assert_eq!(row(&compared[0])[5..], ["-", ""]);
    }
}
