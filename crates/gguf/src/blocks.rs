//! From blocks to floats. One function for each type of block says how its bytes lie.
//!
//! Arithmetic is that of ggml, operation by operation, so the floats are the same bits.

use half::{bf16, f16};

use crate::tensor_type::TensorType;

/// The elements of whole blocks.
pub(crate) fn to_f32(kind: TensorType, bytes: &[u8]) -> Vec<f32> {
    match kind {
        TensorType::F32 => floats(bytes, f32::from_le_bytes),
        TensorType::F16 => floats(bytes, |element| f16::from_le_bytes(element).to_f32()),
        TensorType::BF16 => floats(bytes, |element| bf16::from_le_bytes(element).to_f32()),
        TensorType::Q4_0 => blocks(kind, bytes, q4_0),
        TensorType::Q4_1 => blocks(kind, bytes, q4_1),
        TensorType::Q5_0 => blocks(kind, bytes, q5_0),
        TensorType::Q5_1 => blocks(kind, bytes, q5_1),
        TensorType::Q8_0 => blocks(kind, bytes, q8_0),
        TensorType::Q4_K => blocks(kind, bytes, q4_k),
        TensorType::Q5_K => blocks(kind, bytes, q5_k),
        TensorType::Q6_K => blocks(kind, bytes, q6_k),
    }
}

fn floats<const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, _) = bytes.as_chunks();
    elements.iter().copied().map(from).collect()
}

/// Blocks of `N` bytes, each of which adds its elements to those before.
fn blocks<const N: usize>(kind: TensorType, bytes: &[u8], add: impl Fn(&[u8; N], &mut Vec<f32>)) -> Vec<f32> {
    let (blocks, _) = bytes.as_chunks();
    let mut elements = Vec::with_capacity(blocks.len().saturating_mul(kind.block_elements()));
    blocks.iter().for_each(|block| add(block, &mut elements));
    elements
}

fn scale(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// 18 bytes, 32 elements `d (q - 8)`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..18 | `q`: byte `i` has that of element `i` in its low half, that of element `i + 16` in its high half |
fn q4_0(block: &[u8; 18], elements: &mut Vec<f32>) {
    let [d0, d1, quants @ ..] = block;
    let d = scale([*d0, *d1]);
    let element = |quant: u8| (f32::from(quant) - 8.0) * d;
    elements.extend(quants.iter().map(|pair| element(pair & 15)));
    elements.extend(quants.iter().map(|pair| element(pair >> 4)));
}

/// 20 bytes, 32 elements `d q + m`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..4 | `m`, f16 |
/// | 4..20 | `q`, as in [`q4_0`] |
fn q4_1(block: &[u8; 20], elements: &mut Vec<f32>) {
    let [d0, d1, m0, m1, quants @ ..] = block;
    let (d, m) = (scale([*d0, *d1]), scale([*m0, *m1]));
    let element = |quant: u8| f32::from(quant) * d + m;
    elements.extend(quants.iter().map(|pair| element(pair & 15)));
    elements.extend(quants.iter().map(|pair| element(pair >> 4)));
}

/// 22 bytes, 32 elements `d (q - 16)`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..22 | `q`: [`five_bits`] |
fn q5_0(block: &[u8; 22], elements: &mut Vec<f32>) {
    let [d0, d1, quants @ ..] = block;
    let d = scale([*d0, *d1]);
    elements.extend(five_bits(quants).map(|quant| (f32::from(quant) - 16.0) * d));
}

/// 24 bytes, 32 elements `d q + m`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..4 | `m`, f16 |
/// | 4..24 | `q`: [`five_bits`] |
fn q5_1(block: &[u8; 24], elements: &mut Vec<f32>) {
    let [d0, d1, m0, m1, quants @ ..] = block;
    let (d, m) = (scale([*d0, *d1]), scale([*m0, *m1]));
    elements.extend(five_bits(quants).map(|quant| f32::from(quant) * d + m));
}

/// 32 numbers of 5 bits: bit `i` of the first four bytes is the highest of number `i`; the others lie as in [`q4_0`].
fn five_bits(packed: &[u8; 20]) -> impl Iterator<Item = u8> {
    let [h0, h1, h2, h3, quants @ ..] = packed;
    let high = u32::from_le_bytes([*h0, *h1, *h2, *h3]);
    let low = quants.iter().map(|pair| pair & 15).chain(quants.iter().map(|pair| pair >> 4));
    low.enumerate().map(move |(i, low)| low | (((high >> i) & 1) << 4) as u8)
}

/// 34 bytes, 32 elements `d q`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..34 | `q`, i8 each |
fn q8_0(block: &[u8; 34], elements: &mut Vec<f32>) {
    let [d0, d1, quants @ ..] = block;
    let d = scale([*d0, *d1]);
    elements.extend(quants.iter().map(|quant| f32::from(quant.cast_signed()) * d));
}

/// 144 bytes, 256 elements in 8 groups of 32, `(d s) q - m t`, with a scale `s` and a minimum `t` for each group.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..4 | `m`, f16 |
/// | 4..16 | 8 pairs `s`, `t` of 6 bits each: [`q4_k_groups`] |
/// | 16..144 | `q`: 32 bytes for each two groups; low halves are of the first, high halves of the second |
fn q4_k(block: &[u8; 144], elements: &mut Vec<f32>) {
    let &[d0, d1, m0, m1, a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, ref quants @ ..] = block;
    let (d, m) = (scale([d0, d1]), scale([m0, m1]));
    let groups = q4_k_groups([[a0, b0, c0], [a1, b1, c1], [a2, b2, c2], [a3, b3, c3]]);
    let halves = quants.as_chunks::<32>().0.iter().flat_map(|pairs| [(pairs, 0), (pairs, 4)]);
    for (group, (pairs, shift)) in groups.zip(halves) {
        let (factor, minimum) = (d * f32::from(group.scale), m * f32::from(group.minimum));
        elements.extend(pairs.iter().map(|pair| factor * f32::from((pair >> shift) & 15) - minimum));
    }
}

/// 176 bytes, 256 elements in 8 groups of 32, `(d s) q - m t`, with a scale `s` and a minimum `t` for each group.
///
/// | bytes | contents |
/// |---|---|
/// | 0..16 | `d`, `m`, `s` and `t`, as in [`q4_k`] |
/// | 16..48 | bit `g` of byte `i` is the highest of `q` of element `i` of group `g` |
/// | 48..176 | the low 4 bits of `q`, as in [`q4_k`] |
fn q5_k(block: &[u8; 176], elements: &mut Vec<f32>) {
    let &[d0, d1, m0, m1, a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, ref quants @ ..] = block;
    let (d, m) = (scale([d0, d1]), scale([m0, m1]));
    let groups = q4_k_groups([[a0, b0, c0], [a1, b1, c1], [a2, b2, c2], [a3, b3, c3]]);
    let (high, low) = quants.split_at(32);
    let halves = low.as_chunks::<32>().0.iter().flat_map(|pairs| [(pairs, 0), (pairs, 4)]);
    for (at, (group, (pairs, shift))) in groups.zip(halves).enumerate() {
        let (factor, minimum) = (d * f32::from(group.scale), m * f32::from(group.minimum));
        let quants = pairs.iter().zip(high).map(|(pair, high)| ((pair >> shift) & 15) | (((high >> at) & 1) << 4));
        elements.extend(quants.map(|quant| factor * f32::from(quant) - minimum));
    }
}

/// Scale and minimum of a group, 6 bits each.
struct Group {
    scale: u8,
    minimum: u8,
}

/// The 8 groups of 12 bytes `aaaa bbbb cccc`, given as 4 times `a`, `b`, `c`. Each has two groups, the second one 4
/// after the first: the low 6 bits of `a` and `b` are scale and minimum of the first; for the second the halves of `c`
/// are the low 4 bits, and the high 2 bits of `a` and `b` the rest.
fn q4_k_groups(packed: [[u8; 3]; 4]) -> impl Iterator<Item = Group> {
    let early = packed.map(|[a, b, _]| Group { scale: a & 63, minimum: b & 63 });
    let late = packed.map(|[a, b, c]| Group { scale: (c & 15) | ((a >> 6) << 4), minimum: (c >> 4) | ((b >> 6) << 4) });
    early.into_iter().chain(late)
}

/// 210 bytes, 256 elements in 16 groups of 16, `(d s) (q - 32)`, with a scale `s` for each group.
///
/// | bytes | contents |
/// |---|---|
/// | 0..128 | the low 4 bits of `q`, 64 bytes for each 128 elements: [`q6_k_half`] |
/// | 128..192 | the high 2 bits of `q`, 32 bytes for each 128 elements |
/// | 192..208 | `s`, i8 each |
/// | 208..210 | `d`, f16 |
fn q6_k(block: &[u8; 210], elements: &mut Vec<f32>) {
    let [quants @ .., d0, d1] = block;
    let d = scale([*d0, *d1]);
    let (low, high, scales) = (&quants[..128], &quants[128..192], &quants[192..]);
    let halves = low.as_chunks().0.iter().zip(high.as_chunks().0).zip(scales.as_chunks().0);
    halves.for_each(|((low, high), scales)| q6_k_half(d, &Half { low, high, scales }, elements));
}

/// Half a block of [`q6_k`].
struct Half<'a> {
    low: &'a [u8; 64],
    high: &'a [u8; 32],
    scales: &'a [u8; 8],
}

/// 128 elements in 4 quarters of 32. The low bits of the quarters are the low halves of the first 32 bytes, those of
/// the second 32, the high halves of the first, and those of the second; the high bits are, in each byte, those of
/// quarter 0 in the lowest two bits, those of quarter 3 in the highest.
fn q6_k_half(d: f32, half: &Half<'_>, elements: &mut Vec<f32>) {
    let (first, second) = (&half.low[..32], &half.low[32..]);
    let quarters = [(first, 0), (second, 0), (first, 4), (second, 4)];
    let scales = half.scales.as_chunks::<2>().0;
    for (((low, low_shift), high_shift), scales) in quarters.into_iter().zip([0, 2, 4, 6]).zip(scales) {
        let quants = low.iter().zip(half.high).map(|(low, high)| {
            let quant = ((low >> low_shift) & 15) | (((high >> high_shift) & 3) << 4);
            f32::from(quant) - 32.0
        });
        let scales = scales.iter().flat_map(|scale| [f32::from(scale.cast_signed()); 16]);
        elements.extend(quants.zip(scales).map(|(quant, scale)| d * scale * quant));
    }
}
