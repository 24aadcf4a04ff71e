//! What a simulation came to.

use serde::Serialize;

use crate::counts::PassCounts;
use crate::tally::{Tally, Window};
use crate::time::ms;
use crate::world::World;

/// Percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half are smaller.
    pub p50: f64,
    /// Nineteen of twenty are.
    pub p95: f64,
    /// Ninety-nine of a hundred are.
    pub p99: f64,
}

impl Spread {
    /// The percentiles by the nearest rank, as `espalier bench load` has them; none of nothing.
    fn of(samples: &[f32]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| f64::from(sorted[((share * sorted.len() as f64).ceil() as usize).clamp(1, last + 1) - 1]);
        Some(Self { p50: at(0.5), p95: at(0.95), p99: at(0.99) })
    }
}

/// What requests for the targets of an entry came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetReport {
    /// The entry.
    pub name: String,
    /// Requests that came, and what became of them.
    pub requests: u64,
    /// Those whose answers are complete.
    pub finished: u64,
    /// Those for which there was no room.
    pub refused: u64,
    /// Those that lost what could not be replaced.
    pub failed: u64,
    /// Times that sequences were opened again.
    pub failovers: u64,
    /// Tokens that clients heard.
    pub tokens: u64,
    /// Tokens that clients heard in each second from the beginning on.
    pub timeline: Vec<u64>,
    /// Tokens a second, of all its copies.
    pub tokens_per_second: f64,
    /// Committed tokens a round.
    pub tau: Option<f64>,
    /// Nodes sent a round.
    pub nodes: Option<f64>,
    /// The share of rounds that were drafted for.
    pub drafted: Option<f64>,
    /// What growing its tree takes of a round.
    pub draft_ms: Option<f64>,
    /// The share of rounds that accepted a node of each depth.
    pub accepted_by_depth: Vec<f64>,
    /// From request to first token.
    pub first_token_ms: Option<Spread>,
    /// A token after the first ones.
    pub token_ms: Option<Spread>,
    /// From request to the whole answer.
    pub answer_ms: Option<Spread>,
    /// Its verifiers.
    pub verifiers: ServiceReport,
}

/// What services of a kind did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceReport {
    /// The name of the entry.
    pub name: String,
    /// How many.
    pub count: usize,
    /// The share of the time that they computed, on average, and of the one that did the most.
    pub utilisation: f64,
    /// That of the busiest.
    pub busiest: f64,
    /// Passes.
    pub passes: u64,
    /// Rows of a pass.
    pub rows: f64,
    /// Of the largest.
    pub most_rows: u64,
    /// Of the sequences that could have been in a pass, the share that were.
    pub filled: f64,
}

/// What a simulation came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Seconds that were simulated, up to the last answer.
    pub seconds: f64,
    /// Tokens a second of all targets.
    pub tokens_per_second: f64,
    /// From request to first token, of all targets.
    pub first_token_ms: Option<Spread>,
    /// A token after the first ones, of all targets.
    pub token_ms: Option<Spread>,
    /// Requests that have not ended: none, unless something is wrong with the simulation.
    pub unfinished: usize,
    /// Events that happened.
    pub events: u64,
    /// By the entries of the scenario.
    pub targets: Vec<TargetReport>,
    /// By the entries of the scenario.
    pub drafters: Vec<ServiceReport>,
}

impl Report {
    /// What a world came to that has run.
    pub(crate) fn of(world: &World<'_>, scenario: &crate::Scenario) -> Self {
        let window = Window::of(&scenario.load);
        let until = window.until.unwrap_or(world.ended).max(window.from);
        let counted = (until - window.from).as_secs_f64().max(1e-9);
        let all = world.ended.as_secs_f64().max(1e-9);
        let verifiers = |class: usize| {
            let own = world.verifiers().iter().filter(|verifier| world.class_of(verifier) == class);
            service(&scenario.targets[class].name, own.map(|verifier| &verifier.counts), all)
        };
        let target = |(class, tally): (usize, &Tally)| {
            TargetReport::of(&scenario.targets[class].name, tally, counted, verifiers(class))
        };
        let pool = |pool: usize| {
            let own = world.drafters().iter().filter(|drafter| drafter.pool == pool);
            service(&scenario.drafters[pool].name, own.map(|drafter| &drafter.counts), all)
        };
        let targets: Vec<TargetReport> = world.tallies.iter().enumerate().map(target).collect();
        Self {
            seconds: world.ended.as_secs_f64(),
            tokens_per_second: targets.iter().map(|target| target.tokens_per_second).sum(),
            first_token_ms: pooled(&world.tallies, |tally| &tally.first_token),
            token_ms: pooled(&world.tallies, |tally| &tally.token),
            unfinished: world.unfinished(),
            events: world.events(),
            targets,
            drafters: (0..scenario.drafters.len()).map(pool).collect(),
        }
    }
}

impl TargetReport {
    fn of(name: &str, tally: &Tally, seconds: f64, verifiers: ServiceReport) -> Self {
        let (statistics, rounds) = (&tally.statistics, tally.statistics.rounds());
        let a_round = |sum: f64| (rounds > 0).then(|| sum / rounds as f64);
        let by_depth = statistics.accepted_by_depth().iter();
        Self {
            name: name.to_owned(),
            requests: tally.asked,
            finished: tally.finished,
            refused: tally.refused,
            failed: tally.failed,
            failovers: tally.failovers,
            tokens: tally.tokens,
            timeline: tally.timeline.clone(),
            tokens_per_second: tally.counted as f64 / seconds,
            tau: statistics.tau(),
            nodes: statistics.mean_nodes(),
            drafted: a_round(tally.drafted_rounds as f64),
            draft_ms: a_round(ms(tally.draft)),
            accepted_by_depth: by_depth.filter_map(|&count| a_round(count as f64)).collect(),
            first_token_ms: Spread::of(&tally.first_token),
            token_ms: Spread::of(&tally.token),
            answer_ms: Spread::of(&tally.answer),
            verifiers,
        }
    }
}

fn pooled(tallies: &[Tally], samples: fn(&Tally) -> &Vec<f32>) -> Option<Spread> {
    Spread::of(&tallies.iter().flat_map(samples).copied().collect::<Vec<f32>>())
}

fn service<'c>(name: &str, counts: impl Iterator<Item = &'c PassCounts>, seconds: f64) -> ServiceReport {
    let (mut all, mut count, mut busiest) = (PassCounts::default(), 0, 0.0_f64);
    for one in counts {
        all.merge(one);
        count += 1;
        busiest = busiest.max(one.busy.as_secs_f64() / seconds);
    }
    ServiceReport {
        name: name.to_owned(),
        count,
        utilisation: all.busy.as_secs_f64() / seconds / count.max(1) as f64,
        busiest,
        passes: all.passes,
        rows: all.mean_rows(),
        most_rows: all.most_rows,
        filled: all.sequences as f64 / all.could.max(1) as f64,
    }
}
