//! What a request changes about the logits before a token is drawn: logit bias, and penalties for what the text
//! already holds.
//!
//! For a token `v` of logit `l`, biased by `b(v)`, that occurs in the prompt or in what was generated since, and `n(v)`
//! times in the latter:
//!
//! 1. `l += b(v)`
//! 2. where `v` occurs at all: `l /= repetition` if `l > 0`, else `l *= repetition`
//!    (Keskar et al. 2019, CTRL, section 4.1, with the sign rule of Hugging Face transformers)
//! 3. where `n(v) > 0`: `l -= presence + frequency * n(v)` (OpenAI)
//!
//! The nodes of a tree on the way to a node count as generated for it, so each node has a history of its own.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::Token;
use crate::sampling::{LOGIT_BIAS_MAX, LOGIT_BIASES_MAX, SamplingError};

/// What a repetition penalty may be.
pub const REPETITION_PENALTY_RANGE: RangeInclusive<f64> = 0.01..=100.0;

/// What a presence or frequency penalty may be.
pub const ADDITIVE_PENALTY_RANGE: RangeInclusive<f64> = -2.0..=2.0;

/// How much less likely tokens get that the text already holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// Divides positive logits, and multiplies others, of tokens of the prompt and of the generated text. In
    /// [`REPETITION_PENALTY_RANGE`]; 1 changes nothing.
    pub repetition: f64,
    /// Taken off the logits of tokens that were generated. In [`ADDITIVE_PENALTY_RANGE`].
    pub presence: f64,
    /// Taken off the logits of tokens as often as they were generated. In [`ADDITIVE_PENALTY_RANGE`].
    pub frequency: f64,
}

impl Penalties {
    /// Those that change nothing.
    pub const NONE: Self = Self { repetition: 1.0, presence: 0.0, frequency: 0.0 };

    fn check(&self) -> Result<(), SamplingError> {
        in_range("repetition_penalty", self.repetition, REPETITION_PENALTY_RANGE)?;
        in_range("presence_penalty", self.presence, ADDITIVE_PENALTY_RANGE)?;
        in_range("frequency_penalty", self.frequency, ADDITIVE_PENALTY_RANGE)
    }
}

impl Default for Penalties {
    fn default() -> Self {
        Self::NONE
    }
}

fn in_range(name: &'static str, found: f64, range: RangeInclusive<f64>) -> Result<(), SamplingError> {
    match range.contains(&found) {
        true => Ok(()),
        false => Err(SamplingError::Penalty { name, found, least: *range.start(), most: *range.end() }),
    }
}

/// Logit bias and penalties; valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaping {
    penalties: Penalties,
    /// By rising token; none is 0.
    bias: Vec<(Token, f64)>,
}

impl Shaping {
    /// These penalties, and a bias added to the logits of each of these tokens.
    ///
    /// # Errors
    /// A penalty out of its range; more than [`LOGIT_BIASES_MAX`] biases; one beyond [`LOGIT_BIAS_MAX`] either way or
    /// not a number; a token biased twice.
    pub fn new(penalties: Penalties, bias: impl IntoIterator<Item = (Token, f64)>) -> Result<Self, SamplingError> {
        penalties.check()?;
        let mut bias: Vec<(Token, f64)> = bias.into_iter().take(LOGIT_BIASES_MAX + 1).collect();
        if bias.len() > LOGIT_BIASES_MAX {
            return Err(SamplingError::Biases);
        }
        let allowed = |bias: f64| (-LOGIT_BIAS_MAX..=LOGIT_BIAS_MAX).contains(&bias);
        if let Some(&(token, found)) = bias.iter().find(|&&(_, bias)| !allowed(bias)) {
            return Err(SamplingError::Bias { token, found });
        }
        bias.sort_unstable_by_key(|&(token, _)| token);
        if let Some(twice) = bias.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(SamplingError::BiasedTwice { token: twice[0].0 });
        }
        bias.retain(|&(_, bias)| bias != 0.0);
        Ok(Self { penalties, bias })
    }

    /// The penalties.
    pub fn penalties(&self) -> &Penalties {
        &self.penalties
    }

    /// The biased tokens, rising, each with its bias.
    pub fn bias(&self) -> &[(Token, f64)] {
        &self.bias
    }

    /// Whether every text leaves all logits as they are.
    pub fn is_neutral(&self) -> bool {
        self.penalties == Penalties::NONE && self.bias.is_empty()
    }

    /// The shaped logit of `token`; `generated` says how often it was generated, and is `None` where the prompt does
    /// not hold it either.
    fn logit(&self, logit: f32, token: Token, generated: Option<u32>) -> f32 {
        let bias = self.bias.binary_search_by_key(&token, |&(token, _)| token);
        let mut shaped = f64::from(logit) + bias.map_or(0.0, |index| self.bias[index].1);
        let Penalties { repetition, presence, frequency } = self.penalties;
        if let Some(count) = generated {
            shaped = if shaped > 0.0 { shaped / repetition } else { shaped * repetition };
            if count > 0 {
                shaped -= presence + frequency * f64::from(count);
            }
        }
        shaped as f32
    }
}

/// What penalties must know of a text: how often each of its tokens was generated, 0 for those of the prompt alone.
///
/// A token is only in here if that makes a difference, so without penalties there is nothing to count.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    generated: BTreeMap<Token, u32>,
    counts: bool,
}

impl History {
    /// The history of a text that begins with `prompt`.
    pub(crate) fn new(shaping: &Shaping, prompt: &[Token]) -> Self {
        let Penalties { repetition, .. } = shaping.penalties;
        let read = if repetition == 1.0 { &[] } else { prompt };
        let counts = shaping.penalties != Penalties::NONE;
        Self { generated: read.iter().map(|&token| (token, 0)).collect(), counts }
    }

    /// Counts tokens that were generated.
    pub(crate) fn push(&mut self, tokens: &[Token]) {
        for &token in tokens.iter().filter(|_| self.counts) {
            let count = self.generated.entry(token).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Fills `row` with `logits` shaped for a node that `path` leads to. Only tokens that are biased or were seen are
    /// touched beyond the copy.
    pub(crate) fn shape(&self, shaping: &Shaping, logits: &[f32], path: &[Token], row: &mut Vec<f32>) {
        row.clear();
        row.extend_from_slice(logits);
        let mut set = |token: Token, generated: Option<u32>| {
            let index = token as usize;
            if let (Some(slot), Some(&logit)) = (row.get_mut(index), logits.get(index)) {
                *slot = shaping.logit(logit, token, generated);
            }
        };
        // Each overwrites those before it, as it knows more: biases nothing of the text, the text nothing of the path.
        shaping.bias.iter().for_each(|&(token, _)| set(token, None));
        self.generated.iter().for_each(|(&token, &count)| set(token, Some(count)));
        path.iter().for_each(|&token| set(token, Some(self.count(token, path))));
    }

    /// How often `token` was generated, `path` included.
    fn count(&self, token: Token, path: &[Token]) -> u32 {
        let committed = self.generated.get(&token).copied().unwrap_or_default();
        let drafted = path.iter().filter(|&&other| other == token).count();
        committed.saturating_add(drafted as u32)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shaping(penalties: Penalties, bias: &[(Token, f64)]) -> Shaping {
        Shaping::new(penalties, bias.iter().copied()).unwrap()
    }

    /// `logits` after a prompt, generated tokens and a path.
    fn shaped(shaping: &Shaping, logits: &[f32], [prompt, generated, path]: [&[Token]; 3]) -> Vec<f32> {
        let mut history = History::new(shaping, prompt);
        history.push(generated);
        let mut row = vec![9.0; 3];
        history.shape(shaping, logits, path, &mut row);
        row
    }

    #[test]
    fn a_repetition_penalty_divides_positive_logits_and_multiplies_others() {
        let shaping = shaping(Penalties { repetition: 2.0, ..Penalties::NONE }, &[]);
        let logits = [3.0, -3.0, 0.0, 3.0, -3.0, 3.0];
        // Tokens of the prompt (0), of the generated text (1, 2), and of the path (3); once, however often they occur.
        let row = shaped(&shaping, &logits, [&[0, 0], &[1, 1, 2], &[3, 3]]);
        assert_eq!(row, [1.5, -6.0, 0.0, 1.5, -3.0, 3.0]);
    }

    #[test]
    fn presence_and_frequency_count_what_was_generated_and_not_the_prompt() {
        let presence = shaping(Penalties { presence: 0.5, ..Penalties::NONE }, &[]);
        let text: [&[Token]; 3] = [&[0, 0, 0, 1], &[1, 2, 2], &[2, 3]];
        assert_eq!(shaped(&presence, &[1.0; 5], text), [1.0, 0.5, 0.5, 0.5, 1.0]);
        let frequency = shaping(Penalties { frequency: 0.25, ..Penalties::NONE }, &[]);
        assert_eq!(shaped(&frequency, &[1.0; 5], text), [1.0, 0.75, 0.25, 0.75, 1.0]);
        let encouraged = shaping(Penalties { presence: -0.5, frequency: -0.25, ..Penalties::NONE }, &[]);
        assert_eq!(shaped(&encouraged, &[1.0; 5], text), [1.0, 1.75, 2.25, 1.75, 1.0]);
    }

    #[test]
    fn a_bias_comes_first_then_repetition_then_the_rest() {
        let penalties = Penalties { repetition: 2.0, presence: 0.5, frequency: 0.25 };
        let shaping = shaping(penalties, &[(1, 4.0), (0, -5.0), (3, 1.0)]);
        // 0: (1 - 5) * 2 - 0.5 - 0.25; 1: (1 + 4) / 2 - 0.5 - 2 * 0.25; 2: 1 / 2; 3: 1 + 1.
        assert_eq!(shaped(&shaping, &[1.0; 4], [&[2], &[0, 1], &[1]]), [-8.75, 1.5, 0.5, 2.0]);
    }

    #[test]
    fn what_is_impossible_stays_impossible() {
        let shaping = shaping(Penalties { repetition: 0.5, presence: -2.0, frequency: -2.0 }, &[(0, 100.0)]);
        let row = shaped(&shaping, &[f32::NEG_INFINITY, 1.0], [&[], &[0], &[0]]);
        assert_eq!(row, [f32::NEG_INFINITY, 1.0]);
    }

    #[test]
    fn tokens_beyond_the_logits_are_passed_over() {
        let shaping = shaping(Penalties { repetition: 2.0, ..Penalties::NONE }, &[(7, 1.0)]);
        assert_eq!(shaped(&shaping, &[1.0], [&[9], &[8], &[Token::MAX]]), [1.0]);
    }

    #[test]
    fn without_penalties_there_is_no_history() {
        let mut history = History::new(&shaping(Penalties::NONE, &[(0, 1.0)]), &[1, 2, 3]);
        history.push(&[4, 5]);
        assert!(history.generated.is_empty());
    }

    #[test]
    fn what_changes_nothing_is_neutral() {
        assert!(shaping(Penalties::default(), &[(3, 0.0)]).is_neutral());
        assert!(!shaping(Penalties::NONE, &[(3, 0.1)]).is_neutral());
        assert!(!shaping(Penalties { presence: 0.1, ..Penalties::NONE }, &[]).is_neutral());
    }

    #[test]
    fn penalties_out_of_range_are_refused_with_their_name_value_and_range() {
        let refusal = |penalties| Shaping::new(penalties, []).unwrap_err().to_string();
        let with = |repetition, presence, frequency| Penalties { repetition, presence, frequency };
        assert_eq!(refusal(with(0.0, 0.0, 0.0)), "repetition_penalty 0 is not between 0.01 and 100");
        assert_eq!(refusal(with(f64::NAN, 0.0, 0.0)), "repetition_penalty NaN is not between 0.01 and 100");
        assert_eq!(refusal(with(1.0, -2.5, 0.0)), "presence_penalty -2.5 is not between -2 and 2");
        assert_eq!(refusal(with(1.0, 0.0, f64::INFINITY)), "frequency_penalty inf is not between -2 and 2");
    }

    #[test]
    fn biases_are_few_bounded_and_one_a_token() {
        let refusal = |bias: Vec<(Token, f64)>| Shaping::new(Penalties::NONE, bias).unwrap_err().to_string();
        assert_eq!(refusal(vec![(7, 100.5)]), "the bias of token 7 is 100.5, which is not between -100 and 100");
        assert_eq!(refusal(vec![(7, f64::NAN)]), "the bias of token 7 is NaN, which is not between -100 and 100");
        assert_eq!(refusal(vec![(7, 1.0), (8, 1.0), (7, 2.0)]), "token 7 is biased more than once");
        let many = |count| (0..count).map(|token| (token, 1.0)).collect::<Vec<_>>();
        assert_eq!(refusal(many(1025)), "more than 1024 tokens are biased");
        assert_eq!(shaping(Penalties::NONE, &many(1024)).bias().len(), 1024);
    }
}
