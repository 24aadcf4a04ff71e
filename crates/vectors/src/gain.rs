//! Cases of expected gain: the tokens a millisecond that trees of known probabilities make at known costs.

use espalier_speculation::{GainRate, LinearCosts, Token, Tree, best_rates, rate_bound};
use serde::Deserialize;
use serde_json::Value;

use crate::case::{close, parse, same};
use crate::toy::{Models, Table};

#[derive(Deserialize)]
struct Case {
    model: String,
    context: Vec<Token>,
    params: Params,
    costs: LineCosts,
    expect: Expected,
}

#[derive(Deserialize)]
struct Params {
    k: usize,
    levels: usize,
    /// Most nodes of a level that are expanded, the best; `None`: all.
    frontier: Option<usize>,
    max_nodes: usize,
}

/// `T_d(w) = a + b w` and `T_v(n) = c + d max(0, n - m0)`.
#[derive(Deserialize)]
struct LineCosts {
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    m0: usize,
}

impl From<LineCosts> for LinearCosts {
    fn from(LineCosts { a, b, c, d, m0 }: LineCosts) -> Self {
        Self { level: a, level_node: b, verification: c, verification_node: d, free_nodes: m0 }
    }
}

#[derive(Deserialize)]
struct Expected {
    draft_widths: Vec<usize>,
    by_levels: Vec<ExpectedRate>,
    best: ExpectedRate,
    upper_bound: f64,
}

#[derive(Deserialize)]
struct ExpectedRate {
    levels: usize,
    nodes: usize,
    rate: f64,
}

impl ExpectedRate {
    fn matches(&self, what: &str, found: &GainRate) -> Result<(), String> {
        same(&format!("levels of {what}"), &found.levels, &self.levels)?;
        same(&format!("nodes of {what}"), &found.nodes, &self.nodes)?;
        close(&format!("rate of {what}"), &[found.rate], &[self.rate])
    }
}

/// Every number of levels has the expected best tree, and no tree beats the expected bound.
pub(crate) fn rates(models: &Models, case: Value) -> Result<(), String> {
    let Case { model, context, params, costs, expect } = parse(case)?;
    let table = &models.get(&model)?.draft;
    let costs = LinearCosts::from(costs);
    let (drafted, widths) = grow(table, &context, &params)?;
    same("draft_widths", &widths, &expect.draft_widths)?;
    let found = best_rates(&drafted, &widths, &costs, params.max_nodes);
    same("by_levels, its length", &found.len(), &expect.by_levels.len())?;
    for (found, expected) in found.iter().zip(&expect.by_levels) {
        expected.matches("by_levels", found)?;
    }
    // Ties go to fewer levels.
    let best = found.iter().reduce(|best, rate| if rate.rate > best.rate { rate } else { best });
    expect.best.matches("best", best.ok_or("there are no rates")?)?;
    let (all, _) = grow(table, &context, &Params { frontier: None, ..params })?;
    close("upper_bound", &[rate_bound(&all, &costs, params.max_nodes)], &[expect.upper_bound])
}

/// Every node that is drafted, and the nodes run at each level.
fn grow(table: &Table, context: &[Token], params: &Params) -> Result<(Tree, Vec<usize>), String> {
    let (mut tree, mut widths, mut newest) = (Tree::new(), Vec::new(), vec![0]);
    for _ in 0..params.levels {
        newest = best_of(&tree, newest, params.frontier);
        widths.push(newest.len());
        let before = tree.len();
        for &parent in &newest {
            expand(&mut tree, table, context, parent, params.k)?;
        }
        newest = (before + 1..=tree.len()).collect();
    }
    Ok((tree, widths))
}

/// The best of `nodes` by `path_prob`, ties by number; all of them without a `frontier`.
fn best_of(tree: &Tree, mut nodes: Vec<usize>, frontier: Option<usize>) -> Vec<usize> {
    let path_prob = |id: usize| tree.node(id).map_or(1.0, |node| node.path_prob);
    if let Some(frontier) = frontier {
        nodes.sort_by(|&a, &b| path_prob(b).total_cmp(&path_prob(a)));
        nodes.truncate(frontier);
        nodes.sort_unstable();
    }
    nodes
}

/// Gives `parent` its `k` best children after `context` and its own path.
fn expand(tree: &mut Tree, table: &Table, context: &[Token], parent: usize, k: usize) -> Result<(), String> {
    let path = tree.path(parent).into_iter().filter_map(|id| tree.node(id));
    let text: Vec<Token> = context.iter().copied().chain(path.map(|node| node.token)).collect();
    for &(token, prob) in table.candidates(&text, k)?.tokens() {
        tree.push(parent, token, prob).map_err(|fault| fault.to_string())?;
    }
    Ok(())
}
