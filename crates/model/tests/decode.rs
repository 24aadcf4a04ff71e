//! The fast decoder writes what Hugging Face transformers writes, to the token.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use espalier_model::{Asked, Checkpoint, Decoder, LoadOptions, Logits, Row, Segment, Workspace};

fn shipped(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name)
}

fn ids(case: &serde_json::Value, key: &str) -> Vec<u32> {
    case[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn arg_max(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap() as u32
}

fn greedy(decoder: &Decoder, work: &mut Workspace, prompt: &[u32], tokens: usize) -> Vec<u32> {
    let mut cache = decoder.new_cache();
    let (mut next, mut out) = (prompt.to_vec(), Vec::new());
    while out.len() < tokens {
        let rows = Row::chain(&next, 0);
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) };
        let token = arg_max(decoder.forward(work, &mut [segment], Asked::default()).unwrap().logits(0, 0));
        cache.keep_path(&(0..rows.len()).collect::<Vec<_>>()).unwrap();
        out.push(token);
        if decoder.config().eos.contains(&token) {
            break;
        }
        next = vec![token];
    }
    out
}

#[test]
fn greedy_continuations_of_the_shipped_targets_equal_those_of_transformers() {
    let mut work = Workspace::new(2);
    for name in ["small", "medium"] {
        let decoder = Decoder::load(&Checkpoint::open(shipped(name)).unwrap(), &LoadOptions::default()).unwrap();
        let cases = std::fs::read_to_string(shipped(name).join("greedy.jsonl")).unwrap();
        for case in cases.lines().map(|line| serde_json::from_str(line).unwrap()) {
            let expected = ids(&case, "greedy_ids");
            assert_eq!(greedy(&decoder, &mut work, &ids(&case, "prompt_ids"), expected.len()), expected, "{name}");
        }
    }
}
