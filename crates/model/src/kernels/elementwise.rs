//! Norms, softmax and gating over rows, in a fixed order of lanes.

use super::simd::{LANES, Simd, exp, sum, to_array};

/// Calls `body` with the vector at each full group of lanes of `x`, and once with the rest padded by `pad`.
#[inline(always)]
unsafe fn for_each<S: Simd>(x: &[f32], pad: f32, mut body: impl FnMut(S::V)) {
    let (full, rest) = x.as_chunks::<LANES>();
    // SAFETY: chunks hold LANES elements.
    unsafe {
        full.iter().for_each(|chunk| body(S::load(chunk.as_ptr())));
        if !rest.is_empty() {
            let mut last = [pad; LANES];
            last[..rest.len()].copy_from_slice(rest);
            body(S::load(last.as_ptr()));
        }
    }
}

/// Replaces every element of `x` by `f` of it.
#[inline(always)]
unsafe fn map_in_place<S: Simd>(x: &mut [f32], f: impl Fn(S::V) -> S::V) {
    let (full, rest) = x.as_chunks_mut::<LANES>();
    // SAFETY: chunks hold LANES elements.
    unsafe {
        full.iter_mut().for_each(|chunk| S::store(chunk.as_mut_ptr(), f(S::load(chunk.as_ptr()))));
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        S::store(last.as_mut_ptr(), f(S::load(last.as_ptr())));
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// `out = f(x, y)` over slices of one length.
#[inline(always)]
unsafe fn zip_into<S: Simd>(x: &[f32], y: &[f32], out: &mut [f32], f: impl Fn(S::V, S::V) -> S::V) {
    assert!(x.len() == out.len() && y.len() == out.len(), "slices of one length");
    let whole = out.len() / LANES * LANES;
    // SAFETY: the lengths are equal, checked above.
    unsafe {
        for i in (0..whole).step_by(LANES) {
            S::store(out.as_mut_ptr().add(i), f(S::load(x.as_ptr().add(i)), S::load(y.as_ptr().add(i))));
        }
        let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
        a[..out.len() - whole].copy_from_slice(&x[whole..]);
        b[..out.len() - whole].copy_from_slice(&y[whole..]);
        let last = to_array::<S>(f(S::load(a.as_ptr()), S::load(b.as_ptr())));
        let rest = out.len() - whole;
        out[whole..].copy_from_slice(&last[..rest]);
    }
}

/// `out = x / sqrt(mean(x^2) + eps) * weight`.
#[inline(always)]
pub(crate) unsafe fn rms_norm<S: Simd>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    // SAFETY: lane arithmetic on slices.
    unsafe {
        let mut squares = S::splat(0.0);
        for_each::<S>(x, 0.0, |v| squares = S::fma(v, v, squares));
        let scale = S::splat(1.0 / (sum::<S>(squares) / x.len() as f32 + eps).sqrt());
        zip_into::<S>(x, weight, out, |v, w| S::mul(S::mul(v, scale), w));
    }
}

/// `out = (x - mean) / sqrt(variance + eps) * weight`; the caller adds the bias.
#[inline(always)]
pub(crate) unsafe fn layer_norm<S: Simd>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    // SAFETY: lane arithmetic on slices.
    unsafe {
        let mut total = S::splat(0.0);
        for_each::<S>(x, 0.0, |v| total = S::add(v, total));
        let mean = sum::<S>(total) / x.len() as f32;
        let mean_lanes = S::splat(mean);
        let mut squares = S::splat(0.0);
        // Padding with the mean adds nothing to the variance.
        for_each::<S>(x, mean, |v| {
            let d = S::sub(v, mean_lanes);
            squares = S::fma(d, d, squares);
        });
        let scale = S::splat(1.0 / (sum::<S>(squares) / x.len() as f32 + eps).sqrt());
        zip_into::<S>(x, weight, out, |v, w| S::mul(S::mul(S::sub(v, mean_lanes), scale), w));
    }
}

/// Scores become `e^(score - max)`; returns their sum. `scores` is not empty; element `i` always goes to lane
/// `i % LANES`, so the sum depends on the context alone.
#[inline(always)]
pub(crate) unsafe fn softmax_terms<S: Simd>(scores: &mut [f32]) -> f32 {
    // SAFETY: lane arithmetic on slices.
    unsafe {
        let mut top = S::splat(f32::NEG_INFINITY);
        for_each::<S>(scores, f32::NEG_INFINITY, |v| top = S::max(v, top));
        let top = to_array::<S>(top).into_iter().fold(f32::NEG_INFINITY, f32::max);
        let top = S::splat(top);
        map_in_place::<S>(scores, |v| exp::<S>(S::sub(v, top)));
        let mut total = S::splat(0.0);
        for_each::<S>(scores, 0.0, |v| total = S::add(v, total));
        sum::<S>(total)
    }
}

/// `out = gate / (1 + e^-gate) * up`.
#[inline(always)]
pub(crate) unsafe fn silu_mul<S: Simd>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    // SAFETY: lane arithmetic on slices.
    unsafe {
        let one = S::splat(1.0);
        zip_into::<S>(gate, up, out, |g, u| {
            let negative = S::sub(S::splat(0.0), g);
            S::mul(S::div(g, S::add(one, exp::<S>(negative))), u)
        });
    }
}
