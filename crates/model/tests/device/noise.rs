//! Tokens that are decided under noise where the logits are, against the decisions that all logits give.

use espalier_model::{Asked, BestOf, Decoder, DeviceKind, Golden, KvCache, Logits, Output, Row, Segment, Workspace};
use espalier_speculation::{GumbelMax, Sampler, Sampling, Token, gumbel};

use crate::golden::{folder, load};
use crate::options;

/// Tokens that are committed, so that the root of the tree stands at the position after them.
const COMMITTED: usize = 7;

/// Rows of the tree, which have logits each.
const NODES: usize = 6;

fn rule(temperature: f64, seed: u64) -> GumbelMax {
    Sampler::new(Sampling::new(temperature, 0, 1.0, seed).unwrap(), &[], &[]).gumbel_max().unwrap()
}

/// A tree below committed tokens: a root, two children, the first child's two and their child. And how deep each row is.
fn tree(tokens: &[Token]) -> ([Row; NODES], [u64; NODES]) {
    let row = |token: usize, parent| Row { token: tokens[COMMITTED + token], parent };
    let rows = [row(0, None), row(1, Some(0)), row(2, Some(0)), row(3, Some(1)), row(4, Some(1)), row(5, Some(4))];
    (rows, [0, 1, 1, 2, 2, 3])
}

/// Runs the tree of two sequences, and hands what came of it to `read`.
struct Trees {
    decoder: Decoder,
    work: Workspace,
    caches: [KvCache; 2],
    rows: [Row; NODES],
    depths: [u64; NODES],
}

impl Trees {
    fn new() -> Self {
        let (golden, decoder) = (Golden::open(&folder("qwen3")).unwrap(), load("qwen3", &options()));
        let (mut work, mut caches) = (Workspace::new(1), [decoder.new_cache(), decoder.new_cache()]);
        let committed = Row::chain(&golden.input_ids[..COMMITTED], 0);
        for cache in &mut caches {
            let segment = Segment { cache: &mut *cache, rows: &committed, logits: Logits::None };
            decoder.forward(&mut work, &mut [segment], Asked::default()).unwrap();
            cache.keep_path(&(0..COMMITTED).collect::<Vec<_>>()).unwrap();
        }
        let (rows, depths) = tree(&golden.input_ids);
        Self { decoder, work, caches, rows, depths }
    }

    fn run<T>(&mut self, noises: [Option<GumbelMax>; 2], read: impl Fn(&Output<'_>, usize, usize) -> T) -> Vec<T> {
        let vocab = self.decoder.config().vocab;
        self.caches.iter_mut().for_each(|cache| cache.roll_back_to(COMMITTED));
        let rows = &self.rows;
        let segment = |cache| Segment { cache, rows, logits: Logits::All };
        let mut segments: Vec<Segment<'_>> = self.caches.iter_mut().map(segment).collect();
        let best = noises.map(|noise| noise.map(|rule| BestOf { count: 1, vocab, noise: Some(rule) }));
        let asked = Asked { best: &best, ..Asked::default() };
        let output = self.decoder.forward(&mut self.work, &mut segments, asked).unwrap();
        (0..2 * NODES).map(|row| read(&output, row / NODES, row % NODES)).collect()
    }

    /// All logits of the first tree.
    fn logits(&mut self) -> Vec<Vec<f32>> {
        let mut all = self.run([None; 2], |output, segment, row| output.logits(segment, row).to_vec());
        all.truncate(NODES);
        all
    }

    /// What is decided at each node of a tree, found where the logits are, or from all of them.
    fn decisions(&mut self, rule: GumbelMax) -> Vec<Token> {
        let depths = self.depths;
        let decided = self.run([Some(rule); 2], |output, segment, row| match output.decision(segment, row) {
            Some(token) => (token.unwrap(), true),
            None => (rule.decide(output.logits(segment, row), position(depths[row])).unwrap(), false),
        });
        let is_told = options().device != DeviceKind::Candle;
        assert!(decided.iter().all(|(_, told)| *told == is_told), "{decided:?}");
        let tokens: Vec<Token> = decided.into_iter().map(|(token, _)| token).collect();
        assert_eq!(tokens[..NODES], tokens[NODES..]);
        tokens[..NODES].to_vec()
    }
}

/// The position that a row so deep below the committed tokens decides.
fn position(depth: u64) -> u64 {
    COMMITTED as u64 + depth + 1
}

/// What all logits of the nodes of a tree decide.
fn of_all(logits: &[Vec<f32>], depths: [u64; NODES], rule: GumbelMax) -> Vec<Token> {
    logits.iter().zip(depths).map(|(logits, depth)| rule.decide(logits, position(depth)).unwrap()).collect()
}

/// A rule under whose noise two tokens are as good at a position as f64 can tell.
fn nearest(logits: &[f32], position: u64) -> GumbelMax {
    let near = |seed: u64| {
        let (first, mut others) = (rule(1.0, seed).decide(logits, position).unwrap(), logits.to_vec());
        others[first as usize] = f32::NEG_INFINITY;
        let second = rule(1.0, seed).decide(&others, position).unwrap();
        let logit = |token: Token| f64::from(logits[token as usize]);
        let noise = gumbel(seed, position, second) - gumbel(seed, position, first);
        let temperature = (logit(first) - logit(second)) / noise;
        let decided = |factor: f64| rule(temperature * factor, seed).decide(logits, position).unwrap();
        let are_first = (0.5..2.0).contains(&temperature) && decided(0.999) != decided(1.001);
        are_first.then(|| rule(temperature, seed))
    };
    (0..).find_map(near).unwrap()
}

#[test]
fn each_node_is_decided_under_the_noise_of_its_own_position() {
    let mut trees = Trees::new();
    let logits = trees.logits();
    for (seed, temperature) in [(1, 0.4), (2, 1.0), (3, 1.5), (4, 1.0)] {
        let rule = rule(temperature, seed);
        assert_eq!(trees.decisions(rule), of_all(&logits, trees.depths, rule), "seed {seed}");
    }
}

#[test]
fn tokens_too_near_to_tell_are_decided_as_of_all_logits() {
    let mut trees = Trees::new();
    let logits = trees.logits();
    for node in [0, 3] {
        let rule = nearest(&logits[node], position(trees.depths[node]));
        assert_eq!(trees.decisions(rule), of_all(&logits, trees.depths, rule), "node {node}");
    }
}

#[test]
fn one_sequence_s_noise_is_none_of_another_s() {
    let mut trees = Trees::new();
    let logits = trees.logits();
    let rule = rule(1.0, 5);
    let told = trees.run([None, Some(rule)], |output, segment, row| {
        (output.decision(segment, row).map(Result::unwrap), output.logits(segment, row).to_vec())
    });
    for ((told, all), logits) in told[..NODES].iter().zip(&logits) {
        assert_eq!((told, all), (&None, logits));
    }
    if options().device != DeviceKind::Candle {
        let tokens: Vec<Token> = told[NODES..].iter().map(|(token, _)| token.unwrap()).collect();
        assert_eq!(tokens, of_all(&logits, trees.depths, rule));
    }
}
