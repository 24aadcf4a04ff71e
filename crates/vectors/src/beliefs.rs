//! Cases of what Thompson sampling believes after each round.

use espalier_speculation::{BetaBelief, CalibratedBelief};
use serde::Deserialize;
use serde_json::Value;

use crate::case::{close, parse, same};
use crate::toy::Models;

#[derive(Deserialize)]
struct Beta {
    params: BetaParams,
    rounds: Vec<BetaRound>,
    expect: ExpectedBeta,
}

#[derive(Deserialize)]
struct BetaParams {
    a0: f64,
    b0: f64,
}

#[derive(Deserialize)]
struct BetaRound {
    accepted: usize,
    drafted: usize,
}

/// After each round.
#[derive(Deserialize)]
struct ExpectedBeta {
    a: Vec<f64>,
    b: Vec<f64>,
}

/// `beta-ts` counts acceptances and rejections as expected.
pub(crate) fn beta(_: &Models, case: Value) -> Result<(), String> {
    let Beta { params, rounds, expect } = parse(case)?;
    let mut belief = BetaBelief::new(params.a0, params.b0);
    let after = rounds.iter().map(|round| {
        belief.observe(round.accepted, round.drafted);
        (belief.a(), belief.b())
    });
    let (a, b): (Vec<f64>, Vec<f64>) = after.unzip();
    close("a", &a, &expect.a)?;
    close("b", &b, &expect.b)
}

#[derive(Deserialize)]
struct Calibrated {
    params: CalibratedParams,
    rounds: Vec<CalibratedRound>,
    expect: ExpectedRounds,
}

#[derive(Deserialize)]
struct CalibratedParams {
    s_m: f64,
    s_s: f64,
    theta_hat0: f64,
}

#[derive(Deserialize)]
struct CalibratedRound {
    /// The predictor's output at each step.
    theta_m: Vec<f64>,
    accepted: usize,
    committed: usize,
}

#[derive(Deserialize)]
struct ExpectedRounds {
    rounds: Vec<ExpectedRound>,
}

/// `mu` at each step and `var` before the round, the rest after it.
#[derive(Deserialize)]
struct ExpectedRound {
    mu: Vec<f64>,
    var: f64,
    n: usize,
    emitted: usize,
    theta_hat: f64,
}

/// `cali-ts` believes what is expected before and after every round.
pub(crate) fn calibrated(_: &Models, case: Value) -> Result<(), String> {
    let Calibrated { params, rounds, expect } = parse(case)?;
    same("rounds", &rounds.len(), &expect.rounds.len())?;
    let mut belief = CalibratedBelief::new(params.s_m, params.s_s, params.theta_hat0);
    for (index, (round, expected)) in rounds.iter().zip(&expect.rounds).enumerate() {
        calibrated_round(&mut belief, round, expected).map_err(|what| format!("round {index}: {what}"))?;
    }
    Ok(())
}

fn calibrated_round(
    belief: &mut CalibratedBelief,
    round: &CalibratedRound,
    expected: &ExpectedRound,
) -> Result<(), String> {
    let mu: Vec<f64> = round.theta_m.iter().map(|&theta_m| belief.mean(theta_m)).collect();
    close("mu", &mu, &expected.mu)?;
    close("var", &[belief.variance()], &[expected.var])?;
    belief.observe(round.accepted, round.committed);
    same("n", &belief.rounds(), &expected.n)?;
    same("emitted", &belief.emitted(), &expected.emitted)?;
    close("theta_hat", &[belief.theta_hat()], &[expected.theta_hat])
}
