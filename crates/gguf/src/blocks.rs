//! From blocks to floats. One function for each type of block says how its bytes lie; [`groups`](crate::groups) has
//! others.
//!
//! Arithmetic is that of ggml, operation by operation, so the floats are the same bits.

use half::{bf16, f16};

use crate::groups::{GROUP, KGroup, half, k_groups, k_head};
use crate::tensor_type::TensorType;

impl TensorType {
    /// The elements of whole blocks: as many as there are, and as there is room for.
    pub fn to_f32(self, blocks: &[u8], elements: &mut [f32]) {
        match self {
            Self::F32 => each(blocks, elements, |bytes, [element]| *element = f32::from_le_bytes(*bytes)),
            Self::F16 => each(blocks, elements, |bytes, [element]| *element = f16::from_le_bytes(*bytes).to_f32()),
            Self::BF16 => each(blocks, elements, |bytes, [element]| *element = bf16::from_le_bytes(*bytes).to_f32()),
            Self::Q5_0 => each(blocks, elements, q5_0),
            Self::Q5_1 => each(blocks, elements, q5_1),
            Self::Q5_K => each(blocks, elements, q5_k),
            Self::Q6_K => each(blocks, elements, q6_k),
            Self::Q8_0 => {
                let mut room = elements.as_chunks_mut().0.iter_mut();
                self.eight_bits(blocks, |group| put(room.next(), group.to_f32()));
            }
            // Not by way of the smallest: zeros have the sign of the scale.
            Self::Q4_0 => {
                let mut room = elements.as_chunks_mut().0.iter_mut();
                let element = |scale: f32| move |quant: u8| (f32::from(quant) - 8.0) * scale;
                self.four_bits(blocks, |group| put(room.next(), group.quants.map(element(group.scale))));
            }
            Self::Q4_1 | Self::Q4_K => {
                let mut room = elements.as_chunks_mut().0.iter_mut();
                self.four_bits(blocks, |group| put(room.next(), group.to_f32()));
            }
        }
    }
}

/// Blocks of `BYTES` bytes with `N` elements each.
fn each<const BYTES: usize, const N: usize>(
    blocks: &[u8],
    elements: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; N]),
) {
    blocks.as_chunks().0.iter().zip(elements.as_chunks_mut().0).for_each(|(bytes, elements)| block(bytes, elements));
}

/// Writes a group, if there is room for it.
fn put(room: Option<&mut [f32; GROUP]>, group: [f32; GROUP]) {
    if let Some(room) = room {
        *room = group;
    }
}

/// Writes elements one after the other.
fn write(room: &mut [f32], elements: impl Iterator<Item = f32>) {
    room.iter_mut().zip(elements).for_each(|(room, element)| *room = element);
}

/// 22 bytes, 32 elements `d (q - 16)`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..22 | `q`: [`five_bits`] |
fn q5_0(block: &[u8; 22], elements: &mut [f32; 32]) {
    let [d0, d1, quants @ ..] = block;
    let d = half([*d0, *d1]);
    write(elements, five_bits(quants).map(|quant| (f32::from(quant) - 16.0) * d));
}

/// 24 bytes, 32 elements `d q + m`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..4 | `m`, f16 |
/// | 4..24 | `q`: [`five_bits`] |
fn q5_1(block: &[u8; 24], elements: &mut [f32; 32]) {
    let [d0, d1, m0, m1, quants @ ..] = block;
    let (d, m) = (half([*d0, *d1]), half([*m0, *m1]));
    write(elements, five_bits(quants).map(|quant| f32::from(quant) * d + m));
}

/// 32 numbers of 5 bits: bit `i` of the first four bytes is the highest of number `i`; of the others byte `i` has the low
/// bits of number `i` in its low half, those of number `i + 16` in its high half.
fn five_bits(packed: &[u8; 20]) -> impl Iterator<Item = u8> {
    let [h0, h1, h2, h3, quants @ ..] = packed;
    let high = u32::from_le_bytes([*h0, *h1, *h2, *h3]);
    let low = quants.iter().map(|pair| pair & 15).chain(quants.iter().map(|pair| pair >> 4));
    low.enumerate().map(move |(i, low)| low | (((high >> i) & 1) << 4) as u8)
}

/// 176 bytes, 256 elements in 8 groups of 32, `(d s) q - m t`, with a scale `s` and a minimum `t` for each group.
///
/// | bytes | contents |
/// |---|---|
/// | 0..16 | `d`, `m`, `s` and `t`: [`k_groups`] |
/// | 16..48 | bit `g` of byte `i` is the highest of `q` of element `i` of group `g` |
/// | 48..176 | the low 4 bits of `q`: 32 bytes for each two groups; low halves are of the first, high halves of the second |
fn q5_k(block: &[u8; 176], elements: &mut [f32; 256]) {
    let (head, quants) = k_head(block);
    let (high, low) = quants.split_at(GROUP);
    let halves = low.as_chunks::<GROUP>().0.iter().flat_map(|pairs| [(pairs, 0), (pairs, 4)]);
    let room = elements.as_chunks_mut::<GROUP>().0;
    for (at, ((KGroup { scale, minimum }, (pairs, shift)), room)) in k_groups(head).zip(halves).zip(room).enumerate() {
        let quants = pairs.iter().zip(high).map(|(pair, high)| ((pair >> shift) & 15) | (((high >> at) & 1) << 4));
        write(room, quants.map(|quant| scale * f32::from(quant) - minimum));
    }
}

/// 210 bytes, 256 elements in 16 groups of 16, `(d s) (q - 32)`, with a scale `s` for each group.
///
/// | bytes | contents |
/// |---|---|
/// | 0..128 | the low 4 bits of `q`, 64 bytes for each 128 elements: [`q6_k_half`] |
/// | 128..192 | the high 2 bits of `q`, 32 bytes for each 128 elements |
/// | 192..208 | `s`, i8 each |
/// | 208..210 | `d`, f16 |
fn q6_k(block: &[u8; 210], elements: &mut [f32; 256]) {
    let [quants @ .., d0, d1] = block;
    let d = half([*d0, *d1]);
    let (low, high, scales) = (&quants[..128], &quants[128..192], &quants[192..]);
    let halves = low.as_chunks().0.iter().zip(high.as_chunks().0).zip(scales.as_chunks().0);
    for (((low, high), scales), room) in halves.zip(elements.as_chunks_mut().0) {
        q6_k_half(&Half { d, low, high, scales }, room);
    }
}

/// Half a block of [`q6_k`].
struct Half<'a> {
    d: f32,
    low: &'a [u8; 64],
    high: &'a [u8; 32],
    scales: &'a [u8; 8],
}

/// 128 elements in 4 quarters of 32. The low bits of the quarters are the low halves of the first 32 bytes, those of
/// the second 32, the high halves of the first, and those of the second; the high bits are, in each byte, those of
/// quarter 0 in the lowest two bits, those of quarter 3 in the highest.
fn q6_k_half(half: &Half<'_>, elements: &mut [f32; 128]) {
    let (first, second) = half.low.split_at(32);
    let quarters = [(first, 0, 0), (second, 0, 2), (first, 4, 4), (second, 4, 6)];
    let rooms = elements.as_chunks_mut::<32>().0.iter_mut().zip(half.scales.as_chunks::<2>().0);
    for ((low, low_shift, high_shift), (room, scales)) in quarters.into_iter().zip(rooms) {
        let quant = |(low, high): (&u8, &u8)| ((low >> low_shift) & 15) | (((high >> high_shift) & 3) << 4);
        let pieces = room.as_chunks_mut::<16>().0.iter_mut().zip(low.chunks(16)).zip(half.high.chunks(16));
        for (((room, low), high), scale) in pieces.zip(scales) {
            let factor = half.d * f32::from(scale.cast_signed());
            write(room, low.iter().zip(high).map(|pair| factor * (f32::from(quant(pair)) - 32.0)));
        }
    }
}
