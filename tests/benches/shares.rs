//! What the arithmetic around the models costs beside the models themselves, on the shipped ones.
//!
//! - Choosing and building a tree of 64 nodes (`tree/POLICY`) is to cost under 5 % of a draft pass: `draft pass/DRAFTER` is
//!   one over a single row, right after a pass of the target as the first of a round is, or one after another;
//!   `draft passes/POLICY` are those that this tree takes of `small`, each as wide as its level.
//! - Deciding what survives of it (`acceptance/MODE`) is to cost under 1 % of its verification (`verification`).
//!
//! Distributions and logits are real: recorded once while `small` drafts for `medium`, then replayed.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use espalier_model::{Asked, DraftModel, KvCache, LoadOptions, Logits, Row, Segment, States, Team, Workspace};
use espalier_speculation::{
    Candidates, CostModel, Costs, Curve, Grower, Limits, PolicySpec, Proposal, RoundStart, Sampler, Token, Tree,
    parse_policy, walk,
};
use espalier_tests::{model, prompts, sampling};

const NODES: usize = 64;

/// Policies with parameters by which they send 64 nodes.
const POLICIES: [&str; 5] = [
    "constant,k=64,max_depth=64",
    "eagle2,total=64",
    "opt-tree,n=64",
    "pct,ratio=0.002,leaf_threshold=0",
    "expected-gain",
];

const TEMPERATURES: [(&str, f64); 2] = [("greedy", 0.0), ("coupled", 0.8)];

/// The drafters that are shipped; the last leaves at its first exit.
const DRAFTERS: [&str; 4] = ["small", "medium-edd", "medium-early-exit", "sorted"];

/// A model that has read a text but for its last token.
struct Reader {
    model: DraftModel,
    work: Workspace,
    cache: KvCache,
}

impl Reader {
    fn open(name: &str, team: &Team) -> Self {
        let model = DraftModel::open(&model(name), Some(&model("medium")), &LoadOptions::default()).unwrap();
        let cache = model.decoder().new_cache();
        Self { model, work: Workspace::of_team(team), cache }
    }

    fn read(mut self, text: &[Token]) -> Self {
        self.run(&Row::chain(text, 0), Logits::None);
        self.cache.keep_path(&(0..text.len()).collect::<Vec<_>>()).unwrap();
        self
    }

    /// The same with the states of `layer` that `target` has for the text.
    fn read_states(mut self, text: &[Token], target: &mut Self, layer: usize) -> Self {
        let rows = Row::chain(text, 0);
        let mut cache = target.model.decoder().new_cache();
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::None };
        let depth = Asked { taps: &[layer], ..Asked::default() };
        let output = target.model.decoder().forward(&mut target.work, &mut [segment], depth).unwrap();
        let states: Vec<f32> = (0..text.len()).flat_map(|row| output.tap(0, 0, row).to_vec()).collect();
        let states = States { cache: &mut self.cache, tokens: text, states: &states };
        self.model.decoder().append_states(&mut self.work, &mut [states]).unwrap();
        self
    }

    /// Appends rows and gives the logits of those that want some.
    fn run(&mut self, rows: &[Row], logits: Logits) -> Vec<Vec<f32>> {
        let count = if matches!(logits, Logits::None) { 0 } else { rows.len() };
        let segment = Segment { cache: &mut self.cache, rows, logits };
        let output = self.model.forward(&mut self.work, &mut [segment], |_| false).unwrap();
        (0..count).map(|row| output.logits(0, row).to_vec()).collect()
    }

    /// Runs rows as often as wanted: nothing of them is kept.
    fn pass(&mut self, rows: &[Row]) {
        let segment = Segment { cache: &mut self.cache, rows, logits: Logits::All };
        black_box(self.model.forward(&mut self.work, &mut [segment], |_| false).unwrap());
        self.cache.keep_path(&[]).unwrap();
    }
}

/// How long so many passes of `drafter` over one row take, each right after a pass of the target.
fn passes_in_rounds(drafter: &mut Reader, target: &mut Reader, root: &[Row], count: u64) -> Duration {
    let pass = |_| {
        target.pass(root);
        let begun = Instant::now();
        drafter.pass(root);
        begun.elapsed()
    };
    (0..count).map(pass).sum()
}

/// A round in which every further node pays, so that all policies fill their trees.
fn round(text: &[Token]) -> RoundStart {
    let costs = Costs::new(Curve::line(0.001, 0.0), Curve::line(100.0, 0.0));
    let limits = Limits { max_nodes: NODES, max_depth: NODES };
    RoundStart { costs, limits, position: text.len() as u64 - 1, seed: 0 }
}

/// What the drafter said at each level while a policy grew its tree.
struct Recording {
    spec: PolicySpec,
    start: RoundStart,
    levels: Vec<Vec<Candidates>>,
}

impl Recording {
    fn of(policy: &str, drafter: &mut Reader, text: &[Token]) -> Self {
        let spec = parse_policy(policy).unwrap();
        let mut sampler = Sampler::new(sampling(0.0, 0), text, &[]);
        let (mut grower, start) = (Grower::new(&spec, vec![]), round(text));
        let mut ran = HashMap::from([(0, 0)]);
        let mut levels = Vec::new();
        grower.begin_round(&start);
        while let Some(frontier) = grower.frontier().map(<[usize]>::to_vec) {
            let rows: Vec<Row> = frontier.iter().map(|&id| row(&grower, &ran, id, text)).collect();
            let first = drafter.cache.tail_len();
            let logits = drafter.run(&rows, Logits::All);
            ran.extend(frontier.iter().copied().zip(first..));
            let width = grower.width();
            let level: Vec<Candidates> = logits.iter().map(|row| sampler.rank(row, &[], width).unwrap()).collect();
            grower.extend(&level).unwrap();
            levels.push(level);
        }
        drafter.cache.keep_path(&[]).unwrap();
        Self { spec, start, levels: spare(levels) }
    }

    /// The policy's own work: everything but the models.
    fn replay(&self, grower: &mut Grower) -> Proposal {
        grower.begin_round(&self.start);
        for level in &self.levels {
            let Some(width) = grower.frontier().map(<[usize]>::len) else { break };
            grower.extend(&level[..width]).unwrap();
        }
        grower.finish()
    }
}

/// A policy that has learnt meanwhile may ask for more nodes and levels than were recorded: it gets what others of that
/// level got, and the last level again.
fn spare(mut levels: Vec<Vec<Candidates>>) -> Vec<Vec<Candidates>> {
    levels.extend(levels.last().cloned().into_iter().cycle().take(NODES));
    levels.iter().map(|level| level.iter().cycle().take(NODES).cloned().collect()).collect()
}

/// The row of draft node `id`, 0 being the root.
fn row(grower: &Grower, ran: &HashMap<usize, usize>, id: usize, text: &[Token]) -> Row {
    match grower.node(id) {
        Some(node) => Row { token: node.token, parent: ran.get(&node.parent).copied() },
        None => Row { token: *text.last().unwrap(), parent: None },
    }
}

/// The rows of a verification: the root and all nodes.
fn rows_of(tree: &Tree, text: &[Token]) -> Vec<Row> {
    let nodes = tree.nodes().iter().map(|node| Row { token: node.token, parent: Some(node.parent) });
    std::iter::once(Row { token: *text.last().unwrap(), parent: None }).chain(nodes).collect()
}

fn shares(criterion: &mut Criterion) {
    let (prompt, answer) = prompts("medium").into_iter().max_by_key(|(prompt, _)| prompt.len()).unwrap();
    let text = [prompt, answer].concat();
    let text = &text[..text.len().min(256)];
    let read = &text[..text.len() - 1];
    let team = Team::new(2);
    let mut target = Reader::open("medium", &team).read(read);

    let root = [Row { token: *text.last().unwrap(), parent: None }];
    for name in DRAFTERS {
        let drafter = Reader::open(name, &team);
        let mut drafter = match drafter.model.kind().tapped_layer() {
            Some(layer) => drafter.read_states(read, &mut target, layer),
            None => drafter.read(read),
        };
        criterion.bench_function(&format!("draft pass/{name}"), |bencher| bencher.iter(|| drafter.pass(&root)));
        criterion.bench_function(&format!("draft pass/{name} after the target's"), |bencher| {
            bencher.iter_custom(|count| passes_in_rounds(&mut drafter, &mut target, &root, count));
        });
    }
    let mut drafter = Reader::open("small", &team).read(read);
    let logits = drafter.run(&root, Logits::All).remove(0);
    drafter.cache.keep_path(&[]).unwrap();
    for (mode, temperature) in TEMPERATURES {
        let mut sampler = Sampler::new(sampling(temperature, 0), text, &[]);
        let name = format!("ranking a node's children/{mode}");
        criterion.bench_function(&name, |bencher| bencher.iter(|| sampler.rank(black_box(&logits), &[], 10)));
    }
    for policy in POLICIES {
        let recording = Recording::of(policy, &mut drafter, text);
        let mut grower = Grower::new(&recording.spec, vec![]);
        let proposal = recording.replay(&mut grower);
        assert_eq!(proposal.tree.len(), NODES, "{policy}");
        println!("{policy}: {} nodes drafted in levels of {:?}", proposal.drafted, proposal.widths);
        criterion.bench_function(&format!("tree/{policy}"), |bencher| bencher.iter(|| recording.replay(&mut grower)));
        let mut passes = || proposal.widths.iter().for_each(|&width| drafter.pass(&vec![root[0]; width]));
        criterion.bench_function(&format!("draft passes/{policy}"), |bencher| bencher.iter(&mut passes));
    }
    let mut costs = CostModel::default();
    costs.observe_levels(&mut [(1, Duration::from_millis(1))]);
    criterion.bench_function("tree/costs of a round", |bencher| bencher.iter(|| costs.costs()));

    let recording = Recording::of("eagle2,total=64", &mut drafter, text);
    let tree = recording.replay(&mut Grower::new(&recording.spec, vec![])).tree;
    let rows = rows_of(&tree, text);
    criterion.bench_function("verification", |bencher| bencher.iter(|| target.pass(&rows)));
    let logits = target.run(&rows, Logits::All);
    for (mode, temperature) in TEMPERATURES {
        let mut sampler = Sampler::new(sampling(temperature, 0), text, &[]);
        let mut decide = || walk(&tree, |node| sampler.decide(&logits[node], &[])).unwrap();
        criterion.bench_function(&format!("acceptance/{mode}"), |bencher| bencher.iter(&mut decide));
    }
}

criterion_group!(benches, shares);
criterion_main!(benches);
