//! Norms, softmax and gating over rows, in a fixed order of lanes.
//!
//! Plain loops and no closures: a closure is a function of its own, which would be compiled without the instruction
//! set that its caller enables.

use super::ahead::Ahead;
use super::simd::{LANES, Simd, exp, to_array};

/// The vector of a chunk of at most [`LANES`] values, the rest being `pad`.
#[inline(always)]
unsafe fn load<S: Simd>(chunk: &[f32], pad: f32) -> S::V {
    // SAFETY: whole chunks are read directly, others through a padded copy.
    unsafe {
        if chunk.len() == LANES {
            return S::load(chunk.as_ptr());
        }
        let mut padded = [pad; LANES];
        padded[..chunk.len()].copy_from_slice(chunk);
        S::load(padded.as_ptr())
    }
}

/// The lanes of `v` that fit a chunk of at most [`LANES`] values.
#[inline(always)]
unsafe fn store<S: Simd>(chunk: &mut [f32], v: S::V) {
    // SAFETY: whole chunks are written directly, others through a copy.
    unsafe {
        if chunk.len() == LANES {
            return S::store(chunk.as_mut_ptr(), v);
        }
        let lanes = to_array::<S>(v);
        chunk.copy_from_slice(&lanes[..chunk.len()]);
    }
}

/// `out = x / sqrt(mean(x^2) + eps) * weight`.
#[inline(always)]
pub(crate) unsafe fn rms_norm<S: Simd>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    // SAFETY: lane arithmetic on chunks.
    unsafe {
        let mut squares = S::splat(0.0);
        for chunk in x.chunks(LANES) {
            let v = load::<S>(chunk, 0.0);
            squares = S::fma(v, v, squares);
        }
        let scale = S::splat(1.0 / (S::sum(squares) / x.len() as f32 + eps).sqrt());
        for ((x, w), out) in x.chunks(LANES).zip(weight.chunks(LANES)).zip(out.chunks_mut(LANES)) {
            let normed = S::mul(load::<S>(x, 0.0), scale);
            store::<S>(out, S::mul(normed, load::<S>(w, 0.0)));
        }
    }
}

/// `out = (x - mean) / sqrt(variance + eps) * weight`; the caller adds the bias.
#[inline(always)]
pub(crate) unsafe fn layer_norm<S: Simd>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    // SAFETY: lane arithmetic on chunks.
    unsafe {
        let mut total = S::splat(0.0);
        for chunk in x.chunks(LANES) {
            total = S::add(load::<S>(chunk, 0.0), total);
        }
        let mean = S::sum(total) / x.len() as f32;
        let mut squares = S::splat(0.0);
        for chunk in x.chunks(LANES) {
            // Padding with the mean adds nothing to the variance.
            let d = S::sub(load::<S>(chunk, mean), S::splat(mean));
            squares = S::fma(d, d, squares);
        }
        let scale = S::splat(1.0 / (S::sum(squares) / x.len() as f32 + eps).sqrt());
        for ((x, w), out) in x.chunks(LANES).zip(weight.chunks(LANES)).zip(out.chunks_mut(LANES)) {
            let normed = S::mul(S::sub(load::<S>(x, 0.0), S::splat(mean)), scale);
            store::<S>(out, S::mul(normed, load::<S>(w, 0.0)));
        }
    }
}

/// The largest number, of several chains of comparisons: which of them come first changes nothing.
#[inline(always)]
unsafe fn largest<S: Simd>(numbers: &[f32]) -> f32 {
    // SAFETY: lane arithmetic on chunks.
    unsafe {
        let least = S::splat(f32::NEG_INFINITY);
        let mut tops = [least; 4];
        let (fours, rest) = numbers.as_chunks::<{ 4 * LANES }>();
        for four in fours {
            for (i, top) in tops.iter_mut().enumerate() {
                *top = S::max(S::load(four.as_ptr().add(i * LANES)), *top);
            }
        }
        for chunk in rest.chunks(LANES) {
            tops[0] = S::max(load::<S>(chunk, f32::NEG_INFINITY), tops[0]);
        }
        S::largest(S::max(S::max(tops[0], tops[1]), S::max(tops[2], tops[3])))
    }
}

/// Scores become `e^(score - max)`; returns their sum. `scores` is not empty; element `i` always goes to lane
/// `i % LANES`, so the sum depends on the context alone.
#[inline(always)]
pub(crate) unsafe fn softmax_terms<S: Simd>(scores: &mut [f32]) -> f32 {
    // SAFETY: lane arithmetic on chunks.
    unsafe {
        let top = S::splat(largest::<S>(scores));
        let mut total = S::splat(0.0);
        let (whole, rest) = scores.as_chunks_mut::<LANES>();
        for chunk in whole {
            let term = exp::<S>(S::sub(S::load(chunk.as_ptr()), top));
            S::store(chunk.as_mut_ptr(), term);
            total = S::add(term, total);
        }
        if !rest.is_empty() {
            store::<S>(rest, exp::<S>(S::sub(load::<S>(rest, 0.0), top)));
            total = S::add(load::<S>(rest, 0.0), total);
        }
        S::sum(total)
    }
}

/// `x *= factor`.
#[inline(always)]
pub(crate) unsafe fn scale<S: Simd>(x: &mut [f32], factor: f32) {
    // SAFETY: lane arithmetic on chunks.
    unsafe {
        for chunk in x.chunks_mut(LANES) {
            store::<S>(chunk, S::mul(load::<S>(chunk, 0.0), S::splat(factor)));
        }
    }
}

/// `x += y`.
#[inline(always)]
pub(crate) unsafe fn add<S: Simd>(x: &mut [f32], y: &[f32]) {
    // SAFETY: lane arithmetic on chunks.
    unsafe {
        for (x, y) in x.chunks_mut(LANES).zip(y.chunks(LANES)) {
            store::<S>(x, S::add(load::<S>(x, 0.0), load::<S>(y, 0.0)));
        }
    }
}

/// Points in the plane, rotated by an angle each: `a, b = a cos - b sin, b cos + a sin`. `points`: as many `a` as there are
/// angles, and then their `b`.
#[inline(always)]
pub(crate) unsafe fn rotate<S: Simd>(points: &mut [f32], cos: &[f32], sin: &[f32]) {
    // SAFETY: lane arithmetic on chunks.
    unsafe {
        let (a, b) = points.split_at_mut(cos.len());
        let points = a.chunks_mut(LANES).zip(b.chunks_mut(LANES));
        for ((a, b), (cos, sin)) in points.zip(cos.chunks(LANES).zip(sin.chunks(LANES))) {
            let (x, y) = (load::<S>(a, 0.0), load::<S>(b, 0.0));
            let (cos, sin) = (load::<S>(cos, 0.0), load::<S>(sin, 0.0));
            store::<S>(a, S::sub(S::mul(x, cos), S::mul(y, sin)));
            store::<S>(b, S::add(S::mul(y, cos), S::mul(x, sin)));
        }
    }
}

/// `gate = gate / (1 + e^-gate) * up`, in rows of `width` gates followed by their `width` factors `up`, whole vectors. One call
/// for all rows, as the steps of one exponential wait for each other, and others fill that time.
#[inline(always)]
pub(crate) unsafe fn silu_mul<S: Simd>(rows: &mut [f32], width: usize) {
    assert!(width.is_multiple_of(LANES), "whole vectors");
    for row in rows.chunks_exact_mut(2 * width) {
        let (gate, up) = row.split_at_mut(width);
        for (gate, up) in gate.chunks_exact_mut(LANES).zip(up.chunks_exact(LANES)) {
            // SAFETY: lane arithmetic on chunks.
            unsafe {
                let g = S::load(gate.as_ptr());
                let below = S::add(S::splat(1.0), exp::<S>(S::sub(S::splat(0.0), g)));
                S::store(gate.as_mut_ptr(), S::mul(S::div(g, below), S::load(up.as_ptr())));
            }
        }
    }
}

/// The sum of `x`, from eight chains of additions: a read of memory as fast as it goes, which is asked for as products of
/// so many rows ask for weights.
#[inline(always)]
pub(crate) unsafe fn read<S: Simd>(x: &[f32], rows: usize) -> f32 {
    // SAFETY: lane arithmetic on whole chunks.
    unsafe {
        let mut sums = [S::splat(0.0); 8];
        for chunk in x.chunks_exact(8 * LANES) {
            for (i, total) in sums.iter_mut().enumerate() {
                let lanes = chunk.as_ptr().add(i * LANES);
                S::ask(lanes.cast(), Ahead::USUAL.of_rows(rows));
                *total = S::add(S::load(lanes), *total);
            }
        }
        let mut total = sums[0];
        for other in &sums[1..] {
            total = S::add(total, *other);
        }
        S::sum(total)
    }
}

/// Independent sums that [`multiply_adds`] keeps.
pub(crate) const CHAINS: usize = 12;

/// `rounds` times [`CHAINS`] multiply-adds of whole vectors in registers: arithmetic as fast as it goes.
#[inline(always)]
pub(crate) unsafe fn multiply_adds<S: Simd>(rounds: usize) -> f32 {
    // SAFETY: lane arithmetic alone.
    unsafe {
        let (factor, term) = (S::splat(0.999), S::splat(0.001));
        let mut sums = [S::splat(0.5); CHAINS];
        for _ in 0..rounds {
            for total in &mut sums {
                *total = S::fma(*total, factor, term);
            }
        }
        let mut total = sums[0];
        for other in &sums[1..] {
            total = S::add(total, *other);
        }
        S::sum(total)
    }
}
