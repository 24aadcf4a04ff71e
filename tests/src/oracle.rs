//! Plain decoding without any service: the model, one token at a time.

use espalier_model::{Arithmetic, Asked, Checkpoint, Decoder, LoadOptions, Logits, Row, Segment, Workspace};
use espalier_speculation::{Sampler, Sampling, Token};

use crate::model;

/// A target alone.
pub struct Oracle {
    decoder: Decoder,
    work: Workspace,
}

impl Oracle {
    /// Loads a shipped model, to compute in an arithmetic.
    pub fn load(name: &str, arithmetic: Arithmetic) -> Self {
        let checkpoint = Checkpoint::open(model(name)).unwrap();
        let options = LoadOptions { arithmetic, ..LoadOptions::default() };
        Self { decoder: Decoder::load(&checkpoint, &options).unwrap(), work: Workspace::new(1) }
    }

    /// What the target says after `prompt`: one forward pass and one decision for each token.
    pub fn continuation(&mut self, prompt: &[Token], max_tokens: usize, sampling: Sampling) -> Vec<Token> {
        let mut cache = self.decoder.new_cache();
        let mut sampler = Sampler::new(sampling, prompt, &[]);
        let (mut text, mut next) = (Vec::new(), prompt.to_vec());
        while text.len() < max_tokens {
            let rows = Row::chain(&next, 0);
            let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) };
            let output = self.decoder.forward(&mut self.work, &mut [segment], Asked::default()).unwrap();
            let token = sampler.decide(output.logits(0, 0), &[]).unwrap();
            cache.keep_path(&(0..rows.len()).collect::<Vec<_>>()).unwrap();
            sampler.push(&[token]);
            text.push(token);
            if self.decoder.config().eos.contains(&token) {
                break;
            }
            next = vec![token];
        }
        text
    }
}
