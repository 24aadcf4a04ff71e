//! What all sets of this architecture do with a group of bytes.

use std::arch::x86_64::*;

use super::super::blocks::GROUP;

/// The sum of signed bytes.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn total(bytes: __m256i) -> i32 {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        // 128 more each, so that they are positive: sums of eight of those are one instruction.
        let eights = _mm256_sad_epu8(_mm256_xor_si256(bytes, _mm256_set1_epi8(i8::MIN)), _mm256_setzero_si256());
        let two = _mm_add_epi64(_mm256_castsi256_si128(eights), _mm256_extracti128_si256::<1>(eights));
        _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) - 128 * GROUP as i32
    }
}
