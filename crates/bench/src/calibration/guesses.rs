//! What drafters of all kinds say at every token of a text.

use espalier_model::{Decoder, Logits, Workspace};
use espalier_proto::HiddenStates;
use espalier_speculation::{NgramLimits, Sampler, Token, propose_ngram};

use super::reader::Reader;
use crate::error::BenchError;

/// A drafter's first candidate at one position of the target's text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observation {
    /// The probability it gave to its candidate.
    pub(super) confidence: f64,
    /// The entropy of its distribution in nats; none where it has none.
    pub(super) entropy: Option<f64>,
    /// Whether the candidate is the target's token.
    pub(super) accepted: bool,
}

/// A prompt and the target's text after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts<'a> {
    pub(super) prompt: &'a [Token],
    pub(super) text: &'a [Token],
}

impl Texts<'_> {
    /// Prompt and text.
    fn whole(&self) -> Vec<Token> {
        [self.prompt, self.text].concat()
    }
}

/// The first candidates of a draft model that knows what was said by its tokens.
pub(super) fn by_tokens(
    drafter: &Decoder,
    work: &mut Workspace,
    mut sampler: Sampler,
    texts: Texts<'_>,
) -> Result<Vec<Observation>, BenchError> {
    let mut reader = Reader::new(drafter);
    let (before, last) = split_last(texts.prompt);
    reader.read(work, before, Logits::None, |_, _| Ok(()))?;
    // The logits after the prompt and after every token but the last are guesses at the text.
    let inputs = [last.as_slice(), texts.text].concat();
    let mut observations = Vec::with_capacity(texts.text.len());
    reader.read(work, &inputs[..texts.text.len()], Logits::All, |i, logits| {
        observations.extend(observe(&mut sampler, logits, texts.text[i])?);
        Ok(())
    })?;
    Ok(observations)
}

/// The first candidates of a draft model that knows what was said by the target's hidden `states`, and the last token
/// alone by itself: that is how it stands at the root of a round.
pub(super) fn by_states(
    drafter: &Decoder,
    work: &mut Workspace,
    mut sampler: Sampler,
    texts: Texts<'_>,
    mut states: HiddenStates,
) -> Result<Vec<Observation>, BenchError> {
    let mut reader = Reader::new(drafter);
    let mut observations = Vec::with_capacity(texts.text.len());
    let whole = texts.whole();
    let roots = whole.iter().copied().enumerate().skip(texts.prompt.len().saturating_sub(1));
    for ((position, root), decided) in roots.zip(texts.text) {
        let tokens = whole.get(states.first()..position).unwrap_or_default();
        reader.read_states(work, tokens, states.split_front(tokens.len()))?;
        observations.extend(reader.peek(work, root, |logits| observe(&mut sampler, logits, *decided))?);
    }
    Ok(observations)
}

/// The n-gram drafter's likeliest candidates, where it has any.
pub(super) fn by_ngrams(texts: Texts<'_>) -> Vec<Observation> {
    let limits = NgramLimits { max_nodes: 1, max_depth: 1, ..NgramLimits::default() };
    let all = texts.whole();
    let guess = |(i, decided): (usize, &Token)| {
        let tree = propose_ngram(&all[..texts.prompt.len() + i], &[], &limits);
        let node = tree.nodes().first()?;
        Some(Observation { confidence: node.prob, entropy: None, accepted: node.token == *decided })
    };
    texts.text.iter().enumerate().filter_map(guess).collect()
}

/// What these logits say where `decided` is the next token, if they say anything.
fn observe(sampler: &mut Sampler, logits: &[f32], decided: Token) -> Result<Option<Observation>, BenchError> {
    let candidates = sampler.rank(logits, &[], 1)?;
    sampler.push(&[decided]);
    let entropy = Some(candidates.entropy());
    let best = candidates.tokens().first();
    Ok(best.map(|&(token, confidence)| Observation { confidence, entropy, accepted: token == decided }))
}

/// All tokens but the last, and the last: the logits after it are the first that are wanted.
pub(super) fn split_last(tokens: &[Token]) -> (&[Token], Vec<Token>) {
    match tokens.split_last() {
        Some((last, before)) => (before, vec![*last]),
        None => (tokens, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ngrams_guess_where_the_text_repeats_itself() {
        let seen = |confidence, accepted| Observation { confidence, entropy: None, accepted };
        let texts = Texts { prompt: &[7, 8, 7], text: &[8, 9, 7] };
        assert_eq!(by_ngrams(texts), [seen(1.0, true), seen(1.0, false)]);
    }
}
