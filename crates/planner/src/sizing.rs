//! How many services keep to the goals, and where speculation stops paying.

use serde::Serialize;
use tokio::time::Instant;

use crate::report::{Report, TargetReport};
use crate::scenario::{Goals, Load, Scenario, ScenarioError};
use crate::simulation::simulate;

/// Simulations that a search may take for one number of drafters.
const TRIES_MAX: usize = 24;

/// Drafters are tried up to so many of each pool.
const DRAFTERS_MAX: usize = 64;

/// Of verifiers that are busy for less of the time, more would not be faster.
const IDLE: f64 = 0.25;

/// The share of requests that may be refused or fail.
const LOST_MAX: f64 = 0.001;

/// Loads that speculation is tried at, relative to the scenario's.
const FACTORS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// A gain of less than this is none.
const GAIN_MIN: f64 = 1.02;

/// What simulations of changed scenarios have in common.
#[derive(Debug, Clone, Copy)]
pub struct Chance {
    /// What decides every draw.
    pub seed: u64,
    /// Any moment, as for [`crate::simulate`].
    pub epoch: Instant,
}

/// Services that keep to the goals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizing {
    /// Drafters of each pool, in the scenario's order.
    pub drafters: Vec<usize>,
    /// Verifiers of each copy of each target, in the scenario's order.
    pub verifiers: Vec<usize>,
    /// Services in all, copies counted.
    pub services: usize,
    /// What they make.
    pub report: Report,
}

/// What drafting is worth at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worth {
    /// The load, relative to the scenario's.
    pub load: f64,
    /// Of each target in the scenario's order: how many times what it is without drafting. Where the load is open, how fast
    /// answers are; where it is closed, tokens a second. None where too little was answered.
    pub gain: Vec<Option<f64>>,
    /// Whether requests were refused.
    pub is_over: bool,
}

impl Worth {
    /// Whether drafting pays for a target.
    pub fn pays(&self, target: usize) -> bool {
        self.gain.get(target).copied().flatten().is_some_and(|gain| gain >= GAIN_MIN)
    }
}

impl Chance {
    fn simulate(self, scenario: &Scenario) -> Result<Report, ScenarioError> {
        simulate(scenario, self.seed, self.epoch)
    }

    /// The fewest services that keep to the goals, with drafters and without: none where no number that was tried does.
    ///
    /// # Errors
    /// What is wrong with the scenario.
    pub fn size(self, scenario: &Scenario) -> Result<[Option<Sizing>; 2], ScenarioError> {
        let plain = self.verifiers(&without_drafting(scenario))?;
        let (mut best, mut count): (Option<Sizing>, usize) = (None, 1);
        while count <= DRAFTERS_MAX && !scenario.drafters.is_empty() {
            let mut tried = scenario.clone();
            tried.drafters.iter_mut().for_each(|pool| pool.count = count);
            let found = self.verifiers(&tried)?;
            let services = |sizing: &Option<Sizing>| sizing.as_ref().map_or(usize::MAX, |sizing| sizing.services);
            let (before, now) = (services(&best), services(&found));
            if now < before {
                best = found;
            } else if best.is_some() {
                // More drafters save fewer verifiers than they are.
                break;
            }
            count *= 2;
        }
        Ok([best, plain])
    }

    /// The fewest verifiers with the drafters that there are.
    fn verifiers(self, scenario: &Scenario) -> Result<Option<Sizing>, ScenarioError> {
        let mut tried = scenario.clone();
        tried.targets.iter_mut().for_each(|target| target.verifiers = 1);
        let mut found = None;
        for _ in 0..TRIES_MAX {
            let report = self.simulate(&tried)?;
            let missed: Vec<usize> = missed(&scenario.goals, &report);
            if missed.is_empty() {
                found = Some(Sizing::of(&tried, report));
                break;
            }
            if missed.iter().all(|&class| report.targets[class].verifiers.utilisation < IDLE) {
                break;
            }
            for class in missed {
                let verifiers = &mut tried.targets[class].verifiers;
                *verifiers += (*verifiers / 4).max(1);
            }
        }
        found.map(|found| self.fewer(tried, found)).transpose()
    }

    /// Takes verifiers away while the goals are kept to.
    fn fewer(self, mut tried: Scenario, mut found: Sizing) -> Result<Sizing, ScenarioError> {
        for class in 0..tried.targets.len() {
            while tried.targets[class].verifiers > 1 {
                tried.targets[class].verifiers -= 1;
                let report = self.simulate(&tried)?;
                if !missed(&tried.goals, &report).is_empty() {
                    tried.targets[class].verifiers += 1;
                    break;
                }
                found = Sizing::of(&tried, report);
            }
        }
        Ok(found)
    }

    /// What drafting is worth at several loads.
    ///
    /// # Errors
    /// What is wrong with the scenario.
    pub fn worth(self, scenario: &Scenario) -> Result<Vec<Worth>, ScenarioError> {
        FACTORS.iter().map(|&factor| self.worth_at(&at_load(scenario, factor), factor)).collect()
    }

    fn worth_at(self, scenario: &Scenario, load: f64) -> Result<Worth, ScenarioError> {
        let (drafted, plain) = (self.simulate(scenario)?, self.simulate(&without_drafting(scenario))?);
        let is_open = matches!(scenario.load, Load::Open(_));
        let gain = |(drafted, plain): (&TargetReport, &TargetReport)| {
            let gain = match is_open {
                true => plain.answer_ms?.p50 / drafted.answer_ms?.p50,
                false => drafted.tokens_per_second / plain.tokens_per_second,
            };
            gain.is_finite().then_some(gain)
        };
        let is_over = plain.targets.iter().any(|target| target.refused > 0);
        Ok(Worth { load, gain: drafted.targets.iter().zip(&plain.targets).map(gain).collect(), is_over })
    }
}

impl Sizing {
    fn of(scenario: &Scenario, report: Report) -> Self {
        Self {
            drafters: scenario.drafters.iter().map(|pool| pool.count).collect(),
            verifiers: scenario.targets.iter().map(|target| target.verifiers).collect(),
            services: scenario.drafters_in_all() + scenario.verifiers_in_all(),
            report,
        }
    }
}

/// The targets of a report that miss a goal, by their numbers.
fn missed(goals: &Goals, report: &Report) -> Vec<usize> {
    let misses = |target: &TargetReport| {
        let late = |goal: Option<f64>, found: Option<crate::Spread>| {
            goal.is_some_and(|goal| found.is_none_or(|found| found.p95 > goal))
        };
        let lost = (target.refused + target.failed) as f64 > LOST_MAX * target.requests as f64;
        lost || late(goals.first_token_p95_ms, target.first_token_ms) || late(goals.token_p95_ms, target.token_ms)
    };
    (0..report.targets.len()).filter(|&target| misses(&report.targets[target])).collect()
}

fn without_drafting(scenario: &Scenario) -> Scenario {
    let mut plain = scenario.clone();
    plain.targets.iter_mut().for_each(|target| target.drafted = false);
    (plain.drafters, plain.failures) = (Vec::new(), Vec::new());
    plain
}

fn at_load(scenario: &Scenario, factor: f64) -> Scenario {
    let mut changed = scenario.clone();
    match &mut changed.load {
        Load::Open(_) => changed.targets.iter_mut().for_each(|target| target.rate *= factor),
        Load::Closed(closed) => {
            let times = |count: usize| ((count as f64 * factor).round() as usize).max(1);
            (closed.clients, closed.requests) = (times(closed.clients), closed.requests.map(times));
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SCENARIO: &str = r#"{
        "targets": [{
            "name": "t", "curve": [[1, 10], [8, 10], [64, 40]], "prompt": {"fixed": 20}, "answer": {"fixed": 30},
            "acceptance": {"model": {"favourite": 0.9, "spread": 1, "persistence": 0.4, "runner_up": 0.5}}, "rate": 12
        }],
        "drafters": [{"name": "d", "curve": [[1, 0.5], [64, 2]]}],
        "load": {"open": {"seconds": 8, "warmup_seconds": 1}},
        "goals": {"token_p95_ms": 9}
    }"#;

    fn chance() -> Chance {
        Chance { seed: 1, epoch: Instant::now() }
    }

    #[test]
    fn what_plain_decoding_cannot_make_drafting_does_with_few_services() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let [drafted, plain] = chance().size(&scenario).unwrap();
        assert_eq!(plain, None, "a pass alone takes longer than a token may");
        let drafted = drafted.unwrap();
        assert!(drafted.services <= 6, "{drafted:?}");
        assert!(missed(&scenario.goals, &drafted.report).is_empty());
        assert_eq!(drafted.services, drafted.drafters[0] + drafted.verifiers[0]);
    }

    #[test]
    fn drafting_pays_less_the_more_is_asked() {
        let worth = chance().worth(&Scenario::parse(SCENARIO).unwrap()).unwrap();
        assert_eq!(worth.len(), FACTORS.len());
        assert!(worth[0].pays(0), "{worth:?}");
        assert!(worth[0].gain[0] > worth[4].gain[0], "{worth:?}");
    }
}
