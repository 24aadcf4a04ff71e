//! Whatever the bytes, a file is read or refused, and little memory is taken for it.
#![allow(clippy::unwrap_used)]

mod writer;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use espalier_gguf::{Array, Gguf, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use writer::{entry, file, listing};

/// The system's allocator; it adds up what each thread was given.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls are handed on as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A file with a value of each shape, and tensors of several types.
fn valid() -> Vec<u8> {
    let texts = |texts: &[&str]| Array::String(texts.iter().map(|&text| text.to_owned()).collect());
    let entries = [
        entry("general.alignment", &Value::U32(32)),
        entry("general.architecture", &Value::String("llama".to_owned())),
        entry("eps", &Value::F32(1e-5)),
        entry("flag", &Value::Bool(true)),
        entry("tokens", &Value::Array(texts(&["a", "b", "", "ü"]))),
        entry("scores", &Value::Array(Array::F32(vec![1., 2.]))),
        entry("nested", &Value::Array(Array::Array(vec![Array::U64(vec![1, 2]), texts(&["c"])]))),
    ];
    let listings = [
        listing("f32", &[4, 2], 0, 0),
        listing("bf16", &[4, 2], 30, 32),
        listing("q4_0", &[32, 2], 2, 64),
        listing("q6_k", &[256], 14, 128),
    ];
    file(&entries, &listings, &[0x5A; 128 + 210])
}

/// Parses, reads all tensors there are, and says whether there was a file. Parsing may not take much more memory than
/// the file has bytes.
fn survives(bytes: &[u8]) -> bool {
    let before = ALLOCATED.get();
    let parsed = Gguf::parse(bytes);
    let allocated = ALLOCATED.get() - before;
    assert!(allocated <= 8 * bytes.len() + 4096, "{allocated} bytes for a file of {}", bytes.len());
    let Ok(gguf) = parsed else { return false };
    for (name, info) in gguf.tensors() {
        let elements = gguf.tensor(bytes, name).unwrap().to_f32();
        assert_eq!(elements.len(), info.shape().iter().product::<usize>());
    }
    true
}

#[test]
fn what_is_mutated_is_valid() {
    assert!(survives(&valid()));
}

#[test]
fn no_truncation_is_a_file() {
    let valid = valid();
    for length in 0..valid.len() {
        assert!(!survives(&valid[..length]), "{length} of {} bytes", valid.len());
    }
}

#[test]
fn no_changed_byte_does_harm() {
    let valid = valid();
    let header = valid.len() - 338;
    let mut bytes = valid.clone();
    for at in 0..header {
        for byte in 0..=u8::MAX {
            bytes[at] = byte;
            survives(&bytes);
        }
        bytes[at] = valid[at];
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_changed_words_do_harm(changes in vec((0usize..1000, prop::sample::select(WORDS.to_vec())), 1..4)) {
        let mut bytes = valid();
        for (at, word) in changes {
            let at = at % (bytes.len() - 8);
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        survives(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(tail in vec(any::<u8>(), 0..400), version in 0u32..5, headed in any::<bool>()) {
        let head = if headed { [b"GGUF", &version.to_le_bytes()[..]].concat() } else { vec![] };
        survives(&[head, tail].concat());
    }

    #[test]
    fn arbitrary_values_do_no_harm(kind in 0u32..14, value in vec(0u8..14, 0..200)) {
        survives(&[writer::header(3, 0, 1), writer::raw_entry("k", kind, &value)].concat());
    }
}

/// What counts, lengths, sizes and offsets are at their worst.
const WORDS: [u64; 10] = [0, 1, 31, 33, 1 << 16, 1 << 24, 1 << 32, 1 << 60, u64::MAX / 2 + 1, u64::MAX];
