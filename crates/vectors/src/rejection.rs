//! Cases of rejection acceptance: how likely each token of a drawn tree is, what given draws decide, and what a round
//! commits over all that can be drawn.

use std::collections::BTreeMap;

use espalier_speculation::{
    Candidates, Distribution, DrawnTree, RejectionLaw, Token, UniformError, accept_by_rejection, round_law,
};
use serde::Deserialize;
use serde_json::Value;

use crate::acceptance::{ExpectedWalk, Shape};
use crate::case::{close, parse, same};
use crate::toy::Models;

#[derive(Deserialize)]
struct Rejection {
    #[serde(flatten)]
    shape: Shape,
    /// By node, the root first.
    p: Vec<Vec<f64>>,
    q: Vec<Option<Vec<f64>>>,
    expect: ExpectedLaw,
}

#[derive(Deserialize)]
struct ExpectedLaw {
    accept: Vec<Option<f64>>,
    bonus: Vec<Option<Vec<f64>>>,
    walks: Vec<DrawnWalk>,
}

#[derive(Deserialize)]
struct DrawnWalk {
    uniforms: Vec<f64>,
    #[serde(flatten)]
    expect: ExpectedWalk,
}

/// Each node is accepted as likely as it should be, each bonus is drawn from what it should be, and given draws decide.
pub(crate) fn tree(_: &Models, case: Value) -> Result<(), String> {
    let case: Rejection = parse(case)?;
    let q = case.q.iter().map(|q| q.as_deref().map(distribution).transpose());
    let drawn = DrawnTree::new(case.shape.tree()?, q.collect::<Result<_, _>>()?).map_err(|fault| fault.to_string())?;
    let p = distributions(&case.p)?;
    same("rows of p", &p.len(), &(drawn.tree().len() + 1))?;
    let law = RejectionLaw::new(&drawn, |node| p[node].clone());
    matches_law(&law, &case.expect, case.p[0].len())?;
    case.expect.walks.iter().try_for_each(|walk| matches_walk(&drawn, &p, walk))
}

fn matches_law(found: &RejectionLaw, expected: &ExpectedLaw, vocab: usize) -> Result<(), String> {
    let accept = |accept: &[Option<f64>]| accept.iter().map(|accept| accept.map(|prob| vec![prob])).collect();
    rows_match("accept", accept(&found.accept), accept(&expected.accept))?;
    let bonus = found.bonus.iter().map(|bonus| bonus.as_ref().map(|bonus| dense(bonus, vocab)));
    rows_match("bonus", bonus.collect(), expected.bonus.clone())
}

/// Every row is there or not as expected, and its floats are close.
fn rows_match(what: &str, found: Vec<Option<Vec<f64>>>, expected: Vec<Option<Vec<f64>>>) -> Result<(), String> {
    let there = |rows: &[Option<Vec<f64>>]| rows.iter().map(Option::is_some).collect::<Vec<bool>>();
    same(&format!("{what}, is it null"), &there(&found), &there(&expected))?;
    let flat = |rows: Vec<Option<Vec<f64>>>| rows.into_iter().flatten().flatten().collect::<Vec<f64>>();
    close(what, &flat(found), &flat(expected))
}

/// The walk is the one expected, and uses every draw.
fn matches_walk(drawn: &DrawnTree, p: &[Distribution], walk: &DrawnWalk) -> Result<(), String> {
    let mut uniforms = walk.uniforms.iter().copied();
    let target = |node: usize| Ok::<_, UniformError>(p[node].clone());
    let found = accept_by_rejection(drawn, target, &mut uniforms).map_err(|fault| fault.to_string())?;
    walk.expect.matches(&found)?;
    same("unused draws", &uniforms.len(), &0)
}

#[derive(Deserialize)]
struct Truncation {
    q: Vec<f64>,
    k: usize,
    expect: Truncated,
}

#[derive(Deserialize)]
struct Truncated {
    tokens: Vec<Token>,
    probs: Vec<f64>,
}

/// The draft's distribution loses all but its best tokens.
pub(crate) fn truncate(_: &Models, case: Value) -> Result<(), String> {
    let case: Truncation = parse(case)?;
    let best = Candidates::from_probs(&case.q, case.k).map_err(|error| error.to_string())?;
    let q = Distribution::of_candidates(&best).map_err(|error| error.to_string())?;
    let tokens: Vec<Token> = best.tokens().iter().map(|&(token, _)| token).collect();
    let probs: Vec<f64> = tokens.iter().map(|&token| q.prob(token)).collect();
    same("tokens", &tokens, &case.expect.tokens)?;
    close("probs", &probs, &case.expect.probs)
}

#[derive(Deserialize)]
struct Lossless {
    root: Token,
    fan_out: Vec<usize>,
    draft: Vec<Vec<f64>>,
    target: Vec<Vec<f64>>,
    expect: ExpectedCommits,
}

#[derive(Deserialize)]
struct ExpectedCommits {
    first_two: Vec<Vec<f64>>,
    committed_lengths: Vec<f64>,
}

/// Rows by the last token, and what is drawn from them.
struct Rounds {
    draft: Vec<Distribution>,
    target: Vec<Distribution>,
    fan_out: Vec<usize>,
}

impl Rounds {
    /// The probability of every run of tokens that a round after `root` can commit.
    fn law(&self, root: Token) -> Result<BTreeMap<Vec<Token>, f64>, String> {
        let row = |rows: &[Distribution], path: &[Token]| rows[*path.last().unwrap_or(&root) as usize].clone();
        let law = round_law(|path| row(&self.draft, path), |path| row(&self.target, path), &self.fan_out);
        law.map_err(|error| error.to_string())
    }

    /// The probability of each first two tokens; a round that commits one is followed by another.
    fn first_two(&self, root: Token) -> Result<Vec<Vec<f64>>, String> {
        let vocab = self.target.len();
        let mut found = vec![vec![0.0; vocab]; vocab];
        for (run, prob) in self.law(root)? {
            match run[..] {
                [first] => {
                    for (next, share) in self.law(first)? {
                        found[first as usize][next[0] as usize] += prob * share;
                    }
                }
                [first, second, ..] => found[first as usize][second as usize] += prob,
                [] => {}
            }
        }
        Ok(found)
    }

    /// The probability that a round after `root` commits 1, 2, … tokens.
    fn committed_lengths(&self, root: Token) -> Result<Vec<f64>, String> {
        let mut lengths = vec![0.0; self.fan_out.len() + 1];
        for (run, prob) in self.law(root)? {
            lengths[run.len() - 1] += prob;
        }
        Ok(lengths)
    }
}

/// Over every tree that can be drawn, what is committed has the target's distribution.
pub(crate) fn lossless(_: &Models, case: Value) -> Result<(), String> {
    let case: Lossless = parse(case)?;
    let rows = case.target.len();
    let square = case.draft.len() == rows && case.draft.iter().chain(&case.target).all(|row| row.len() == rows);
    if !square || case.root as usize >= rows {
        return Err("is not about two square tables and one of their rows".to_owned());
    }
    let (draft, target) = (distributions(&case.draft)?, distributions(&case.target)?);
    let rounds = Rounds { draft, target, fan_out: case.fan_out };
    close("first_two", &rounds.first_two(case.root)?.concat(), &case.expect.first_two.concat())?;
    close("committed_lengths", &rounds.committed_lengths(case.root)?, &case.expect.committed_lengths)
}

fn distribution(probs: &[f64]) -> Result<Distribution, String> {
    Distribution::from_probs(probs).map_err(|error| error.to_string())
}

fn distributions(rows: &[Vec<f64>]) -> Result<Vec<Distribution>, String> {
    rows.iter().map(|row| distribution(row)).collect()
}

/// One probability for each token of the vocabulary.
fn dense(distribution: &Distribution, vocab: usize) -> Vec<f64> {
    (0..vocab as Token).map(|token| distribution.prob(token)).collect()
}
