//! Rejection acceptance keeps the target's distribution: by going through everything that can happen, and by 200 000
//! seeded rounds through the code that serves them.
#![allow(clippy::unwrap_used)]

use espalier_speculation::{
    Candidates, Costs, Distribution, Drawing, DrawnTree, Grower, Limits, RejectionLaw, RoundStart, Side, Token, Tree,
    UniformError, Uniforms, Walk, accept_by_rejection, draw_distinct, parse_policy, round_law,
};
use proptest::prelude::*;

/// Tables of next-token probabilities by the last token.
type Table = Vec<Vec<f64>>;

/// A drafter and a target over the same small vocabulary.
#[derive(Debug, Clone)]
struct Models {
    draft: Table,
    target: Table,
}

fn row(table: &Table, root: Token, path: &[Token]) -> Distribution {
    Distribution::from_probs(&table[*path.last().unwrap_or(&root) as usize]).unwrap()
}

/// Some rows of `vocab` probabilities, a few of them 0; a fixed function of `seed`.
fn table(seed: u64, vocab: usize) -> Table {
    let mut draws = Uniforms::new(seed, 0, Side::Draft);
    let mut weight = |_| Some(draws.next().unwrap()).filter(|&u| u > 0.2).map_or(0.0, |u| u * u);
    let mut weights = |_| -> Vec<f64> { (0..vocab).map(&mut weight).collect() };
    let rows = (0..vocab).map(&mut weights).map(|mut row| {
        row[0] += 0.05;
        let sum: f64 = row.iter().sum();
        row.iter().map(|weight| weight / sum).collect()
    });
    rows.collect()
}

fn models(seed: u64, vocab: usize) -> Models {
    Models { draft: table(2 * seed, vocab), target: table(2 * seed + 1, vocab) }
}

/// The exact distribution of the first two committed tokens; a round that commits one is followed by another.
fn first_two(models: &Models, root: Token, fan_out: &[usize]) -> Table {
    let law = |root: Token| {
        let draft = |path: &[Token]| row(&models.draft, root, path);
        round_law(draft, |path| row(&models.target, root, path), fan_out).unwrap()
    };
    let vocab = models.target.len();
    let mut found = vec![vec![0.0; vocab]; vocab];
    for (run, prob) in law(root) {
        let first = run[0] as usize;
        match run.get(1) {
            Some(&second) => found[first][second as usize] += prob,
            None => {
                for (next, share) in law(run[0]) {
                    found[first][next[0] as usize] += prob * share;
                }
            }
        }
    }
    found
}

/// What the target alone would commit.
fn expected_first_two(target: &Table, root: Token) -> Table {
    let first = &target[root as usize];
    first.iter().zip(target).map(|(first, row)| row.iter().map(|second| first * second).collect()).collect()
}

const FAN_OUTS: [&[usize]; 9] = [&[], &[1], &[2], &[3], &[1, 1], &[2, 1], &[1, 2], &[2, 2], &[1, 1, 1]];

#[test]
fn over_every_tree_and_outcome_the_targets_distribution_is_kept() {
    for seed in 0..12 {
        for vocab in [2, 3, 4] {
            let models = models(seed, vocab);
            for fan_out in FAN_OUTS {
                let expected = expected_first_two(&models.target, 1).concat();
                let found = first_two(&models, 1, fan_out).concat();
                let close = found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-9);
                assert!(close, "seed {seed}, vocabulary {vocab}, {fan_out:?}: {found:?}, not {expected:?}");
            }
        }
    }
}

/// Why policies that prune are refused: of two siblings drawn, only the more probable is sent.
#[test]
fn dropping_a_drawn_sibling_for_its_own_probability_changes_the_distribution() {
    let q = Distribution::from_probs(&[0.5, 0.3, 0.2]).unwrap();
    let p = Distribution::from_probs(&[0.2, 0.3, 0.5]).unwrap();
    let mut found = [0.0; 3];
    for (first, second) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let prob = q.prob(first) * q.without(first).unwrap().prob(second);
        let mut tree = Tree::new();
        tree.push(0, first.min(second), 0.5).unwrap();
        let drawn = DrawnTree::new(tree, vec![Some(q.clone()), None]).unwrap();
        let law = RejectionLaw::new(&drawn, |_| p.clone());
        let ends = law.ends(drawn.tree());
        found[first.min(second) as usize] += prob * ends[1];
        for &(token, share) in law.bonus[0].as_ref().map_or(&[][..], Distribution::tokens) {
            found[token as usize] += prob * ends[0] * share;
        }
    }
    assert!((found[0] - 0.2).abs() > 0.05, "{found:?}");
}

/// Vocabulary of the seeded rounds.
const VOCAB: usize = 5;
/// Rounds that are drawn and accepted.
const ROUNDS: u64 = 200_000;
/// Fair draws exceed it once in ten thousand seeds: the 0.9999 quantile of chi-square with 24 degrees of freedom.
const CHI_SQUARE_MAX: f64 = 56.4;

/// Where a round begins.
#[derive(Clone, Copy)]
struct Start {
    root: Token,
    seed: u64,
    position: u64,
}

/// One round under `grower`, the draft truncated to its `k` best: drafted, drawn and accepted as it is served.
fn round(grower: &mut Grower, models: &Models, start: Start, k: usize) -> Vec<Token> {
    let Start { root, seed, position } = start;
    let limits = Limits { max_nodes: 7, max_depth: 3 };
    grower.begin_round(&RoundStart { costs: Costs::default(), limits, position, seed });
    let mut drawing = Drawing::new(Uniforms::new(seed, position, Side::Draft));
    while let Some(frontier) = grower.frontier() {
        let mut level = Vec::new();
        for &id in frontier {
            let last = grower.node(id).map_or(root, |node| node.token);
            let best = Candidates::from_probs(&models.draft[last as usize], k).unwrap();
            level.push(drawing.draw(id, &best, grower.width()).unwrap());
        }
        grower.extend(&level).unwrap();
    }
    let proposal = grower.finish();
    let drawn = drawing.finish(proposal.tree, &proposal.drafted_ids).unwrap();
    let tree = drawn.tree();
    let target =
        |node| Ok::<_, UniformError>(row(&models.target, tree.node(node).map_or(root, |node| node.token), &[]));
    let walk = accept_by_rejection(&drawn, target, &mut Uniforms::new(seed, position, Side::Verification)).unwrap();
    let path = walk.path.iter().map(|&id| tree.node(id).unwrap().token);
    path.chain([walk.bonus]).collect()
}

/// Chi-square of the first two tokens that seeded rounds commit.
fn chi_square(policy: &str, k: usize) -> f64 {
    let models = models(3, VOCAB);
    let mut grower = Grower::for_drawn(&parse_policy(policy).unwrap(), vec![]).unwrap();
    let mut counts = [[0_u32; VOCAB]; VOCAB];
    for seed in 0..ROUNDS {
        let mut run = round(&mut grower, &models, Start { root: 1, seed, position: 10 }, k);
        if run.len() == 1 {
            let next = Start { root: run[0], seed, position: 11 };
            run.extend(round(&mut grower, &models, next, k));
        }
        counts[run[0] as usize][run[1] as usize] += 1;
    }
    let expected = expected_first_two(&models.target, 1).concat();
    let cells = counts.as_flattened().iter().zip(&expected);
    let possible = cells.inspect(|(count, share)| assert!(**count == 0 || **share > 0.0)).filter(|cell| *cell.1 > 0.0);
    let rounds = ROUNDS as f64;
    possible.map(|(&count, share)| (f64::from(count) - rounds * share).powi(2) / (rounds * share)).sum()
}

#[test]
fn two_hundred_thousand_rounds_are_fair_draws() {
    for (policy, k) in [("vanilla-tree,width=3,depth=2", VOCAB), ("cape,depth=2", 3), ("constant,k=3", 2)] {
        let found = chi_square(policy, k);
        assert!(found < CHI_SQUARE_MAX, "{policy} with the {k} best: {found}");
    }
}

/// A drawn tree and the target's distribution at each of its nodes; a fixed function of its arguments.
fn drawn_tree(seed: u64, vocab: usize, fan_out: &[usize]) -> (DrawnTree, Vec<Distribution>) {
    let models = models(seed, vocab);
    let mut draws = Uniforms::new(seed, 1, Side::Draft);
    let (mut tree, mut q, mut p) = (Tree::new(), Vec::new(), Vec::new());
    while q.len() <= tree.len() {
        let node = q.len();
        let (token, depth) = tree.node(node).map_or((0, 0), |node| (node.token, node.depth));
        let row_of_draft = row(&models.draft, token, &[]);
        for child in draw_distinct(&row_of_draft, fan_out.get(depth).copied().unwrap_or(0), &mut draws).unwrap() {
            tree.push(node, child, row_of_draft.prob(child)).unwrap();
        }
        q.push(Some(row_of_draft));
        p.push(row(&models.target, token, &[]));
    }
    (DrawnTree::new(tree, q).unwrap(), p)
}

proptest! {
    #[test]
    fn a_walk_ends_where_its_law_says_it_can(
        seed in 0_u64..1000, vocab in 2_usize..6, fan_out in prop::collection::vec(0_usize..4, 0..4),
        us in prop::collection::vec(0.0_f64..1.0, 32)
    ) {
        let (drawn, p) = drawn_tree(seed, vocab, &fan_out);
        let law = RejectionLaw::new(&drawn, |node| p[node].clone());
        let ends = law.ends(drawn.tree());
        prop_assert!((ends.iter().sum::<f64>() - 1.0).abs() < 1e-9);

        let target = |node: usize| Ok::<_, UniformError>(p[node].clone());
        let Walk { path, bonus } = accept_by_rejection(&drawn, target, &mut us.into_iter()).unwrap();
        let end = path.last().copied().unwrap_or(0);
        prop_assert_eq!(drawn.tree().path(end), path);
        prop_assert!(ends[end] > 0.0);
        prop_assert!(law.bonus[end].as_ref().unwrap().prob(bonus) > 0.0);
    }

    /// The walk itself, not only its law: draws just below and at each ratio decide as the law says.
    #[test]
    fn a_draw_below_the_ratio_accepts_and_one_at_it_rejects(
        seed in 0_u64..1000, vocab in 2_usize..6, fan_out in 1_usize..4
    ) {
        let (drawn, p) = drawn_tree(seed, vocab, &[fan_out]);
        let law = RejectionLaw::new(&drawn, |node| p[node].clone());
        let target = |node: usize| Ok::<_, UniformError>(p[node].clone());
        let accept = |us: Vec<f64>| accept_by_rejection(&drawn, target, &mut us.into_iter().chain([0.5; 2])).unwrap().path;
        let mut rejected = Vec::new();
        for (child, ratio) in (1..).zip(&law.accept) {
            let Some(ratio) = *ratio else { break };
            if ratio > 0.0 {
                prop_assert_eq!(accept([&rejected[..], &[ratio.next_down()]].concat()), [child]);
            }
            if ratio == 1.0 {
                break;
            }
            rejected.push(ratio);
        }
        if law.bonus[0].is_some() {
            prop_assert_eq!(accept(rejected), []);
        }
    }
}
