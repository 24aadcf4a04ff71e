//! The instruction sets of 64-bit ARM.

mod neon;

pub(super) use neon::Neon;

/// Whether this processor has products of bytes, four to a sum.
pub(super) fn has_dots() -> bool {
    std::arch::is_aarch64_feature_detected!("dotprod")
}
