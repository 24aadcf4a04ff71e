//! What blocks hold: groups of elements that share a scale. One function for each type of block says how its bytes lie.

use half::f16;

use crate::tensor_type::TensorType;

/// Elements of a group.
pub(crate) const GROUP: usize = 32;

/// 32 elements of 8 bits: `quant * scale` each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EightBits {
    /// What the quants are multiplied with, a number of 16 bits.
    pub scale: f32,
    /// The elements over the scale.
    pub quants: [i8; GROUP],
}

/// 32 elements of 4 bits: `quant * scale + smallest` each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FourBits {
    /// What the quants are multiplied with: a number of 16 bits, in [`TensorType::Q4_K`] times one of 6 bits.
    pub scale: f32,
    /// What the quant 0 stands for: as for the scale.
    pub smallest: f32,
    /// 0 to 15 each.
    pub quants: [u8; GROUP],
}

impl EightBits {
    /// The elements, as [`TensorType::to_f32`] has them.
    pub fn to_f32(&self) -> [f32; GROUP] {
        self.quants.map(|quant| f32::from(quant) * self.scale)
    }
}

impl FourBits {
    /// The elements, as [`TensorType::to_f32`] has them if all is finite, but for the sign of zeros.
    pub fn to_f32(&self) -> [f32; GROUP] {
        self.quants.map(|quant| f32::from(quant) * self.scale + self.smallest)
    }
}

impl TensorType {
    /// Whether [`Self::four_bits`] gives groups.
    pub fn has_four_bits(self) -> bool {
        matches!(self, Self::Q4_0 | Self::Q4_1 | Self::Q4_K)
    }

    /// Hands out the groups of whole blocks, if they are [`EightBits`]; says whether they are.
    pub fn eight_bits(self, blocks: &[u8], each: impl FnMut(EightBits)) -> bool {
        match self {
            Self::Q8_0 => blocks.as_chunks().0.iter().map(q8_0).for_each(each),
            _ => return false,
        }
        true
    }

    /// Hands out the groups of whole blocks, if they are [`FourBits`]; says whether they are.
    pub fn four_bits(self, blocks: &[u8], mut each: impl FnMut(FourBits)) -> bool {
        match self {
            Self::Q4_0 => blocks.as_chunks().0.iter().map(q4_0).for_each(each),
            Self::Q4_1 => blocks.as_chunks().0.iter().map(q4_1).for_each(each),
            Self::Q4_K => blocks.as_chunks().0.iter().for_each(|block| q4_k(block, &mut each)),
            _ => return false,
        }
        true
    }
}

/// A number of 16 bits.
pub(crate) fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// 34 bytes, 32 elements `d q`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..34 | `q`, i8 each |
fn q8_0(block: &[u8; 34]) -> EightBits {
    let [d0, d1, quants @ ..] = block;
    EightBits { scale: half([*d0, *d1]), quants: quants.map(u8::cast_signed) }
}

/// 18 bytes, 32 elements `d (q - 8)`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..18 | `q`: byte `i` has that of element `i` in its low half, that of element `i + 16` in its high half |
fn q4_0(block: &[u8; 18]) -> FourBits {
    let [d0, d1, quants @ ..] = block;
    let scale = half([*d0, *d1]);
    FourBits { scale, smallest: -8.0 * scale, quants: lower_then_upper(quants) }
}

/// 20 bytes, 32 elements `d q + m`.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..4 | `m`, f16 |
/// | 4..20 | `q`, as in [`q4_0`] |
fn q4_1(block: &[u8; 20]) -> FourBits {
    let [d0, d1, m0, m1, quants @ ..] = block;
    FourBits { scale: half([*d0, *d1]), smallest: half([*m0, *m1]), quants: lower_then_upper(quants) }
}

/// 144 bytes, 256 elements in 8 groups of 32, `(d s) q - m t`, with a scale `s` and a minimum `t` for each group.
///
/// | bytes | contents |
/// |---|---|
/// | 0..2 | `d`, f16 |
/// | 2..4 | `m`, f16 |
/// | 4..16 | 8 pairs `s`, `t` of 6 bits each: [`k_groups`] |
/// | 16..144 | `q`: 32 bytes for each two groups; low halves are of the first, high halves of the second |
fn q4_k(block: &[u8; 144], each: &mut impl FnMut(FourBits)) {
    let (head, quants) = k_head(block);
    let halves = quants.as_chunks::<GROUP>().0.iter().flat_map(|pairs| [(pairs, 0), (pairs, 4)]);
    for (KGroup { scale, minimum }, (pairs, shift)) in k_groups(head).zip(halves) {
        each(FourBits { scale, smallest: -minimum, quants: pairs.map(|pair| (pair >> shift) & 15) });
    }
}

/// What a block of several groups begins with, and what follows.
pub(crate) fn k_head<const N: usize>(block: &[u8; N]) -> (&[u8; 16], &[u8]) {
    block.split_first_chunk().unwrap_or((&[0; 16], &[]))
}

/// Scale and minimum of a group.
pub(crate) struct KGroup {
    pub(crate) scale: f32,
    pub(crate) minimum: f32,
}

/// The 8 groups of a head: `d` and `m`, f16 each, which the groups' scales and minimums of 6 bits are multiplied with, and
/// 12 bytes `aaaa bbbb cccc`. Each of 4 times `a`, `b`, `c` has two groups, the second one 4 after the first: the low 6
/// bits of `a` and `b` are scale and minimum of the first; for the second the halves of `c` are the low 4 bits, and the
/// high 2 bits of `a` and `b` the rest.
pub(crate) fn k_groups(head: &[u8; 16]) -> impl Iterator<Item = KGroup> {
    let &[d0, d1, m0, m1, a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = head;
    let (d, m) = (half([d0, d1]), half([m0, m1]));
    let packed = [[a0, b0, c0], [a1, b1, c1], [a2, b2, c2], [a3, b3, c3]];
    let early = packed.map(|[a, b, _]| [a & 63, b & 63]);
    let late = packed.map(|[a, b, c]| [(c & 15) | ((a >> 6) << 4), (c >> 4) | ((b >> 6) << 4)]);
    let group = move |[s, t]: [u8; 2]| KGroup { scale: d * f32::from(s), minimum: m * f32::from(t) };
    early.into_iter().chain(late).map(group)
}

/// The low halves of all bytes, and then the high ones.
fn lower_then_upper(pairs: &[u8; GROUP / 2]) -> [u8; GROUP] {
    let mut quants = [0; GROUP];
    let (lower, upper) = quants.split_at_mut(GROUP / 2);
    for ((lower, upper), pair) in lower.iter_mut().zip(upper).zip(pairs) {
        (*lower, *upper) = (pair & 15, pair >> 4);
    }
    quants
}
