//! Cases of draft policies over toy models.

use espalier_speculation::{
    Costs, Grower, Limits, Node, Proposal, RoundStart, Token, Tree, commit, parse_policy, walk,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::case::{close, parse, same};
use crate::toy::{Models, Toy};

/// A case's inputs, for chains and trees alike.
#[derive(Deserialize)]
struct Inputs {
    model: String,
    context: Vec<Token>,
    params: Map<String, Value>,
}

impl Inputs {
    /// A grower under `policy` with the case's parameters; times are no parameters but costs.
    fn grower(&self, policy: &str) -> Result<Grower, String> {
        let given = self.params.iter().filter(|(key, _)| !matches!(key.as_str(), "s_d" | "s_t"));
        let text = given.fold(policy.to_owned(), |text, (key, value)| format!("{text},{key}={value}"));
        let spec = parse_policy(&text).map_err(|error| error.to_string())?;
        Ok(Grower::new(&spec, Vec::new()))
    }

    /// A round whose only limits are the policy's own.
    fn start(&self) -> RoundStart {
        let default = Costs::default();
        let time = |key: &str, default| self.params.get(key).and_then(Value::as_f64).unwrap_or(default);
        RoundStart {
            costs: Costs {
                level_ms: time("s_d", default.level_ms),
                verification_ms: time("s_t", default.verification_ms),
                ..default
            },
            limits: Limits { max_nodes: usize::MAX, max_depth: usize::MAX },
            position: 0,
            seed: 0,
        }
    }
}

/// One round as it was drafted, with what the vectors say about each level.
struct Drafted {
    proposal: Proposal,
    /// Entropy of each distribution drawn from, in the order of drafting.
    entropies: Vec<f64>,
    /// Every `path_prob` drafted up to each level.
    path_probs: Vec<Vec<f64>>,
}

/// Drafts one round after `context`.
fn draft(grower: &mut Grower, start: &RoundStart, toy: &Toy, context: &[Token]) -> Result<Drafted, String> {
    let (mut entropies, mut path_probs) = (Vec::new(), Vec::new());
    grower.begin_round(start);
    while let Some(frontier) = grower.frontier() {
        let texts = frontier.iter().map(|&id| text_at(grower, context, id));
        let candidates = texts.map(|text| toy.draft.candidates(&text, grower.width()));
        let candidates = candidates.collect::<Result<Vec<_>, _>>()?;
        entropies.extend(candidates.iter().map(|candidates| candidates.entropy()));
        grower.extend(&candidates).map_err(|error| error.to_string())?;
        path_probs.push((1..).map_while(|id| grower.node(id)).map(|node| node.path_prob).collect());
    }
    Ok(Drafted { proposal: grower.finish(), entropies, path_probs })
}

/// The context followed by the path to draft node `id`.
fn text_at(grower: &Grower, context: &[Token], id: usize) -> Vec<Token> {
    let up = std::iter::successors(grower.node(id), |node| grower.node(node.parent));
    let mut path: Vec<Token> = up.map(|node| node.token).collect();
    path.reverse();
    [context, &path].concat()
}

#[derive(Deserialize)]
struct TreeCase {
    #[serde(flatten)]
    inputs: Inputs,
    expect: ExpectedTree,
}

#[derive(Deserialize)]
struct ExpectedTree {
    levels_drafted: usize,
    draft_widths: Vec<usize>,
    tokens: Vec<Token>,
    parents: Vec<usize>,
    depths: Vec<usize>,
    probs: Vec<f64>,
    path_probs: Vec<f64>,
    /// `opt-tree` only.
    expected_lengths: Option<Vec<f64>>,
}

/// A tree policy drafts and keeps the expected nodes.
pub(crate) fn tree(policy: &str, models: &Models, case: Value) -> Result<(), String> {
    let TreeCase { inputs, expect } = parse(case)?;
    let toy = models.get(&inputs.model)?;
    let found = draft(&mut inputs.grower(policy)?, &inputs.start(), toy, &inputs.context)?;
    same("levels_drafted", &found.proposal.widths.len(), &expect.levels_drafted)?;
    same("draft_widths", &found.proposal.widths, &expect.draft_widths)?;
    same_nodes(&found.proposal.tree, &expect)?;
    if let Some(expected) = expect.expected_lengths {
        let n = [&inputs.params["n"], &inputs.params["max_nodes"]].into_iter().filter_map(Value::as_u64).min();
        let lengths: Vec<f64> = found.path_probs.into_iter().map(|probs| largest(probs, n)).collect();
        close("expected_lengths", &lengths, &expected)?;
    }
    Ok(())
}

fn same_nodes(tree: &Tree, expect: &ExpectedTree) -> Result<(), String> {
    fn column<T>(tree: &Tree, field: impl Fn(&Node) -> T) -> Vec<T> {
        tree.nodes().iter().map(field).collect()
    }
    same("tokens", &column(tree, |node| node.token), &expect.tokens)?;
    same("parents", &column(tree, |node| node.parent), &expect.parents)?;
    same("depths", &column(tree, |node| node.depth), &expect.depths)?;
    close("probs", &column(tree, |node| node.prob), &expect.probs)?;
    close("path_probs", &column(tree, |node| node.path_prob), &expect.path_probs)
}

/// Sum of the `n` largest of `probs`.
fn largest(mut probs: Vec<f64>, n: Option<u64>) -> f64 {
    probs.sort_unstable_by(|a, b| b.total_cmp(a));
    probs.iter().take(n.unwrap_or(u64::MAX) as usize).sum()
}

#[derive(Deserialize)]
struct ChainCase {
    #[serde(flatten)]
    inputs: Inputs,
    expect: ExpectedRounds,
}

#[derive(Deserialize)]
struct ExpectedRounds {
    rounds: Vec<ExpectedRound>,
}

#[derive(Deserialize)]
struct ExpectedRound {
    drafted: Vec<Token>,
    accepted: usize,
    bonus: Token,
    /// `heuristic` only: the length planned.
    k: Option<usize>,
    /// `svip` only.
    entropies: Option<Vec<f64>>,
}

/// A chain policy drafts the expected chains, round after round, against a greedy target.
pub(crate) fn chain(policy: &str, models: &Models, case: Value) -> Result<(), String> {
    let ChainCase { inputs, expect } = parse(case)?;
    let toy = models.get(&inputs.model)?;
    let mut grower = inputs.grower(policy)?;
    let mut context = inputs.context.clone();
    for (index, expected) in expect.rounds.iter().enumerate() {
        let found = draft(&mut grower, &inputs.start(), toy, &context)?;
        round(&mut grower, toy, &mut context, &found, expected).map_err(|what| format!("round {index}: {what}"))?;
    }
    Ok(())
}

/// Verifies one chain, compares, and commits it to `context`.
fn round(
    grower: &mut Grower,
    toy: &Toy,
    context: &mut Vec<Token>,
    found: &Drafted,
    expected: &ExpectedRound,
) -> Result<(), String> {
    let tree = &found.proposal.tree;
    let drafted: Vec<Token> = tree.nodes().iter().map(|node| node.token).collect();
    let walk = walk(tree, |node| toy.target.best(&[context, &drafted[..node]].concat()))?;
    same("drafted", &drafted, &expected.drafted)?;
    same("accepted", &walk.path.len(), &expected.accepted)?;
    same("bonus", &walk.bonus, &expected.bonus)?;
    same("k", &expected.k.unwrap_or(drafted.len()), &drafted.len())?;
    if let Some(entropies) = &expected.entropies {
        close("entropies", &found.entropies, entropies)?;
    }
    let committed = commit(tree, &walk, &[], usize::MAX);
    grower.observe(&walk.path[..committed.accepted], committed.tokens.len());
    context.extend(committed.tokens);
    Ok(())
}
