//! One cache at a time, and several that share a pool.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

const SHAPE: CacheShape = CacheShape { layers: 2, kv_heads: 2, head_dim: 3, context: 200, format: KvFormat::Floats };

fn cache() -> KvCache {
    KvCache::alone(SHAPE, &KvPlace::Host)
}

/// Writes a recognisable key and value for `tag` at a new tail row.
fn append(cache: &mut KvCache, parent: Option<usize>, tag: f32) {
    cache.reserve(1).unwrap();
    let slot = cache.slots();
    cache.push(parent, Some(tag as u32)).unwrap();
    for layer in 0..2 {
        let view = cache.block_table().layer(layer);
        for head in 0..2 {
            let base = tag + 1000.0 * (layer * 2 + head) as f32;
            // SAFETY: one thread.
            unsafe { view.store(head, slot, &[base, base + 0.1, base + 0.2], &[-base, -base - 0.1, -base - 0.2]) };
        }
    }
}

/// The tags stored in the committed slots, read back from every layer, head, key and value.
fn tags(cache: &mut KvCache) -> Vec<f32> {
    let committed = cache.committed();
    let mut tags = vec![None; committed];
    for layer in 0..2 {
        let view = cache.block_table().layer(layer);
        for (head, slot) in (0..2).flat_map(|h| (0..committed).map(move |s| (h, s))) {
            // SAFETY: slots below `committed` exist.
            let (k, v) = unsafe {
                let Head { keys, values, .. } = view.head(head, slot / BLOCK);
                let value = slot % BLOCK * Floats::value_stride(SHAPE.head_dim);
                (*keys.cast::<f32>().add(slot % BLOCK), *values.cast::<f32>().add(value))
            };
            assert_eq!(k, -v);
            let tag = k - 1000.0 * (layer * 2 + head) as f32;
            assert!(tags[slot].is_none_or(|t| t == tag), "all heads moved together");
            tags[slot] = Some(tag);
        }
    }
    tags.into_iter().map(Option::unwrap).collect()
}

#[test]
fn a_tree_keeps_a_path_and_not_a_prefix() {
    let mut cache = cache();
    append(&mut cache, None, 10.0);
    for (parent, tag) in [(0, 11.0), (0, 12.0), (1, 13.0), (2, 14.0), (4, 15.0)] {
        append(&mut cache, Some(parent), tag);
    }
    cache.keep_path(&[0, 2, 4, 5]).unwrap();
    assert_eq!(tags(&mut cache), [10.0, 12.0, 14.0, 15.0]);
    assert_eq!((cache.committed(), cache.tail_len()), (4, 0));
}

#[test]
fn paths_cross_block_borders() {
    let mut cache = cache();
    for i in 0..62_usize {
        append(&mut cache, i.checked_sub(1), i as f32);
    }
    cache.keep_path(&(0..62).collect::<Vec<_>>()).unwrap();
    for i in 0..8 {
        append(&mut cache, if i < 2 { None } else { Some(i - 2) }, 100.0 + i as f32);
    }
    assert_eq!(cache.path(69, 62), [63, 65, 67, 69].map(|slot| Run { slot, len: 1 }));
    cache.keep_path(&[1, 3, 5, 7]).unwrap();
    assert_eq!(tags(&mut cache)[60..], [60.0, 61.0, 101.0, 103.0, 105.0, 107.0]);
}

#[test]
fn a_chain_is_one_run() {
    let mut cache = cache();
    (0..5_usize).for_each(|i| append(&mut cache, i.checked_sub(1), i as f32));
    assert_eq!(cache.path(4, 0), [Run { slot: 0, len: 5 }]);
}

#[test]
fn a_path_begins_after_the_shared_positions() {
    let mut cache = cache();
    (0..5_usize).for_each(|i| append(&mut cache, i.checked_sub(1), i as f32));
    cache.keep_path(&[0, 1, 2, 3, 4]).unwrap();
    append(&mut cache, None, 5.0);
    append(&mut cache, None, 6.0);
    append(&mut cache, Some(1), 7.0);
    assert_eq!(cache.path(7, 5), [Run { slot: 6, len: 2 }]);
    assert_eq!(cache.path(7, 2), [Run { slot: 2, len: 3 }, Run { slot: 6, len: 2 }]);
    assert_eq!(cache.path(3, 1), [Run { slot: 1, len: 3 }]);
}

#[test]
fn rows_that_lag_behind_are_found_along_the_path() {
    let mut cache = cache();
    for (parent, layers) in [(None, 2), (Some(0), 1), (Some(1), 1), (Some(0), 2)] {
        cache.append([(parent, None)].into_iter()).unwrap();
        cache.advance(cache.slots() - 1, layers, &[layers as f32]);
    }
    let behind = |cache: &KvCache, slot| cache.behind(slot, 2).collect::<Vec<_>>();
    assert_eq!((behind(&cache, 2), behind(&cache, 3)), (vec![2, 1], vec![]));
    cache.reserve(4).unwrap();
    cache.keep_path(&[0, 1, 2]).unwrap();
    cache.push(None, None).unwrap();
    assert_eq!(behind(&cache, 3), [3, 2, 1]);
    // What cannot run deeper needs no state.
    assert_eq!((cache.progress(0), cache.progress(1)), ((2, &[][..]), (1, &[1.0][..])));
    cache.roll_back_to(1);
    cache.push(None, None).unwrap();
    assert_eq!(behind(&cache, 1), [1]);
}

#[test]
fn rolling_back_forgets_positions_and_tail() {
    let mut cache = cache();
    (0..5_usize).for_each(|i| append(&mut cache, i.checked_sub(1), i as f32));
    cache.keep_path(&[0, 1, 2]).unwrap();
    append(&mut cache, None, 9.0);
    cache.roll_back_to(2);
    assert_eq!(tags(&mut cache), [0.0, 1.0]);
    append(&mut cache, None, 7.0);
    cache.keep_path(&[0]).unwrap();
    assert_eq!(tags(&mut cache), [0.0, 1.0, 7.0]);
}

#[test]
fn what_is_not_a_path_or_does_not_fit_is_refused() {
    let mut cache = cache();
    append(&mut cache, None, 0.0);
    append(&mut cache, Some(0), 1.0);
    append(&mut cache, Some(0), 2.0);
    assert!(cache.keep_path(&[0, 1, 2]).is_err());
    assert!(cache.keep_path(&[1]).is_err());
    assert!(cache.keep_path(&[7]).is_err());
    assert!(cache.push(Some(3), None).is_err());
    assert!(cache.reserve(198).is_err());
    assert_eq!((cache.committed(), cache.tail_len()), (0, 3));
}

/// Runs a chain of tokens, which are their own tags, and keeps it.
fn filled(cache: &mut KvCache, tokens: &[u32]) {
    for &token in tokens {
        append(cache, None, token as f32);
        cache.advance(cache.slots() - 1, SHAPE.layers, &[]);
        cache.keep_path(&[0]).unwrap();
    }
}

/// A pool of so many blocks.
fn pool(blocks: usize) -> BlockPool {
    BlockPool::new(SHAPE, &KvPlace::Host, blocks * SHAPE.block_bytes()).unwrap()
}

fn text(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

fn as_tags(tokens: &[u32]) -> Vec<f32> {
    tokens.iter().map(|&token| token as f32).collect()
}

#[test]
fn a_budget_is_kept_to_and_must_hold_a_block() {
    let pool = pool(3);
    assert_eq!(pool.counts(), BlockCounts { total: 3, ..BlockCounts::default() });
    let fault = BlockPool::new(SHAPE, &KvPlace::Host, SHAPE.block_bytes() - 1).map(drop).unwrap_err().to_string();
    assert_eq!(fault, "a budget of 19455 bytes of KV memory holds no block of 19456 bytes");
}

#[test]
fn sequences_that_begin_alike_share_whole_blocks_and_copy_the_next() {
    let (pool, text) = (pool(12), text(180));
    let mut first = pool.open(200, &text).unwrap();
    assert_eq!(first.committed(), 0);
    filled(&mut first, &text[..150]);
    // What is full is shared at once, the rest when it is written no more.
    let mut second = pool.open(200, &text).unwrap();
    assert_eq!(second.committed(), 128);
    assert_eq!(pool.counts(), BlockCounts { total: 12, held: 3, promised: 3, lingering: 0 });
    drop(first);
    let mut third = pool.open(200, &text).unwrap();
    assert_eq!(third.committed(), 150);
    filled(&mut second, &[7, 8]);
    filled(&mut third, &[9]);
    assert_eq!(tags(&mut second), as_tags(&[&text[..128], &[7, 8]].concat()));
    assert_eq!(tags(&mut third), as_tags(&[&text[..150], &[9]].concat()));
    drop((second, third));
    assert_eq!(pool.counts(), BlockCounts { total: 12, held: 0, promised: 0, lingering: 5 });
}

#[test]
fn tenants_share_no_beginnings_and_nothing_tells_what_another_knows() {
    let (pool, text) = (pool(12), text(180));
    let mut first = pool.open_for(Tenant(1), 200, &text).unwrap();
    filled(&mut first, &text[..150]);
    let mut other = pool.open_for(Tenant(2), 200, &text).unwrap();
    assert_eq!((other.committed(), pool.open(100, &text).unwrap().committed()), (0, 0));
    filled(&mut other, &text[..70]);
    assert_eq!(pool.counts().held, 5, "nothing is held together");
    drop((first, other));
    let known = [Tenant(1), Tenant(2), Tenant::default()]
        .map(|tenant| pool.open_for(tenant, 200, &text).map(|cache| cache.committed()).unwrap());
    assert_eq!(known, [150, 70, 0]);
}

#[test]
fn a_refusal_says_what_is_needed_and_what_there_is() {
    let pool = pool(3);
    let first = pool.open(100, &[]).unwrap();
    let refusal = pool.open(65, &[]).map(drop).unwrap_err().to_string();
    assert_eq!(refusal, "2 blocks of KV memory are needed, but 1 of 3 are free");
    let refusal = pool.open(200, &[]).map(drop).unwrap_err().to_string();
    assert_eq!(refusal, "4 blocks of KV memory are needed, but there are only 3");
    drop(first);
    assert!(pool.open(65, &[]).is_ok());
}

#[test]
fn a_cache_has_no_more_positions_than_it_was_opened_for() {
    let mut cache = pool(3).open(70, &[]).unwrap();
    assert_eq!(cache.room(), 70);
    filled(&mut cache, &text(60));
    assert_eq!(cache.room(), 10);
    assert_eq!(cache.reserve(11).unwrap_err().to_string(), "71 positions are needed, but there is room for 70");
    cache.reserve(10).unwrap();
}

#[test]
fn rows_that_left_early_or_are_known_by_states_are_not_shared() {
    for (token, layers) in [(Some(3), 1), (None, 2)] {
        let pool = pool(4);
        let mut cache = pool.open(200, &[]).unwrap();
        for slot in 0..100 {
            cache.append([(None, token)].into_iter()).unwrap();
            cache.advance(slot, layers, &[]);
            cache.keep_path(&[0]).unwrap();
        }
        drop(cache);
        assert_eq!((pool.counts().lingering, pool.counts().held), (0, 0));
    }
}

#[test]
fn what_is_rolled_back_in_a_shared_block_is_written_in_a_copy() {
    let (pool, text) = (pool(8), text(128));
    let mut first = pool.open(200, &[]).unwrap();
    filled(&mut first, &text);
    let mut second = pool.open(200, &text).unwrap();
    second.roll_back_to(100);
    filled(&mut second, &[500, 501]);
    assert_eq!(tags(&mut first), as_tags(&text));
    assert_eq!(tags(&mut second), as_tags(&[&text[..100], &[500, 501]].concat()));
    // Who is alone writes where it is.
    drop(second);
    first.roll_back_to(3);
    filled(&mut first, &[600]);
    assert_eq!(tags(&mut first), as_tags(&[0, 1, 2, 600]));
}

/// What may be done with the caches of a pool.
#[derive(Clone, Debug)]
enum Deed {
    /// Opens a cache for a text that begins with a cut of another's.
    Open {
        like: usize,
        cut: usize,
    },
    /// Runs a tree of so many rows and keeps the path to one of them.
    Round {
        cache: usize,
        rows: usize,
        kept: usize,
    },
    RollBack {
        cache: usize,
        len: usize,
    },
    Drop {
        cache: usize,
    },
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        2 => (0..6_usize, 0..220_usize).prop_map(|(like, cut)| Deed::Open { like, cut }),
        6 => (0..6_usize, 1..60_usize, 0..60_usize).prop_map(|(cache, rows, kept)| Deed::Round { cache, rows, kept }),
        1 => (0..6_usize, 0..200_usize).prop_map(|(cache, len)| Deed::RollBack { cache, len }),
        1 => (0..6_usize).prop_map(|cache| Deed::Drop { cache }),
    ];
    proptest::collection::vec(deed, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever caches that share a pool do, each holds what it would hold alone.
    #[test]
    fn caches_of_one_pool_do_not_disturb_each_other(deeds in deeds()) {
        let pool = pool(24);
        let mut caches: Vec<(KvCache, Vec<u32>)> = Vec::new();
        let mut next = 0;
        for deed in deeds {
            match deed {
                Deed::Open { like, cut } => {
                    let mut text = caches.get(like).map_or(Vec::new(), |(_, text)| text.clone());
                    text.truncate(cut);
                    if let Ok(mut cache) = pool.open(200, &text) {
                        let missing = text[cache.committed()..].to_vec();
                        filled(&mut cache, &missing);
                        caches.push((cache, text));
                    }
                }
                Deed::Round { cache, rows, kept } => {
                    let Some((cache, text)) = caches.get_mut(cache) else { continue };
                    if cache.reserve(rows).is_err() {
                        continue;
                    }
                    // Rows that hang below the one two before them: two chains that take turns.
                    for row in 0..rows {
                        next += 1;
                        append(cache, row.checked_sub(2), next as f32);
                        cache.advance(cache.slots() - 1, SHAPE.layers, &[]);
                    }
                    let path: Vec<usize> = (0..rows.min(kept)).filter(|row| row % 2 == kept % 2).collect();
                    text.extend(path.iter().map(|row| next - rows as u32 + 1 + *row as u32));
                    cache.keep_path(&path).unwrap();
                }
                Deed::RollBack { cache, len } => {
                    let Some((cache, text)) = caches.get_mut(cache) else { continue };
                    cache.roll_back_to(len);
                    text.truncate(len);
                }
                Deed::Drop { cache } if cache < caches.len() => drop(caches.swap_remove(cache)),
                Deed::Drop { .. } => {}
            }
            for (cache, text) in &mut caches {
                prop_assert_eq!(tags(cache), as_tags(text));
            }
        }
        drop(caches);
        prop_assert_eq!((pool.counts().held, pool.counts().promised), (0, 0));
    }
}
