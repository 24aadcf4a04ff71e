//! What stages cannot do, what they do when one fails, and what ranks make of each.

use espalier_model::{Asked, Checkpoint, Decoder, DeviceKind, KvCache, LoadOptions, Logits, Row, Segment, Workspace};

use crate::options;
use crate::stages::{checkpoint, load};

fn forward(decoder: &Decoder, cache: &mut KvCache) -> Result<Vec<u32>, espalier_model::ModelError> {
    let (mut work, rows) = (Workspace::new(1), Row::chain(&[3, 5, 8, 13, 21], 0));
    let segment = Segment { cache, rows: &rows, logits: Logits::All };
    let output = decoder.forward(&mut work, &mut [segment], Asked::default())?;
    Ok((0..rows.len()).flat_map(|row| output.logits(0, row).to_vec()).map(f32::to_bits).collect())
}

#[test]
fn stages_of_several_ranks_tell_the_bits_of_these_ranks() {
    let checkpoint = checkpoint("qwen3");
    let logits = |decoder: &Decoder| forward(decoder, &mut decoder.new_cache()).unwrap();
    let (shared, both) = (load(&checkpoint, "1", "2"), load(&checkpoint, "3", "2"));
    assert_eq!(both.computes_in(), "f32@2xcandle");
    assert_eq!(logits(&both), logits(&shared));
    assert_eq!(both.context_bytes(), shared.context_bytes());
}

#[test]
fn more_stages_than_layers_and_stages_of_the_processor_are_refused() {
    let checkpoint = checkpoint("qwen3");
    let refusal = |options: LoadOptions| Decoder::load(&checkpoint, &options).err().unwrap().to_string();
    let cut = LoadOptions { layers: Some(2), ..options() };
    assert_eq!(refusal(cut), "2 layers cannot be split into 3 stages: each has at least one");
    assert_eq!(
        refusal(LoadOptions { device: DeviceKind::Cpu, ..options() }),
        "pipeline parallelism over 3 ranks needs GPUs; device cpu runs a model whole, on all threads"
    );
}

#[test]
fn a_stage_that_fails_ends_the_pass_and_the_model_with_a_sentence() {
    let checkpoint = checkpoint("qwen3");
    let (one, split) = (load(&checkpoint, "1", "1"), load(&checkpoint, "3", "1"));
    // The first stage finds keys and values there, the others do not.
    let fault = forward(&split, &mut one.new_cache()).unwrap_err();
    assert!(fault.is_fatal());
    let sentence =
        "rank 1 of 3 on device candle failed: a cache has its keys and values on another device than the model";
    assert_eq!(fault.to_string(), sentence);
    // It is not asked again.
    assert_eq!(forward(&split, &mut split.new_cache()).unwrap_err().to_string(), sentence);
}

#[test]
fn each_part_is_loaded_once_and_told_once() {
    let checkpoint: Checkpoint = checkpoint("gpt-neox");
    let mut told = Vec::new();
    Decoder::load_with_progress(&checkpoint, &options(), |loaded, all| told.push([loaded, all])).unwrap();
    assert_eq!(told, [[1, 4], [2, 4], [3, 4], [4, 4]]);
}
