//! A constraint at work on one text.

use espalier_speculation::{Restriction, RestrictionFault, Token};
use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

/// Tokens of a word of a mask.
const WORD: usize = 32;

/// What may follow a text: see [`Restriction`].
///
/// Behind the committed text the parser is taken back and forth, so it is in one place only. A walk down a tree, or a tree
/// that grows, asks about places that are not far from each other.
pub struct Follower {
    matcher: Matcher,
    /// Tokens that end the text.
    ends: Vec<Token>,
    /// What the parser has read behind the committed text.
    read: Vec<Token>,
    /// Whether the committed text has ended.
    over: bool,
    /// Why the committed text could not be read, where it could not.
    lost: Option<RestrictionFault>,
    /// Tokens that the tokenizer has.
    tokens: usize,
}

/// Where a path leads.
enum Place {
    /// To where the parser is now.
    Here,
    /// Behind a token that ends the text.
    Beyond,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("read", &self.read).field("over", &self.over).finish_non_exhaustive()
    }
}

impl Follower {
    /// Follows a text that has not begun, of so many different `tokens`.
    pub(crate) fn new(matcher: Matcher, ends: &[Token], tokens: usize) -> Self {
        Self { matcher, ends: ends.to_vec(), read: Vec::new(), over: false, lost: None, tokens }
    }

    /// The place of the first token of `generated` that is not allowed, if there is one.
    pub(crate) fn breaks_at(&mut self, generated: &[Token]) -> Option<usize> {
        match self.go(generated) {
            Ok(Place::Here) => None,
            // What ends the text must come where it may.
            Ok(Place::Beyond) => (!self.may_end()).then_some(self.read.len()),
            Err(_) => Some(self.read.len()),
        }
    }

    /// Takes the parser behind `path`.
    fn go(&mut self, path: &[Token]) -> Result<Place, RestrictionFault> {
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        if self.over {
            return Ok(Place::Beyond);
        }
        let common = self.read.iter().zip(path).take_while(|(read, wanted)| read == wanted).count();
        self.matcher.rollback(self.read.len() - common).map_err(|_| RestrictionFault::TooComplex)?;
        self.read.truncate(common);
        for &token in &path[common..] {
            if self.ends.contains(&token) {
                return Ok(Place::Beyond);
            }
            match self.matcher.try_consume_tokens(&[token]) {
                Ok(1) => self.read.push(token),
                Ok(_) => return Err(RestrictionFault::Broken { token }),
                Err(_) => return Err(RestrictionFault::TooComplex),
            }
        }
        Ok(Place::Here)
    }

    fn may_end(&mut self) -> bool {
        self.matcher.is_accepting().unwrap_or(false)
    }
}

impl Restriction for Follower {
    fn restrict(&mut self, path: &[Token], logits: &mut [f32]) -> Result<(), RestrictionFault> {
        if let Place::Beyond = self.go(path)? {
            return Ok(());
        }
        let mask = self.matcher.compute_mask_or_eos().map_err(|_| RestrictionFault::TooComplex)?;
        let may_end = self.may_end();
        let ends: Vec<Option<f32>> = self.ends.iter().map(|&end| logits.get(end as usize).copied()).collect();
        forbid(&mask, self.tokens, logits);
        for (&end, logit) in self.ends.iter().zip(ends) {
            if let (Some(slot), Some(logit)) = (logits.get_mut(end as usize), logit) {
                *slot = if may_end { logit } else { f32::NEG_INFINITY };
            }
        }
        Ok(())
    }

    fn forced(&mut self, path: &[Token], most: usize) -> Vec<Token> {
        if !matches!(self.go(path), Ok(Place::Here)) {
            return Vec::new();
        }
        let mut tokens = self.matcher.compute_ff_tokens();
        if let (true, [end]) = (tokens.is_empty() && self.matcher.is_stopped() && self.may_end(), &self.ends[..]) {
            tokens.push(*end);
        }
        tokens.truncate(most);
        tokens
    }

    fn push(&mut self, generated: &[Token]) {
        match self.go(generated) {
            Ok(Place::Here) => {}
            Ok(Place::Beyond) => self.over = true,
            // Whoever committed it does not go by this constraint; what comes next says so.
            Err(fault) => self.lost = Some(fault),
        }
        self.read.clear();
    }
}

/// Makes everything impossible that is not in the mask, or beyond the tokens that there are.
fn forbid(mask: &SimpleVob, tokens: usize, logits: &mut [f32]) {
    let (within, beyond) = logits.split_at_mut(tokens.min(logits.len()));
    beyond.fill(f32::NEG_INFINITY);
    for (&word, logits) in mask.as_slice().iter().zip(within.chunks_mut(WORD)) {
        match word {
            0 => logits.fill(f32::NEG_INFINITY),
            u32::MAX => {}
            _ => {
                let forbidden = (0..).zip(logits).filter(|(bit, _)| word >> bit & 1 == 0);
                forbidden.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
            }
        }
    }
}
