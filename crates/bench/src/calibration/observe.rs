//! The target's own text, and what a drafter would have said at each of its tokens.

use std::path::PathBuf;

use espalier_command::CommandError;
use espalier_local::{DrafterChoice, SystemArgs, checkpoint, shared_target};
use espalier_model::{Checkpoint, Decoder, DraftModel, LoadOptions, Logits, Workspace};
use espalier_proto::HiddenStates;
use espalier_speculation::{Sampler, Sampling, Token};
use espalier_text::{Message, Tokenizer};

use super::args::Calibration;
use super::guesses::{Observation, Texts, by_ngrams, by_states, by_tokens, split_last};
use super::reader::Reader;
use crate::error::BenchError;

/// Who guesses the target's tokens.
enum Guesser {
    Model(Box<DraftModel>),
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
    pub(super) fn load(args: &Calibration, system: &SystemArgs) -> Result<Self, BenchError> {
        let sampling =
            Sampling::new(args.answers.temperature, 0, 1.0, args.answers.seed).map_err(CommandError::from)?;
        let choice = DrafterChoice::parse(&args.drafter.drafter, system)?;
        let folder = checkpoint(&args.target, system)?;
        let tokenizer = Tokenizer::open(&folder)?;
        if let DrafterChoice::Model { folder: drafter, .. } = &choice
            && Tokenizer::open(drafter)?.fingerprint() != tokenizer.fingerprint()
        {
            return Err(BenchError::Tokenizers { drafter: args.drafter.drafter.clone(), target: args.target.clone() });
        }
        let guesser = Guesser::load(&choice, &folder, system)?;
        Ok(Self {
            tokenizer,
            target: Decoder::load(&Checkpoint::open(folder)?, &LoadOptions::default())?,
            guesser,
            work: Workspace::new(system.threads()),
            sampling,
            max_tokens: args.answers.max_tokens as usize,
        })
    }

    /// Lets the target answer `prompt` and the drafter guess every token of the answer; the n-gram drafter has nothing to
    /// say at some.
    pub(super) fn observe(&mut self, prompt: &str) -> Result<Vec<Observation>, BenchError> {
        let prompt = self.tokenizer.encode_chat(&Message::user(prompt).into())?;
        let (text, states) = self.answer(&prompt)?;
        let (texts, sampler) =
            (Texts { prompt: &prompt, text: &text }, Sampler::new(self.sampling.clone(), &prompt, &[]));
        match (&self.guesser, states) {
            (Guesser::Ngram, _) => Ok(by_ngrams(texts)),
            (Guesser::Model(drafter), None) => by_tokens(drafter.decoder(), &mut self.work, sampler, texts),
            (Guesser::Model(drafter), Some(states)) => {
                by_states(drafter.decoder(), &mut self.work, sampler, texts, states)
            }
        }
    }

    /// What the target says after `prompt`, as far as both models have room, and the hidden states that the drafter reads
    /// of it, if it reads any.
    fn answer(&mut self, prompt: &[Token]) -> Result<(Vec<Token>, Option<HiddenStates>), BenchError> {
        let room = self.context().saturating_sub(prompt.len());
        let mut reader = Reader::tapping(&self.target, self.guesser.tapped_layer());
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
        Ok((text, reader.into_states()))
    }

    fn ended(&self, text: &[Token]) -> bool {
        text.last().is_some_and(|last| self.target.config().eos.contains(last))
    }

    fn context(&self) -> usize {
        let drafters = match &self.guesser {
            Guesser::Model(drafter) => drafter.decoder().config().context,
            Guesser::Ngram => usize::MAX,
        };
        self.target.config().context.min(drafters)
    }
}

impl Guesser {
    /// Loads who guesses the text of the model in the folder `target`.
    fn load(choice: &DrafterChoice, target: &PathBuf, system: &SystemArgs) -> Result<Self, BenchError> {
        let (folder, layers) = match choice {
            DrafterChoice::Model { folder, layers } => (folder, *layers),
            DrafterChoice::Ngram => return Ok(Self::Ngram),
            DrafterChoice::None => return Err(BenchError::NobodyGuesses),
        };
        let options = LoadOptions { layers, ..LoadOptions::default() };
        let shared = shared_target(folder, std::slice::from_ref(target), system)?;
        let model = DraftModel::open(folder, Some(shared.as_ref().unwrap_or(target)), &options)?;
        Ok(Self::Model(Box::new(model)))
    }

    /// The layer of the target whose hidden states it reads; none if it reads tokens alone.
    fn tapped_layer(&self) -> Option<usize> {
        match self {
            Self::Model(drafter) => drafter.kind().tapped_layer(),
            Self::Ngram => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use espalier_command::{Answers, DrafterArg, PromptArgs};

    use super::*;
    use crate::testing::shipped;

    fn observer(target: &str, drafter: &str, temperature: f64) -> Result<Observer, BenchError> {
        let args = Calibration {
            target: target.to_owned(),
            drafter: DrafterArg { drafter: drafter.to_owned() },
            asked: PromptArgs { prompts: PathBuf::new(), limit: std::num::NonZeroUsize::MIN },
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
    fn a_drafter_that_reads_hidden_states_is_given_the_target_s() {
        let observations = observer("medium", "medium-edd", 0.0).unwrap().observe(PROMPT).unwrap();
        let accepted = observations.iter().filter(|seen| seen.accepted).count();
        assert!(accepted * 10 > observations.len() * 7, "{accepted} of {}", observations.len());
        let fault = observer("small", "medium-edd", 0.0).err().unwrap().to_string();
        assert!(fault.contains("it was made for the target medium of fingerprint "), "{fault}");
    }

    #[test]
    fn nobody_cannot_be_calibrated() {
        assert!(matches!(observer("small", "none", 0.0), Err(BenchError::NobodyGuesses)));
    }
}
