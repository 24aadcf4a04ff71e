//! Holds the simulation against what `espalier bench load --json` measured: `compare SCENARIO.json FOUND.jsonl…`.
//!
//! The scenario says what the machine's passes cost; the load, and who drafts under which policy, is taken from each line.
//! Of lines that measured the same the median is compared, with that of some simulations: a p95 of few requests varies.

use std::collections::BTreeMap;

use espalier_planner::{Closed, Load, Report, Scenario, ScenarioError, simulate};
use serde::Deserialize;

/// Simulations of a level.
const SEEDS: u64 = 15;

/// A line of `bench load`.
#[derive(Debug, Clone, Deserialize)]
struct Found {
    arm: String,
    policy: String,
    concurrency: usize,
    requests: usize,
    tokens: usize,
    seconds: f64,
    tau: f64,
    first_token_ms: Spread,
    token_ms: Spread,
}

/// What was measured, in the order of the table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Level {
    clients: usize,
    arm: String,
    policy: String,
    requests: usize,
}

impl Level {
    fn of(found: &Found) -> Self {
        let Found { concurrency, requests, arm, policy, .. } = found.clone();
        Self { clients: concurrency, arm, policy, requests }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Spread {
    p95: f64,
}

/// What is compared of a level.
#[derive(Debug, Clone, Copy)]
struct Figures {
    pace: f64,
    tau: f64,
    first: f64,
    token: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let scenario = Scenario::parse(&std::fs::read_to_string(args.next().ok_or("no scenario is given")?)?)?;
    let mut levels: BTreeMap<Level, Vec<Found>> = BTreeMap::new();
    for path in args {
        for line in std::fs::read_to_string(path)?.lines() {
            let found: Found = serde_json::from_str(line)?;
            levels.entry(Level::of(&found)).or_default().push(found);
        }
    }
    println!(
        "| clients | way | policy | runs | tokens/s | simulated | off | token p95 ms | first token p95 ms | tau |"
    );
    println!("|---:|---|---|---:|---:|---:|---:|---:|---:|---:|");
    for (level, found) in &levels {
        let scenario = at(&scenario, level);
        let reports = (0..SEEDS).map(|seed| simulate(&scenario, seed, tokio::time::Instant::now()));
        let reports = reports.map(|report| Ok(simulated(&report?))).collect::<Result<Vec<_>, ScenarioError>>()?;
        show(level, found.len(), medians(found.iter().map(measured)), medians(reports.into_iter()));
    }
    Ok(())
}

/// The scenario under the load of a level.
fn at(scenario: &Scenario, level: &Level) -> Scenario {
    let mut scenario = scenario.clone();
    let &Level { clients, ref arm, ref policy, requests } = level;
    let requests = Some(requests);
    let closed = Closed { clients, requests, seconds: None, start_seconds: None, think_ms: 0.0, warmup_seconds: 0.0 };
    scenario.load = Load::Closed(closed);
    for target in &mut scenario.targets {
        target.drafted = arm != "plain";
        if policy != "-" {
            policy.clone_into(&mut target.policy);
        }
    }
    scenario.drafters.iter_mut().for_each(|pool| pool.each = arm == "each");
    scenario
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    // Of an even number the mean of the two in the middle.
    let middle = values.get(values.len().saturating_sub(1) / 2..=values.len() / 2).unwrap_or_default();
    middle.iter().sum::<f64>() / middle.len() as f64
}

fn medians(all: impl Iterator<Item = Figures>) -> Figures {
    let all: Vec<Figures> = all.collect();
    let of = |figure: fn(&Figures) -> f64| median(all.iter().map(figure));
    Figures { pace: of(|one| one.pace), tau: of(|one| one.tau), first: of(|one| one.first), token: of(|one| one.token) }
}

fn measured(found: &Found) -> Figures {
    Figures {
        pace: found.tokens as f64 / found.seconds,
        tau: found.tau,
        first: found.first_token_ms.p95,
        token: found.token_ms.p95,
    }
}

fn simulated(report: &Report) -> Figures {
    let tokens: u64 = report.targets.iter().map(|target| target.tokens).sum();
    let rounds: f64 = report.targets.iter().filter_map(|target| Some(target.tokens as f64 / target.tau?)).sum();
    let p95 = |spread: Option<espalier_planner::Spread>| spread.map_or(f64::NAN, |spread| spread.p95);
    Figures {
        pace: tokens as f64 / report.seconds,
        tau: tokens as f64 / rounds,
        first: p95(report.first_token_ms),
        token: p95(report.token_ms),
    }
}

fn show(level: &Level, runs: usize, found: Figures, simulated: Figures) {
    let Level { clients, arm, policy, .. } = level;
    let off = |found: f64, simulated: f64| format!("{:+.0} %", 100.0 * (simulated / found - 1.0));
    let both = |found: f64, simulated: f64| format!("{found:.1}, {}", off(found, simulated));
    println!(
        "| {clients} | {arm} | `{policy}` | {runs} | {:.0} | {:.0} | {} | {} | {} | {:.2}, {:.2} |",
        found.pace,
        simulated.pace,
        off(found.pace, simulated.pace),
        both(found.token, simulated.token),
        both(found.first, simulated.first),
        found.tau,
        simulated.tau,
    );
}
