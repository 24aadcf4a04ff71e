//! Cases of trees: which are impossible, and which path the target accepts.

use espalier_speculation::{Token, Tree, TreeBounds, TreeFault, Walk, rank_with_noise, walk, winner};
use serde::Deserialize;
use serde_json::Value;

use crate::case::{parse, same};
use crate::toy::Models;

/// A tree as the vectors write it, all of whose nodes are certain.
#[derive(Deserialize)]
pub(crate) struct Shape {
    tokens: Vec<Token>,
    parents: Vec<u32>,
}

impl Shape {
    pub(crate) fn tree(&self) -> Result<Tree, String> {
        let bounds = TreeBounds { vocab: usize::MAX, max_nodes: usize::MAX, max_depth: usize::MAX };
        let probs = vec![1.0; self.tokens.len()];
        Tree::parse(&bounds, &self.tokens, &self.parents, &probs).map_err(|fault| fault.to_string())
    }
}

#[derive(Deserialize)]
pub(crate) struct ExpectedWalk {
    path: Vec<usize>,
    bonus: Token,
    /// Where the case gives the draft's distribution too.
    candidates: Option<Vec<Token>>,
}

impl ExpectedWalk {
    pub(crate) fn matches(&self, found: &Walk) -> Result<(), String> {
        same("path", &found.path, &self.path)?;
        same("bonus", &found.bonus, &self.bonus)
    }
}

#[derive(Deserialize)]
struct Greedy {
    model: String,
    context: Vec<Token>,
    #[serde(flatten)]
    shape: Shape,
    expect: ExpectedWalk,
}

/// The arg-max of the target's distribution decides at each node.
pub(crate) fn greedy(models: &Models, case: Value) -> Result<(), String> {
    let case: Greedy = parse(case)?;
    let target = &models.get(&case.model)?.target;
    let tree = case.shape.tree()?;
    let found = walk(&tree, |node| {
        let path = tree.path(node).into_iter().filter_map(|id| tree.node(id));
        let text: Vec<Token> = case.context.iter().copied().chain(path.map(|node| node.token)).collect();
        target.best(&text)
    })?;
    case.expect.matches(&found)
}

#[derive(Deserialize)]
struct Coupled {
    #[serde(flatten)]
    shape: Shape,
    /// By node and token; `None` is minus infinity.
    log_p: Vec<Vec<Option<f64>>>,
    /// By depth of the deciding node and token.
    noise: Vec<Vec<f64>>,
    q: Option<Vec<f64>>,
    k: Option<usize>,
    expect: ExpectedWalk,
}

impl Coupled {
    fn noise(&self, depth: usize) -> Result<&[f64], String> {
        let noise = self.noise.get(depth).map(Vec::as_slice);
        noise.ok_or_else(|| format!("there is no noise for depth {depth}"))
    }

    /// The token decided at `node`.
    fn decide(&self, tree: &Tree, node: usize) -> Result<Token, String> {
        let depth = tree.node(node).map_or(0, |node| node.depth);
        let row = self.log_p.get(node).ok_or_else(|| format!("there is no log_p for node {node}"))?;
        let scores = row.iter().map(|log_p| log_p.unwrap_or(f64::NEG_INFINITY));
        winner((0..).zip(scores), self.noise(depth)?).ok_or_else(|| format!("no token is possible at node {node}"))
    }

    fn candidates(&self, q: &[f64], k: usize) -> Result<Vec<Token>, String> {
        let scores: Vec<(Token, f64)> = (0..).zip(q.iter().map(|q| q.ln())).collect();
        let candidates = rank_with_noise(&scores, self.noise(0)?, k);
        Ok(candidates.tokens().iter().map(|&(token, _)| token).collect())
    }
}

/// The arg-max of log-probability plus given noise decides at each node.
pub(crate) fn coupled(_: &Models, case: Value) -> Result<(), String> {
    let case: Coupled = parse(case)?;
    let tree = case.shape.tree()?;
    case.expect.matches(&walk(&tree, |node| case.decide(&tree, node))?)?;
    if let (Some(q), Some(k)) = (&case.q, case.k) {
        let found = case.candidates(q, k)?;
        same("candidates", &Some(found), &case.expect.candidates)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Invalid {
    vocab: usize,
    tokens: Vec<i64>,
    parents: Vec<i64>,
    probs: Vec<Number>,
    expect: ExpectedFault,
}

/// A number, or what JSON has none for: `"NaN"`, `"Infinity"`, `"-Infinity"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Named(String),
}

impl Number {
    fn value(&self) -> Result<f64, String> {
        match self {
            Self::Finite(value) => Ok(*value),
            Self::Named(name) => name.parse().map_err(|_| format!("`{name}` is no number")),
        }
    }
}

#[derive(Deserialize)]
struct ExpectedFault {
    valid: bool,
    fault: Option<String>,
}

/// A tree off the wire is refused for the fault it has.
///
/// Tokens and parents travel unsigned: a negative one arrives as a number beyond all others.
pub(crate) fn invalid(_: &Models, case: Value) -> Result<(), String> {
    let case: Invalid = parse(case)?;
    let unsigned = |numbers: &[i64]| -> Vec<u32> {
        numbers.iter().map(|&number| u32::try_from(number).unwrap_or(u32::MAX)).collect()
    };
    let probs = case.probs.iter().map(Number::value).collect::<Result<Vec<_>, _>>()?;
    let bounds = TreeBounds { vocab: case.vocab, max_nodes: usize::MAX, max_depth: usize::MAX };
    let found = Tree::parse(&bounds, &unsigned(&case.tokens), &unsigned(&case.parents), &probs);
    same("valid", &case.expect.fault.is_none(), &case.expect.valid)?;
    same("fault", &found.err().map(word_for), &case.expect.fault.as_deref())
}

/// The vectors' word for a fault.
fn word_for(fault: TreeFault) -> &'static str {
    match fault {
        TreeFault::Lengths { .. } => "lengths",
        TreeFault::TooManyNodes { .. } => "too_many_nodes",
        TreeFault::TooDeep { .. } => "too_deep",
        TreeFault::Token { .. } => "token",
        TreeFault::Parent { .. } => "parents",
        TreeFault::Probability { .. } => "probability",
        TreeFault::ZeroProbability { .. } => "zero_probability",
        TreeFault::DuplicateSibling { .. } => "duplicate_siblings",
    }
}
