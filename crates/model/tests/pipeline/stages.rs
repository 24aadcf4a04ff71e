//! Whatever is done with a model, stages tell the bits that one device tells.

use std::path::Path;

use espalier_model::{
    Asked, AtExit, BestOf, Checkpoint, Decoder, KvCache, LoadOptions, Logits, Parallel, Row, Segment, Workspace,
};

use crate::options;

/// Every architecture; all have four layers.
const CHECKPOINTS: [&str; 3] = ["qwen3", "gpt-neox", "llama3-rope-scaling"];

pub(crate) fn checkpoint(name: &str) -> Checkpoint {
    Checkpoint::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

/// Loaded into so many stages, each layer shared by so many ranks.
pub(crate) fn load(checkpoint: &Checkpoint, stages: &str, ranks: &str) -> Decoder {
    let parallel = Parallel { tensor: ranks.parse().unwrap(), pipeline: stages.parse().unwrap() };
    Decoder::load(checkpoint, &LoadOptions { parallel, ..options() }).unwrap()
}

fn tokens(length: u32, seed: u32) -> Vec<u32> {
    (0..length).map(|i| (i + seed).wrapping_mul(2_654_435_761) % 500).collect()
}

/// A tree of one root, in which nodes have two children.
fn tree() -> Vec<Row> {
    (0..13).map(|i: u32| Row { token: 7 * i + 1, parent: i.checked_sub(1).map(|below| below as usize / 2) }).collect()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Two sequences, and all that was told of them.
struct Story<'a> {
    decoder: &'a Decoder,
    work: Workspace,
    caches: [KvCache; 2],
    told: Vec<Vec<u32>>,
}

impl Story<'_> {
    /// A pass of both sequences, whose logits and taps after three layers are told.
    fn pass(&mut self, rows: [&[Row]; 2], logits: [Logits; 2], best: &[Option<BestOf>]) {
        let mut parts = self.caches.iter_mut().zip(rows).zip(logits);
        let mut segments: Vec<Segment<'_>> =
            parts.by_ref().map(|((cache, rows), logits)| Segment { cache, rows, logits }).collect();
        let asked = Asked { taps: &[1, 3, 4], best, ..Asked::default() };
        let output = self.decoder.forward(&mut self.work, &mut segments, asked).unwrap();
        for (segment, (rows, logits)) in rows.iter().zip(logits).enumerate() {
            let taps = (0..3).flat_map(|tap| (0..rows.len()).map(move |row| (tap, row)));
            self.told.extend(taps.map(|(tap, row)| bits(output.tap(tap, segment, row))));
            let wanted = match logits {
                Logits::All => rows.len(),
                Logits::Last(wanted) => wanted,
                Logits::None => 0,
            };
            for row in 0..wanted {
                self.told.push(match output.best(segment, row) {
                    Some(best) => best.unwrap().candidates(3).tokens().iter().map(|(token, _)| *token).collect(),
                    None => bits(output.logits(segment, row)),
                });
            }
        }
    }

    /// A tree of each sequence whose rows leave at one of three exits.
    fn exits(&mut self, rows: &[Row]) {
        let mut segments: Vec<Segment<'_>> =
            self.caches.iter_mut().map(|cache| Segment { cache, rows, logits: Logits::All }).collect();
        let goes_on = |at: AtExit<'_>| at.exit < (at.row + at.segment) % 3;
        let output = self.decoder.forward_exits(&mut self.work, &mut segments, &[1, 2, 4], goes_on).unwrap();
        let rows = [0, 1].into_iter().flat_map(|segment| (0..rows.len()).map(move |row| (segment, row)));
        self.told.extend(
            rows.flat_map(|(segment, row)| [bits(output.logits(segment, row)), bits(output.tap(0, segment, row))]),
        );
    }

    fn keep(&mut self, paths: [&[usize]; 2]) {
        self.caches.iter_mut().zip(paths).for_each(|(cache, path)| cache.keep_path(path).unwrap());
    }
}

/// All that a model tells of prompts, trees, kept paths, best tokens and exits.
fn story(decoder: &Decoder) -> Vec<Vec<u32>> {
    let caches = [decoder.new_cache(), decoder.new_cache()];
    let mut story = Story { decoder, work: Workspace::new(1), caches, told: Vec::new() };
    let prompts = [tokens(70, 0), tokens(35, 9)].map(|tokens| Row::chain(&tokens, 0));
    story.pass([&prompts[0], &prompts[1]], [Logits::None, Logits::None], &[]);
    story.keep([&(0..70).collect::<Vec<_>>(), &(0..35).collect::<Vec<_>>()]);
    let (tree, chain) = (tree(), Row::chain(&tokens(5, 3), 0));
    story.pass([&tree, &chain], [Logits::All, Logits::Last(2)], &[]);
    story.keep([&[0, 2, 5], &[0, 1]]);
    let best = BestOf { count: 3, vocab: decoder.config().vocab, noise: None };
    story.pass([&chain, &tree], [Logits::Last(3), Logits::All], &[Some(best)]);
    story.keep([&[0], &[0, 1, 4]]);
    story.exits(&tree);
    story.keep([&[0, 1, 3, 8], &[0, 2]]);
    story.exits(&chain);
    story.told
}

fn assert_stages_are_one_device(checkpoint: &Checkpoint) {
    let one = load(checkpoint, "1", "1");
    let expected = story(&one);
    for stages in ["2", "3", "4"] {
        let split = load(checkpoint, stages, "1");
        assert_eq!(split.computes_in(), one.computes_in());
        assert!(story(&split) == expected, "{stages} stages");
        // Every weight is loaded once, and so is room for every key and value.
        assert_eq!([split.weight_bytes(), split.context_bytes()], [one.weight_bytes(), one.context_bytes()]);
    }
}

#[test]
fn stages_tell_the_bits_of_one_device() {
    CHECKPOINTS.map(checkpoint).iter().for_each(assert_stages_are_one_device);
}

#[test]
fn every_layer_sees_through_its_own_window() {
    let mut checkpoint = checkpoint("llama3-rope-scaling");
    checkpoint.config.windows = vec![Some(9), None, Some(12), Some(30)];
    assert_stages_are_one_device(&checkpoint);
}
