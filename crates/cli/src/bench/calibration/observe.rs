//! The target's own text, and what a drafter would have said at each of its tokens.

use std::path::PathBuf;

use espalier_model::{Checkpoint, Decoder, Depth, DraftModel, KvCache, LoadOptions, Logits, Row, Segment, Workspace};
use espalier_speculation::{NgramLimits, Sampler, Sampling, Token, propose_ngram};
use espalier_text::{Message, Tokenizer};

use crate::args::{Calibration, SystemArgs};
use crate::error::CliError;
use crate::models::{DrafterChoice, checkpoint, shared_target};
use crate::system;

/// Rows of one forward pass while a text is read.
const ROWS: usize = 128;

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

/// Who guesses the target's tokens.
enum Guesser {
    Model(Box<Decoder>),
    Ngram,
}

/// A target and a drafter in this process.
pub(super) struct Observer {
    tokenizer: Tokenizer,
    target: Decoder,
    guesser: Guesser,
    work: Workspace,
    sampling: Sampling,
    max_tokens: usize,
}

impl Observer {
    /// Loads what the command line names.
    ///
    /// # Errors
    /// A model that cannot be loaded, and one whose tokenizer is not the target's.
    pub(super) fn load(args: &Calibration, system: &SystemArgs) -> Result<Self, CliError> {
        let sampling = Sampling::new(args.answers.temperature, 0, 1.0, args.answers.seed)?;
        let choice = DrafterChoice::parse(&args.drafter, system)?;
        let folder = checkpoint(&args.target, system)?;
        let tokenizer = Tokenizer::open(&folder)?;
        let guesser = Guesser::load(&choice, (&folder, &tokenizer), args, system)?;
        Ok(Self {
            tokenizer,
            target: Decoder::load(&Checkpoint::open(folder)?, &LoadOptions::default())?,
            guesser,
            work: Workspace::new(system::threads(system)),
            sampling,
            max_tokens: args.answers.max_tokens as usize,
        })
    }

    /// Lets the target answer `prompt` and the drafter guess every token of the answer; the n-gram drafter has nothing to
    /// say at some.
    pub(super) fn observe(&mut self, prompt: &str) -> Result<Vec<Observation>, CliError> {
        let prompt = self.tokenizer.encode_chat(&[Message::user(prompt)])?;
        let text = self.answer(&prompt)?;
        let sampler = Sampler::new(self.sampling.clone(), &prompt, &[]);
        match &self.guesser {
            Guesser::Model(drafter) => model_guesses(drafter, &mut self.work, sampler, (&prompt, &text)),
            Guesser::Ngram => Ok(ngram_guesses(&prompt, &text)),
        }
    }

    /// What the target says after `prompt`, as far as both models have room.
    fn answer(&mut self, prompt: &[Token]) -> Result<Vec<Token>, CliError> {
        let room = self.context().saturating_sub(prompt.len());
        let mut reader = Reader::new(&self.target);
        let mut sampler = Sampler::new(self.sampling.clone(), prompt, &[]);
        let mut text = Vec::new();
        let (before, mut next) = split_last(prompt);
        reader.read(&mut self.work, before, Logits::None, |_, _| Ok(()))?;
        while text.len() < self.max_tokens.min(room) && !self.ended(&text) {
            reader.read(&mut self.work, &next, Logits::All, |_, logits| {
                text.push(sampler.decide(logits, &[])?);
                Ok(())
            })?;
            next = text.last().copied().into_iter().collect();
            sampler.push(&next);
        }
        Ok(text)
    }

    fn ended(&self, text: &[Token]) -> bool {
        text.last().is_some_and(|last| self.target.config().eos.contains(last))
    }

    fn context(&self) -> usize {
        let drafters = match &self.guesser {
            Guesser::Model(drafter) => drafter.config().context,
            Guesser::Ngram => usize::MAX,
        };
        self.target.config().context.min(drafters)
    }
}

impl Guesser {
    fn load(
        choice: &DrafterChoice,
        (target, tokenizer): (&PathBuf, &Tokenizer),
        args: &Calibration,
        system: &SystemArgs,
    ) -> Result<Self, CliError> {
        let (folder, layers) = match choice {
            DrafterChoice::Model { folder, layers } => (folder, *layers),
            DrafterChoice::Ngram => return Ok(Self::Ngram),
            DrafterChoice::None => return Err(CliError::NobodyGuesses),
        };
        let drafter = args.drafter.clone();
        if Tokenizer::open(folder)?.fingerprint() != tokenizer.fingerprint() {
            return Err(CliError::Tokenizers { drafter, target: args.target.clone() });
        }
        let options = LoadOptions { layers, ..LoadOptions::default() };
        let shared = shared_target(folder, std::slice::from_ref(target), system)?;
        let model = DraftModel::open(folder, shared.as_deref(), &options)?;
        match model.kind().tapped_layer() {
            Some(_) => Err(CliError::ReadsStates { drafter }),
            None => Ok(Self::Model(Box::new(model.into_decoder()))),
        }
    }
}

/// All tokens but the last, and the last: the logits after it are the first that are wanted.
fn split_last(tokens: &[Token]) -> (&[Token], Vec<Token>) {
    match tokens.split_last() {
        Some((last, before)) => (before, vec![*last]),
        None => (tokens, Vec::new()),
    }
}

/// A draft model's first candidates along a text.
fn model_guesses(
    drafter: &Decoder,
    work: &mut Workspace,
    mut sampler: Sampler,
    (prompt, text): (&[Token], &[Token]),
) -> Result<Vec<Observation>, CliError> {
    let mut reader = Reader::new(drafter);
    let (before, last) = split_last(prompt);
    reader.read(work, before, Logits::None, |_, _| Ok(()))?;
    // The logits after the prompt and after every token but the last are guesses at the text.
    let inputs = [last.as_slice(), text].concat();
    let mut observations = Vec::with_capacity(text.len());
    reader.read(work, &inputs[..text.len()], Logits::All, |i, logits| {
        let candidates = sampler.rank(logits, &[], 1)?;
        let decided = &text[i..=i];
        sampler.push(decided);
        observations.extend(candidates.tokens().iter().map(|&(token, confidence)| Observation {
            confidence,
            entropy: Some(candidates.entropy()),
            accepted: decided == [token],
        }));
        Ok(())
    })?;
    Ok(observations)
}

/// The n-gram drafter's likeliest candidates along a text, where it has any.
fn ngram_guesses(prompt: &[Token], text: &[Token]) -> Vec<Observation> {
    let limits = NgramLimits { max_nodes: 1, max_depth: 1, ..NgramLimits::default() };
    let all = [prompt, text].concat();
    let guess = |(i, decided): (usize, &Token)| {
        let tree = propose_ngram(&all[..prompt.len() + i], &[], &limits);
        let node = tree.nodes().first()?;
        Some(Observation { confidence: node.prob, entropy: None, accepted: node.token == *decided })
    };
    text.iter().enumerate().filter_map(guess).collect()
}

/// One sequence in a model.
struct Reader<'a> {
    decoder: &'a Decoder,
    cache: KvCache,
}

impl<'a> Reader<'a> {
    fn new(decoder: &'a Decoder) -> Self {
        Self { decoder, cache: decoder.new_cache() }
    }

    /// Runs `tokens` after all that was read before; `see` gets the place of a token among them and the logits after it,
    /// if `logits` wants them of all.
    fn read(
        &mut self,
        work: &mut Workspace,
        tokens: &[Token],
        logits: Logits,
        mut see: impl FnMut(usize, &[f32]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        for (chunk, first) in tokens.chunks(ROWS).zip((0..).step_by(ROWS)) {
            let rows = Row::chain(chunk, 0);
            let segment = Segment { cache: &mut self.cache, rows: &rows, logits };
            let output = self.decoder.forward(work, &mut [segment], Depth::default())?;
            if logits == Logits::All {
                (0..chunk.len()).try_for_each(|row| see(first + row, output.logits(0, row)))?;
            }
            self.cache.keep_path(&(0..chunk.len()).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::args::Answers;
    use crate::models::tests::shipped;

    fn observer(target: &str, drafter: &str, temperature: f64) -> Result<Observer, CliError> {
        let args = Calibration {
            target: target.to_owned(),
            drafter: drafter.to_owned(),
            prompts: PathBuf::new(),
            limit: std::num::NonZeroUsize::MIN,
            answers: Answers { max_tokens: 40, temperature, seed: 3 },
            json: false,
            plot: None,
        };
        Observer::load(&args, &shipped())
    }

    const PROMPT: &str = "A pen costs 2 dollars. How much do 3 pens and 4 pens cost together?";

    #[test]
    fn a_drafter_that_is_the_target_guesses_every_token() {
        for temperature in [0.0, 1.0] {
            let observations = observer("small", "small", temperature).unwrap().observe(PROMPT).unwrap();
            assert!(!observations.is_empty() && observations.iter().all(|seen| seen.accepted));
        }
    }

    #[test]
    fn confidence_and_entropy_are_those_of_a_distribution() {
        let observations = observer("small", "small:3", 0.0).unwrap().observe(PROMPT).unwrap();
        assert!(observations.iter().any(|seen| seen.accepted) && observations.iter().any(|seen| !seen.accepted));
        for Observation { confidence, entropy, .. } in observations {
            assert!(confidence > 0.0 && confidence <= 1.0);
            // No distribution with this arg-max has less entropy than this.
            assert!(entropy.unwrap() >= -confidence.ln() * (1.0 - 1e-5));
        }
    }

    #[test]
    fn ngrams_guess_where_the_text_repeats_itself() {
        let seen = |confidence, accepted| Observation { confidence, entropy: None, accepted };
        assert_eq!(ngram_guesses(&[7, 8, 7], &[8, 9, 7]), [seen(1.0, true), seen(1.0, false)]);
    }

    #[test]
    fn nobody_cannot_be_calibrated() {
        assert!(matches!(observer("small", "none", 0.0), Err(CliError::NobodyGuesses)));
    }
}
