//! Cases of figures computed from counts.

use espalier_speculation::{RoundRecord, Statistics};
use serde::Deserialize;
use serde_json::Value;

use crate::case::{close, parse, same};
use crate::toy::Models;

#[derive(Deserialize)]
struct Metrics {
    kind: Kind,
    rounds: Vec<Round>,
    seconds: f64,
    plain_tokens: usize,
    plain_seconds: f64,
    expect: ExpectedMetrics,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Chain,
    Tree,
}

#[derive(Deserialize)]
struct Round {
    drafted: usize,
    verified: usize,
    depth: usize,
    accepted: usize,
    committed: usize,
}

impl From<&Round> for RoundRecord {
    fn from(round: &Round) -> Self {
        let &Round { drafted, verified, depth, accepted, committed } = round;
        Self { drafted, verified, depth, accepted, committed }
    }
}

#[derive(Deserialize)]
struct ExpectedMetrics {
    tau: Option<f64>,
    alpha: Option<f64>,
    draft_efficiency: Option<f64>,
    v_d: Option<f64>,
    r_d: Option<f64>,
    hm: Option<f64>,
    speedup: Option<f64>,
}

/// The figures of a run, pooled over its rounds.
pub(crate) fn metrics(_: &Models, case: Value) -> Result<(), String> {
    let case: Metrics = parse(case)?;
    let mut found = Statistics::default();
    case.rounds.iter().for_each(|round| found.add(&round.into()));
    let alpha = match case.kind {
        Kind::Chain => found.alpha_chain(),
        Kind::Tree => found.alpha_tree(),
    };
    let speedup = found.speedup(case.seconds, case.plain_tokens, case.plain_seconds);
    let expect = case.expect;
    figure("tau", found.tau(), expect.tau)?;
    figure("alpha", alpha, expect.alpha)?;
    figure("draft_efficiency", found.draft_efficiency(), expect.draft_efficiency)?;
    figure("v_d", found.v_d(), expect.v_d)?;
    figure("r_d", found.r_d(), expect.r_d)?;
    figure("hm", found.hm(), expect.hm)?;
    figure("speedup", speedup, expect.speedup)
}

fn figure(what: &str, found: Option<f64>, expected: Option<f64>) -> Result<(), String> {
    match (found, expected) {
        (Some(found), Some(expected)) => close(what, &[found], &[expected]),
        (found, expected) => same(what, &found, &expected),
    }
}
