//! Sequences that begin alike share memory, and nobody can tell by the logits: they are the same bits.

use std::path::Path;

use espalier_model::{
    Asked, BLOCK, BlockCounts, BlockPool, Checkpoint, Decoder, KvCache, Logits, Row, Segment, Workspace,
};

use crate::options;

fn decoder() -> Decoder {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/qwen3");
    Decoder::load(&Checkpoint::open(folder).unwrap(), &options()).unwrap()
}

fn pool(decoder: &Decoder, blocks: usize) -> BlockPool {
    let block = decoder.context_bytes() / decoder.config().context.div_ceil(BLOCK);
    decoder.block_pool(blocks * block).unwrap()
}

fn text(length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| i.wrapping_mul(2_654_435_761) % 500).collect()
}

/// Runs and keeps what of `text` the cache does not hold, in pieces of `rows`; the logits of the last row, as bits.
fn read(decoder: &Decoder, work: &mut Workspace, cache: &mut KvCache, text: &[u32], rows: usize) -> Vec<u32> {
    let mut bits = Vec::new();
    for piece in text[cache.committed()..].chunks(rows) {
        let segment = Segment { cache, rows: &Row::chain(piece, 0), logits: Logits::Last(1) };
        let output = decoder.forward(work, &mut [segment], Asked::default()).unwrap();
        bits = output.logits(0, 0).iter().map(|logit| logit.to_bits()).collect();
        cache.keep_path(&(0..piece.len()).collect::<Vec<_>>()).unwrap();
    }
    bits
}

#[test]
fn logits_are_the_same_bits_with_and_without_reuse() {
    let (decoder, mut work, text) = (decoder(), Workspace::new(2), text(230));
    let expected = read(&decoder, &mut work, &mut decoder.new_cache(), &text, 50);
    for known in [3, 63, 64, 65, 128, 200, 229] {
        let pool = pool(&decoder, 12);
        let mut other = [&text[..known], &[499, 498, 497]].concat();
        other.truncate(229);
        // Kept as a path through a tree, one by one, or many at a time: it is all the same.
        let mut first = pool.open(240, &[]).unwrap();
        read(&decoder, &mut work, &mut first, &other, 1 + known % 7);
        drop(first);
        let mut second = pool.open(240, &text[..229]).unwrap();
        assert_eq!(second.committed(), known);
        assert_eq!(read(&decoder, &mut work, &mut second, &text, 60), expected, "{known} positions were reused");
    }
}

#[test]
fn who_goes_on_from_a_shared_beginning_does_not_disturb_those_who_share_it() {
    let (decoder, mut work, text) = (decoder(), Workspace::new(1), text(150));
    let alone = |work: &mut Workspace, tail: &[u32]| {
        read(&decoder, work, &mut decoder.new_cache(), &[&text[..], tail].concat(), 64)
    };
    let pool = pool(&decoder, 12);
    let mut caches: Vec<KvCache> = Vec::new();
    for _ in 0..3 {
        let mut cache = pool.open(190, &text).unwrap();
        read(&decoder, &mut work, &mut cache, &text, 64);
        caches.push(cache);
    }
    // Two blocks are full and shared, each has its own third.
    assert_eq!(pool.counts(), BlockCounts { total: 12, held: 2 + 3, promised: 0, lingering: 0 });
    let tails: Vec<Vec<u32>> = (0..3_u32).map(|i| (0..30).map(|j| 7 * i + j).collect()).collect();
    for piece in 0..3 {
        for (cache, tail) in caches.iter_mut().zip(&tails) {
            let whole = [&text[..], &tail[..10 * (piece + 1)]].concat();
            let bits = read(&decoder, &mut work, cache, &whole, 4);
            assert!(bits == alone(&mut work, &tail[..10 * (piece + 1)]));
        }
    }
}

#[test]
fn blocks_are_used_again_and_again_within_the_budget() {
    let (decoder, mut work) = (decoder(), Workspace::new(1));
    let pool = pool(&decoder, 2);
    for begin in 0..6_u32 {
        let text: Vec<u32> = (begin..begin + BLOCK as u32 + 5).collect();
        let expected = read(&decoder, &mut work, &mut decoder.new_cache(), &text, 64);
        let mut cache = pool.open(2 * BLOCK, &text[..BLOCK]).unwrap();
        assert_eq!(read(&decoder, &mut work, &mut cache, &text, 64), expected);
    }
    assert_eq!(pool.counts(), BlockCounts { total: 2, held: 0, promised: 0, lingering: 2 });
}
