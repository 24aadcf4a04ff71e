//! Decisions under noise where logits are not at hand: whoever has them, perhaps a device that has a part of them, says
//! which tokens are ahead by its own rounded arithmetic, and the exact rule decides between these here.

use crate::noise::Gumbel;
use crate::numeric::{self, LogitsError, Scale};
use crate::{Token, winner};

/// How far, in nats, the score of a token that may win can be from the exact one where contenders are looked for.
///
/// A token that wins has a score of at least -41 without its noise: with its noise, at most 37, it is ahead of the most
/// probable token, whose noise is at least -4. In f32, of 24 bits, 41 and 37 are rounded by less than 1e-5 each.
pub const SCORE_ERROR: f64 = 1e-4;

/// Contenders that each part names, at least: the last of them says how far ahead those can be that it does not name.
pub const CONTENDERS: usize = 2;

/// The highest temperature at which f32 holds scores as exactly as [`SCORE_ERROR`] says.
const TEMPERATURE_MAX: f64 = 1e6;

/// The rule of coupled sampling from all tokens: the greatest `logit / temperature + gumbel(seed, position, token)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GumbelMax {
    temperature: f64,
    seed: u64,
}

/// What is said of a part of a vocabulary at a position.
#[derive(Debug, Clone, PartialEq)]
pub struct Contenders {
    /// The tokens of greatest score above minus infinity and their logits, greatest score first, within [`SCORE_ERROR`].
    pub tokens: Vec<(Token, f32)>,
    /// Whether the part has no other token above minus infinity.
    pub are_all: bool,
    /// The greatest logit of the part; what it is does not matter where there are no tokens.
    pub peak: f32,
    /// The first token whose logit is NaN or plus infinity.
    pub faulty: Option<Token>,
}

impl GumbelMax {
    /// The rule at a temperature above 0; none if that is too high for scores in f32.
    pub(crate) fn new(temperature: f64, seed: u64) -> Option<Self> {
        (temperature > 0.0 && temperature <= TEMPERATURE_MAX).then_some(Self { temperature, seed })
    }

    /// What the logit of a token, less the greatest logit, is multiplied by.
    pub fn inverse_temperature(&self) -> f32 {
        Scale::new(0.0, self.temperature).inverse_temperature as f32
    }

    /// What the noise of all tokens at absolute `position` is made of: see [`Gumbel::key`].
    pub fn key(&self, position: u64) -> u64 {
        Gumbel::new(self.seed, position).key()
    }

    /// The token at absolute `position`, given all logits.
    ///
    /// # Errors
    /// No logits, a NaN or plus infinity among them, or all minus infinity.
    pub fn decide(&self, logits: &[f32], position: u64) -> Result<Token, LogitsError> {
        let scale = Scale::new(numeric::peak(logits)?, self.temperature);
        let token = winner(scale.scores(logits), &Gumbel::new(self.seed, position));
        token.ok_or(LogitsError::NothingPossible { vocab: logits.len() })
    }

    /// The same token, given the contenders of all parts of `vocab` tokens; none where all logits are needed to tell it.
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub fn decide_among(
        &self,
        parts: &[Contenders],
        vocab: usize,
        position: u64,
    ) -> Result<Option<Token>, LogitsError> {
        if let Some(token) = parts.iter().filter_map(|part| part.faulty).min() {
            return Err(LogitsError::NotFinite { token: token as usize });
        }
        let possible = parts.iter().filter(|part| !part.tokens.is_empty());
        let peak = possible.clone().map(|part| part.peak).fold(f32::NEG_INFINITY, f32::max);
        let (scale, noise) = (Scale::new(peak, self.temperature), Gumbel::new(self.seed, position));
        let score = |&(token, logit): &(Token, f32)| scale.score(logit) + noise.at(token);
        let scores = possible.clone().flat_map(|part| &part.tokens).map(|contender| (contender.0, score(contender)));
        let ahead = scores.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let (token, best) = ahead.ok_or(match vocab {
            0 => LogitsError::Empty,
            _ => LogitsError::NothingPossible { vocab },
        })?;
        // Whoever is not named seemed no better than the last who is, and both may be off.
        let others = possible.filter(|part| !part.are_all).filter_map(|part| part.tokens.last());
        let bound = others.map(score).fold(f64::NEG_INFINITY, f64::max) + 2.0 * SCORE_ERROR;
        Ok((best > bound).then_some(token))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::Sampling;

    /// What a part says that finds scores in f32, up to `error` off.
    fn contenders(rule: &GumbelMax, logits: &[f32], first: Token, position: u64, error: f64) -> Contenders {
        let noise = Gumbel::new(rule.seed, position);
        let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut scores: Vec<(f64, Token, f32)> = (first..)
            .zip(logits)
            .filter(|(_, logit)| **logit > f32::NEG_INFINITY)
            .map(|(token, &logit)| {
                let score = (logit - peak) * rule.inverse_temperature() + noise.at(token) as f32;
                let off = if token % 2 == 0 { error } else { -error };
                (f64::from(score) + off, token, logit)
            })
            .collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        let tokens: Vec<(Token, f32)> =
            scores.iter().take(CONTENDERS).map(|&(_, token, logit)| (token, logit)).collect();
        Contenders { are_all: tokens.len() == scores.len(), tokens, peak, faulty: None }
    }

    /// What is made of the contenders of parts of so many tokens.
    fn among(
        rule: &GumbelMax,
        logits: &[f32],
        each: usize,
        position: u64,
        error: f64,
    ) -> Result<Option<Token>, LogitsError> {
        let parts = logits.chunks(each).zip((0..).step_by(each));
        let parts: Vec<Contenders> =
            parts.map(|(part, first)| contenders(rule, part, first, position, error)).collect();
        rule.decide_among(&parts, logits.len(), position)
    }

    /// Logits of which all scores are nearly the same: what noise adds is taken away, but for the rounding to f32.
    fn nearly_tied(rule: &GumbelMax, count: Token, position: u64) -> Vec<f32> {
        let noise = Gumbel::new(rule.seed, position);
        (0..count).map(|token| (-noise.at(token) * rule.temperature) as f32).collect()
    }

    #[test]
    fn what_decides_nothing_is_an_error_wherever_it_lies() {
        let rule = GumbelMax::new(1.0, 0).unwrap();
        let part = |faulty| Contenders { tokens: vec![(4, 0.0)], are_all: true, peak: 0.0, faulty };
        let nothing = Contenders { tokens: Vec::new(), ..part(None) };
        assert_eq!(rule.decide_among(&[part(Some(9)), part(Some(7))], 12, 0), Err(LogitsError::NotFinite { token: 7 }));
        assert_eq!(
            rule.decide_among(&[nothing.clone(), nothing.clone()], 12, 0),
            Err(LogitsError::NothingPossible { vocab: 12 })
        );
        assert_eq!(rule.decide_among(&[], 0, 0), Err(LogitsError::Empty));
        assert_eq!(rule.decide_among(&[nothing, part(None)], 12, 0), Ok(Some(4)));
    }

    #[test]
    fn whoever_is_too_near_to_tell_is_not_told() {
        let rule = GumbelMax::new(0.7, 3).unwrap();
        for position in 0..100 {
            let mut logits = nearly_tied(&rule, 40, position);
            assert_eq!(among(&rule, &logits, 40, position, 0.0), Ok(None));
            // Two that are near each other, and far ahead of the others: the last that is named is one of them.
            logits[5..39].iter_mut().for_each(|logit| *logit -= 1.0);
            logits[0..4].iter_mut().for_each(|logit| *logit -= 1.0);
            assert_eq!(among(&rule, &logits, 40, position, 0.0), Ok(None));
            // Each of them among others that are far behind.
            assert_eq!(among(&rule, &logits, 20, position, 0.0), Ok(Some(rule.decide(&logits, position).unwrap())));
        }
    }

    #[test]
    fn hardly_any_row_has_to_be_told_as_a_whole() {
        let rule = GumbelMax::new(1.0, 5).unwrap();
        let logits: Vec<f32> = (0..500).map(|i| ((i * 7919) % 1009) as f32 / 100.0).collect();
        let untold = (0..2000).filter(|&position| among(&rule, &logits, 500, position, 0.0) == Ok(None));
        assert!(untold.count() <= 3);
    }

    #[test]
    fn a_temperature_that_f32_cannot_hold_has_no_such_rule() {
        assert!(
            [f64::MIN_POSITIVE, 1e-9, 1.0, 1e6].iter().all(|&temperature| GumbelMax::new(temperature, 0).is_some())
        );
        assert!([0.0, 1e7, f64::MAX].iter().all(|&temperature| GumbelMax::new(temperature, 0).is_none()));
    }

    proptest! {
        #[test]
        fn what_is_told_is_the_decision(
            logits in prop::collection::vec(prop_oneof![8 => -20.0_f32..20.0, 1 => Just(f32::NEG_INFINITY)], 1..300),
            temperature in prop_oneof![0.05_f64..3.0, Just(1e-30), Just(1e6)],
            seed: u64, position: u64, each in 1_usize..120
        ) {
            let rule = GumbelMax::new(temperature, seed).unwrap();
            let decided = Sampling::new(temperature, 0, 1.0, seed).unwrap().decide(&logits, position);
            prop_assert_eq!(rule.decide(&logits, position), decided);
            match among(&rule, &logits, each, position, 9e-5) {
                Ok(told) => prop_assert!(told.is_none() || told == decided.ok()),
                Err(fault) => prop_assert_eq!(Err(fault), decided),
            }
        }

        #[test]
        fn what_is_told_of_near_ties_is_the_decision(
            temperature in 0.05_f64..3.0, seed: u64, position: u64, ahead in 0_u32..60, by in 0.0_f64..1e-3,
        ) {
            let rule = GumbelMax::new(temperature, seed).unwrap();
            let mut logits = nearly_tied(&rule, 60, position);
            logits[ahead as usize] += (by * temperature) as f32;
            let decided = rule.decide(&logits, position).unwrap();
            for each in [60, 30, 7] {
                let told = among(&rule, &logits, each, position, 9e-5).unwrap();
                prop_assert!(told.is_none() || told == Some(decided));
            }
            if (by - 2.0 * SCORE_ERROR).abs() > 1e-5 {
                let told = among(&rule, &logits, 60, position, 9e-5).unwrap();
                prop_assert_eq!(told.is_some(), by > 2.0 * SCORE_ERROR);
            }
        }
    }
}
