//! A constraint at work on one text.

use std::sync::Arc;

use espalier_speculation::{Restriction, RestrictionFault, Token};
use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use crate::vocabulary::Vocabulary;

/// Tokens of a word of a mask.
const WORD: usize = 32;

/// What may follow a text: see [`Restriction`].
///
/// Behind the committed text the parser is taken back and forth, so it is in one place only. A walk down a tree, or a tree
/// that grows, asks about places that are not far from each other.
pub struct Follower {
    matcher: Matcher,
    vocabulary: Arc<Vocabulary>,
    /// Tokens that end the text.
    ends: Vec<Token>,
    /// What the parser has read behind the committed text.
    read: Vec<Token>,
    /// What may follow where the parser is, once that was asked.
    here: Option<Allowed>,
    /// Whether the committed text has ended.
    over: bool,
    /// Why the committed text could not be read, where it could not.
    lost: Option<RestrictionFault>,
}

/// Where a path leads.
enum Place {
    /// To where the parser is now.
    Here,
    /// Behind a token that ends the text.
    Beyond,
}

/// What the parser lets follow.
struct Next {
    mask: SimpleVob,
    may_end: bool,
    /// The next byte, where it is forced.
    byte: Option<u8>,
}

/// What may follow at some place.
enum Allowed {
    /// One token. Where bytes are forced it is the longest that is made of these alone: what there is no choice about is
    /// said in few tokens, and nobody needs a model to know them.
    One(Token),
    /// Those of a mask, and what ends the text if it may end.
    Some { mask: SimpleVob, may_end: bool },
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("read", &self.read).field("over", &self.over).finish_non_exhaustive()
    }
}

impl Follower {
    /// Follows a text that has not begun.
    pub(crate) fn new(matcher: Matcher, vocabulary: Arc<Vocabulary>, ends: &[Token]) -> Self {
        Self { matcher, vocabulary, ends: ends.to_vec(), read: Vec::new(), here: None, over: false, lost: None }
    }

    /// The place of the first token of `generated` that is not allowed, if there is one.
    pub(crate) fn breaks_at(&mut self, generated: &[Token]) -> Option<usize> {
        match self.go(generated) {
            Ok(Place::Here) => None,
            // What ends the text must come where it may.
            Ok(Place::Beyond) => (!self.matcher.is_accepting().unwrap_or(false)).then_some(self.read.len()),
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
        if common < self.read.len() {
            self.here = None;
            self.matcher.rollback(self.read.len() - common).map_err(|_| RestrictionFault::TooComplex)?;
            self.read.truncate(common);
        }
        for &token in &path[common..] {
            if self.ends.contains(&token) {
                return Ok(Place::Beyond);
            }
            self.here = None;
            match self.matcher.try_consume_tokens(&[token]) {
                Ok(1) => self.read.push(token),
                Ok(_) => return Err(RestrictionFault::Broken { token }),
                Err(_) => return Err(RestrictionFault::TooComplex),
            }
        }
        Ok(Place::Here)
    }

    /// What may follow where the parser is.
    fn here(&mut self) -> Result<&Allowed, RestrictionFault> {
        let allowed = match self.here.take() {
            Some(known) => known,
            None => self.find()?,
        };
        Ok(self.here.insert(allowed))
    }

    fn find(&mut self) -> Result<Allowed, RestrictionFault> {
        let Next { mask, may_end, byte } = self.next()?;
        let one = match (may_end, &self.ends[..]) {
            (true, [end]) if self.others(&mask).next().is_none() => Some(*end),
            (true, _) => None,
            (false, _) => {
                let forced = byte.map(|byte| self.forced_bytes(byte)).transpose()?;
                forced.and_then(|bytes| self.vocabulary.longest(self.others(&mask), &bytes))
            }
        };
        match one {
            Some(token) => Ok(Allowed::One(token)),
            None if !may_end && self.others(&mask).next().is_none() => Err(RestrictionFault::Nothing),
            None => Ok(Allowed::Some { mask, may_end }),
        }
    }

    /// What the parser lets follow.
    fn next(&mut self) -> Result<Next, RestrictionFault> {
        let mask = self.matcher.compute_mask_or_eos().map_err(|_| RestrictionFault::TooComplex)?;
        let may_end = self.vocabulary.may_end(&mask);
        let byte = if may_end { None } else { self.vocabulary.first_byte(self.others(&mask)) };
        Ok(Next { mask, may_end, byte })
    }

    /// The tokens of a mask that do not end the text.
    fn others<'a>(&'a self, mask: &'a SimpleVob) -> impl Iterator<Item = Token> + 'a {
        let tokens = self.vocabulary.tokens();
        mask.iter().filter(move |token| (*token as usize) < tokens && !self.ends.contains(token))
    }

    /// The bytes that must follow, of which `first` is the first: no more of them than some token has.
    fn forced_bytes(&mut self, first: u8) -> Result<Vec<u8>, RestrictionFault> {
        let (mut bytes, mut read) = (vec![first], 0);
        while self.vocabulary.is_begun(&bytes) {
            let token = self.vocabulary.of_byte(bytes[read]);
            self.matcher.consume_token(token).map_err(|_| RestrictionFault::TooComplex)?;
            read += 1;
            match self.next()?.byte {
                Some(byte) => bytes.push(byte),
                None => break,
            }
        }
        self.matcher.rollback(read).map_err(|_| RestrictionFault::TooComplex)?;
        Ok(bytes)
    }
}

impl Restriction for Follower {
    fn restrict(&mut self, path: &[Token], logits: &mut [f32]) -> Result<(), RestrictionFault> {
        if let Place::Beyond = self.go(path)? {
            return Ok(());
        }
        let kept: Vec<Option<f32>> = self.ends.iter().map(|&end| logits.get(end as usize).copied()).collect();
        let tokens = self.vocabulary.tokens();
        let may_end = match self.here()? {
            Allowed::One(token) => {
                forbid_all_but(*token as usize, logits);
                return Ok(());
            }
            Allowed::Some { mask, may_end } => {
                forbid(mask, tokens, logits);
                *may_end
            }
        };
        for (&end, kept) in self.ends.iter().zip(kept) {
            if let (Some(slot), Some(kept)) = (logits.get_mut(end as usize), kept) {
                *slot = if may_end { kept } else { f32::NEG_INFINITY };
            }
        }
        Ok(())
    }

    fn allows(&mut self, path: &[Token], token: Token) -> bool {
        let place = self.go(path);
        let ends = self.ends.contains(&token);
        let within = (token as usize) < self.vocabulary.tokens();
        match place {
            Ok(Place::Beyond) => true,
            Ok(Place::Here) => self.here().is_ok_and(|allowed| match allowed {
                Allowed::One(one) => *one == token,
                Allowed::Some { may_end, .. } if ends => *may_end,
                Allowed::Some { mask, .. } => within && mask.is_allowed(token),
            }),
            Err(_) => false,
        }
    }

    fn forced(&mut self, path: &[Token], most: usize) -> Vec<Token> {
        let mut text = path.to_vec();
        while text.len() < path.len().saturating_add(most) {
            let Ok(Place::Here) = self.go(&text) else { break };
            let Ok(Allowed::One(token)) = self.here() else { break };
            text.push(*token);
        }
        text.split_off(path.len())
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

/// Makes everything impossible but one token.
fn forbid_all_but(token: usize, logits: &mut [f32]) {
    let kept = logits.get(token).copied();
    logits.fill(f32::NEG_INFINITY);
    if let (Some(slot), Some(kept)) = (logits.get_mut(token), kept) {
        *slot = kept;
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
