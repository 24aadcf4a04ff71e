//! In f32, what transformers computed.

use espalier_model::{Asked, Golden, Logits, Row, Segment, Workspace};

use crate::golden::{folder, load};
use crate::options;

fn assert_golden(name: &str) {
    let golden = Golden::open(&folder(name)).unwrap();
    let decoder = load(name, &options());
    let (mut work, mut cache) = (Workspace::new(1), decoder.new_cache());
    let taps: Vec<usize> = golden.taps.iter().map(|tap| tap.layers).collect();
    let rows = Row::chain(&golden.input_ids, 0);
    let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::All };
    let output = decoder.forward(&mut work, &mut [segment], Asked { taps: &taps, ..Asked::default() }).unwrap();
    let all = |row: &dyn Fn(usize) -> Vec<f32>| (0..rows.len()).flat_map(row).collect::<Vec<f32>>();
    let logits = golden.logits.compare(&all(&|row| output.logits(0, row).to_vec())).unwrap();
    assert!(logits.agrees(), "{name}: {logits:?}");
    for (number, tap) in golden.taps.iter().enumerate() {
        let states = tap.hidden.compare(&all(&|row| output.tap(number, 0, row).to_vec())).unwrap();
        assert!(states.agrees(), "{name}, after layer {}: {states:?}", tap.layers);
    }
}

#[test]
fn logits_and_hidden_states_are_golden() {
    ["llama3-rope-scaling", "qwen3", "gpt-neox"].into_iter().for_each(assert_golden);
}
