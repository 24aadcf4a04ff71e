//! Temperature 0: the arg-max.

use crate::Token;
use crate::numeric::{self, LogitsError};

/// The token of the greatest logit, among equals the smallest.
///
/// # Errors
/// No logits, a NaN or plus infinity among them, or all minus infinity.
///
/// # Examples
/// ```
/// use espalier_speculation::arg_max;
/// assert_eq!(arg_max(&[0.5, 2.0, 2.0, -1.0]), Ok(1));
/// ```
pub fn arg_max(logits: &[f32]) -> Result<Token, LogitsError> {
    let peak = numeric::peak(logits)?;
    Ok(numeric::first_index_of(logits, peak).unwrap_or(0) as Token)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_first_of_the_greatest(logits in prop::collection::vec(-3_i8..3, 1..100)) {
            let logits: Vec<f32> = logits.into_iter().map(f32::from).collect();
            let naive = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            prop_assert_eq!(arg_max(&logits).ok(), naive.map(|token| token as Token));
        }
    }
}
