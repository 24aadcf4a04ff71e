//! Groups of numbers rounded to bytes, several side by side.
//!
//! No closures: they would be compiled without the instructions of who calls them.

use std::arch::x86_64::*;

use super::super::blocks::GROUP;
use super::super::rounding::ROUNDED_AT_ONCE;

/// The bytes of groups, and the sums of each.
type Bytes = ([[i8; GROUP]; ROUNDED_AT_ONCE], [i32; ROUNDED_AT_ONCE]);

/// The largest lane of each.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn largest_of_each([a, b, c, d]: [__m256; ROUNDED_AT_ONCE]) -> [f32; ROUNDED_AT_ONCE] {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        // Lanes of two side by side, then of all four: in the end there is one of each.
        let ab = _mm256_castps_pd(_mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)));
        let cd = _mm256_castps_pd(_mm256_max_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d)));
        let (low, high) = (_mm256_unpacklo_pd(ab, cd), _mm256_unpackhi_pd(ab, cd));
        let eight = _mm256_max_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
        let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        std::mem::transmute::<__m128, [f32; ROUNDED_AT_ONCE]>(four)
    }
}

/// The bytes of groups in two vectors each.
///
/// # Safety
/// The processor has AVX-512 with instructions for bytes.
#[inline(always)]
pub(super) unsafe fn of_halves([a, b, c, d]: [[__m512; 2]; ROUNDED_AT_ONCE]) -> Bytes {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let (ab, cd) = (two_groups(a, b), two_groups(c, d));
        let (a, b) = (_mm512_castsi512_si256(ab), _mm512_extracti64x4_epi64::<1>(ab));
        let (c, d) = (_mm512_castsi512_si256(cd), _mm512_extracti64x4_epi64::<1>(cd));
        with_totals([a, b, c, d])
    }
}

/// The bytes of two groups side by side.
#[inline(always)]
unsafe fn two_groups(a: [__m512; 2], b: [__m512; 2]) -> __m512i {
    // SAFETY: as above.
    unsafe {
        let a = _mm512_packs_epi32(_mm512_cvtps_epi32(a[0]), _mm512_cvtps_epi32(a[1]));
        let b = _mm512_packs_epi32(_mm512_cvtps_epi32(b[0]), _mm512_cvtps_epi32(b[1]));
        // Packing takes quarters of vectors apart: of each group two fours of bytes lie in each.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_permutexvar_epi32(order, _mm512_packs_epi16(a, b))
    }
}

/// The bytes of groups in four vectors each.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn of_quarters(groups: [[[__m256; 2]; 2]; ROUNDED_AT_ONCE]) -> Bytes {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let [a, b, c, d] = groups;
        with_totals([one_group(a), one_group(b), one_group(c), one_group(d)])
    }
}

/// The bytes of a group.
#[inline(always)]
unsafe fn one_group([low, high]: [[__m256; 2]; 2]) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let low = _mm256_packs_epi32(_mm256_cvtps_epi32(low[0]), _mm256_cvtps_epi32(low[1]));
        let high = _mm256_packs_epi32(_mm256_cvtps_epi32(high[0]), _mm256_cvtps_epi32(high[1]));
        // Packing takes halves of vectors apart: fours of bytes from the first halves come first.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order)
    }
}

/// The bytes, and the sums of each group.
#[inline(always)]
unsafe fn with_totals(groups: [__m256i; ROUNDED_AT_ONCE]) -> Bytes {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        // 128 more each, so that they are positive: sums of eight of those are one instruction.
        let mut sums = groups;
        for sums in &mut sums {
            let positive = _mm256_xor_si256(*sums, _mm256_set1_epi8(i8::MIN));
            *sums = _mm256_sad_epu8(positive, _mm256_setzero_si256());
        }
        // They fit into half of their lanes, so those of two groups lie side by side, and then of all four.
        let ab = _mm256_or_si256(sums[0], _mm256_slli_epi64::<32>(sums[1]));
        let cd = _mm256_or_si256(sums[2], _mm256_slli_epi64::<32>(sums[3]));
        let eight = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
        let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
        let four = _mm_sub_epi32(four, _mm_set1_epi32(128 * GROUP as i32));
        let mut bytes = [[0; GROUP]; ROUNDED_AT_ONCE];
        for (bytes, group) in bytes.iter_mut().zip(groups) {
            *bytes = std::mem::transmute::<__m256i, [i8; GROUP]>(group);
        }
        (bytes, std::mem::transmute::<__m128i, [i32; ROUNDED_AT_ONCE]>(four))
    }
}
