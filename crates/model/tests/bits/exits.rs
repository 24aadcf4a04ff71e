//! A row that leaves at an exit says there what it would say if every row had been run through every layer: to the bit,
//! wherever the rows before it left, and whatever shares its pass.

use std::path::{Path, PathBuf};

use espalier_model::{Asked, AtExit, Checkpoint, Decoder, KvCache, Logits, Row, Segment, Workspace};
use proptest::prelude::*;

use crate::options;

const EXITS: [usize; 3] = [1, 2, 4];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Models of four layers.
fn decoder(name: &str) -> Decoder {
    Decoder::load(&Checkpoint::open(golden(name)).unwrap(), &options()).unwrap()
}

/// The same, each layer seeing so many positions.
fn windowed(window: usize) -> Decoder {
    let mut checkpoint = Checkpoint::open(golden("llama3-rope-scaling")).unwrap();
    checkpoint.config.windows = vec![Some(window), None, Some(window), Some(window + 1)];
    Decoder::load(&checkpoint, &options()).unwrap()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|v| v.to_bits()).collect()
}

fn text(length: usize, seed: u32) -> Vec<u32> {
    (0..length as u32).map(|i| (i + seed).wrapping_mul(2_654_435_761) % 500).collect()
}

/// What the last of `tokens` says at the exit after `layers`, and its residual stream there, every layer up to that one
/// having been run for every token.
fn alone(decoder: &Decoder, tokens: &[u32], layers: usize) -> (Vec<u32>, Vec<u32>) {
    let (mut work, mut cache) = (Workspace::new(2), decoder.new_cache());
    let rows = Row::chain(tokens, 0);
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
    let depth = Asked { exit_after: Some(layers), taps: &[layers], ..Asked::default() };
    let output = decoder.forward(&mut work, &mut segments, depth).unwrap();
    (bits(output.logits(0, 0)), bits(output.tap(0, 0, tokens.len() - 1)))
}

/// A sequence whose rows each leave at an exit of their own.
struct Sequence {
    cache: KvCache,
    committed: Vec<u32>,
    /// Rows of the tail, and the exit, counted from 0, at which each is to leave.
    tail: Vec<(Row, usize)>,
}

impl Sequence {
    fn new(decoder: &Decoder) -> Self {
        Self { cache: decoder.new_cache(), committed: Vec::new(), tail: Vec::new() }
    }

    /// The committed tokens and those of the tail down to `row`.
    fn path(&self, row: usize) -> Vec<u32> {
        let upwards = std::iter::successors(Some(row), |&row| self.tail[row].0.parent);
        let mut below: Vec<u32> = upwards.map(|row| self.tail[row].0.token).collect();
        below.reverse();
        [self.committed.clone(), below].concat()
    }

    fn keep(&mut self, path: &[usize]) {
        self.committed.extend(path.iter().map(|&row| self.tail[row].0.token));
        self.cache.keep_path(path).unwrap();
        self.tail.clear();
    }
}

/// Runs new rows of several sequences together, and holds what each says against the same row alone.
fn run(decoder: &Decoder, work: &mut Workspace, sequences: &mut [Sequence], new: &[Vec<(Row, usize)>]) {
    let rows: Vec<Vec<Row>> = new.iter().map(|new| new.iter().map(|(row, _)| *row).collect()).collect();
    let pairs = sequences.iter_mut().zip(&rows);
    let mut segments: Vec<Segment<'_>> =
        pairs.map(|(sequence, rows)| Segment { cache: &mut sequence.cache, rows, logits: Logits::All }).collect();
    let goes_on = |at: AtExit<'_>| at.exit < new[at.segment][at.row].1;
    let output = decoder.forward_exits(work, &mut segments, &EXITS, goes_on).unwrap();
    for (segment, (sequence, new)) in sequences.iter_mut().zip(new).enumerate() {
        let first = sequence.tail.len();
        sequence.tail.extend(new);
        for (row, (_, exit)) in new.iter().enumerate() {
            let (logits, state) = alone(decoder, &sequence.path(first + row), EXITS[*exit]);
            assert_eq!(bits(output.logits(segment, row)), logits, "segment {segment}, row {row}, exit {exit}");
            assert_eq!(bits(output.tap(0, segment, row)), state, "segment {segment}, row {row}, exit {exit}");
        }
    }
}

/// A tree below a root, in levels: of each node the parent, the token and the exit.
fn nodes() -> impl Strategy<Value = Vec<(usize, u32, usize)>> {
    proptest::collection::vec((0..1000_usize, 0..500_u32, 0..3_usize), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn rows_say_at_their_exit_what_they_say_when_every_layer_is_run(
        rounds in proptest::collection::vec([nodes(), nodes()], 1..4), prefix in 1..80_usize, level in 1..6_usize,
        which in 0..4_usize,
    ) {
        let decoder = match which {
            0 => decoder("qwen3"),
            1 => decoder("gpt-neox"),
            2 => decoder("llama3-rope-scaling"),
            _ => windowed(9),
        };
        let mut work = Workspace::new(2);
        let mut sequences = [Sequence::new(&decoder), Sequence::new(&decoder)];
        // The prompts leave as early as rows can, or late.
        let prompts = [0, 2].map(|exit| Row::chain(&text(prefix, exit as u32), 0).into_iter().map(move |row| (row, exit)));
        run(&decoder, &mut work, &mut sequences, &prompts.map(Iterator::collect));
        sequences.iter_mut().for_each(|sequence| sequence.keep(&(0..prefix).collect::<Vec<_>>()));
        for round in &rounds {
            let trees = round.each_ref().map(|nodes| {
                let tree = nodes.iter().enumerate();
                tree.map(|(i, &(parent, token, exit))| (Row { token, parent: i.checked_sub(1).map(|_| parent % i) }, exit))
                    .collect::<Vec<_>>()
            });
            for from in (0..12).step_by(level) {
                let rows = trees.each_ref().map(|tree| tree.iter().copied().skip(from).take(level).collect::<Vec<_>>());
                if rows.iter().any(|rows| !rows.is_empty()) {
                    run(&decoder, &mut work, &mut sequences, &rows);
                }
            }
            for sequence in &mut sequences {
                let last = sequence.tail.len() - 1;
                let mut path: Vec<usize> =
                    std::iter::successors(Some(last), |&row| sequence.tail[row].0.parent).collect();
                path.reverse();
                sequence.keep(&path);
            }
        }
    }
}

#[test]
fn rows_that_want_no_logits_run_no_deeper_than_others_need() {
    let decoder = decoder("qwen3");
    let (mut work, mut cache) = (Workspace::new(1), decoder.new_cache());
    let tokens = text(70, 3);
    let rows = Row::chain(&tokens, 0);
    let mut asked = 0;
    let mut prefill = [Segment { cache: &mut cache, rows: &rows[..60], logits: Logits::None }];
    decoder.forward_exits(&mut work, &mut prefill, &EXITS, |_| unreachable!("nobody wants logits")).unwrap();
    let fault = |cache: &mut KvCache, work: &mut Workspace| {
        let rows = [Row { token: 1, parent: Some(59) }];
        let mut segments = [Segment { cache, rows: &rows, logits: Logits::All }];
        decoder.forward(work, &mut segments, Asked::default()).err().unwrap().to_string()
    };
    let expected = "a row cannot run through 4 layers after one that has been through 1";
    assert_eq!(fault(&mut cache, &mut work), expected);
    cache.keep_path(&(0..60).collect::<Vec<_>>()).unwrap();
    let rows = Row::chain(&tokens[60..], 0);
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) }];
    let goes_on = |at: AtExit<'_>| {
        asked += 1;
        at.row == 0
    };
    let output = decoder.forward_exits(&mut work, &mut segments, &EXITS, goes_on).unwrap();
    assert_eq!(bits(output.logits(0, 0)), alone(&decoder, &tokens, 4).0);
    assert_eq!(asked, 2);
}

#[test]
fn a_pass_that_every_row_runs_through_is_a_plain_one() {
    let decoder = decoder("gpt-neox");
    let (mut work, rows) = (Workspace::new(1), Row::chain(&text(30, 1), 0));
    let mut deep = decoder.new_cache();
    let mut segments = [Segment { cache: &mut deep, rows: &rows, logits: Logits::All }];
    decoder.forward_exits(&mut work, &mut segments, &EXITS, |_| true).unwrap();
    deep.keep_path(&(0..30).collect::<Vec<_>>()).unwrap();
    let next = [Row { token: 7, parent: None }];
    let mut segments = [Segment { cache: &mut deep, rows: &next, logits: Logits::All }];
    let output = decoder.forward(&mut work, &mut segments, Asked::default()).unwrap();
    assert_eq!(bits(output.logits(0, 0)), alone(&decoder, &[text(30, 1), vec![7]].concat(), 4).0);
}

#[test]
fn impossible_exits_are_refused() {
    let decoder = decoder("qwen3");
    let mut work = Workspace::new(1);
    let mut refusal = |exits: &[usize], tokens: &[u32]| {
        let (mut cache, rows) = (decoder.new_cache(), Row::chain(tokens, 0));
        let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::All }];
        decoder.forward_exits(&mut work, &mut segments, exits, |_| true).err().unwrap().to_string()
    };
    let rise = |exits: &str| format!("exits {exits} must rise within the model's 4 layers, and there must be one");
    assert_eq!(refusal(&[], &[1]), rise("[]"));
    assert_eq!(refusal(&[2, 2], &[1]), rise("[2, 2]"));
    assert_eq!(refusal(&[4, 1], &[1]), rise("[4, 1]"));
    assert!(refusal(&[1, 5], &[1]).starts_with("5 layers were asked for"));
    assert!(refusal(&[0, 4], &[1]).starts_with("0 layers were asked for"));
    assert_eq!(refusal(&[1, 4], &[]), "a forward pass needs at least one token");
    assert!(refusal(&[1, 4], &[1_000_000]).starts_with("token 1000000 is outside"));
}
