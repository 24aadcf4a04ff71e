//! Plain decoding without any service: the model, one token at a time.

use std::sync::Arc;

use espalier_model::{Arithmetic, Asked, Checkpoint, Decoder, LoadOptions, Logits, Row, Segment, Workspace};
use espalier_speculation::{Sampler, Sampling, Token};
use tokio::task::spawn_blocking;

use crate::model;

/// A target alone. It computes on a thread of its own: services that a test runs beside it go on answering.
pub struct Oracle(Arc<Decoder>);

impl Oracle {
    /// Loads a shipped model, to compute in an arithmetic.
    pub async fn load(name: &str, arithmetic: Arithmetic) -> Self {
        let directory = model(name);
        let load = move || {
            let options = LoadOptions { arithmetic, ..LoadOptions::default() };
            Decoder::load(&Checkpoint::open(directory).unwrap(), &options).unwrap()
        };
        Self(Arc::new(spawn_blocking(load).await.unwrap()))
    }

    /// What the target says after `prompt`.
    pub async fn continuation(&self, prompt: &[Token], max_tokens: usize, sampling: Sampling) -> Vec<Token> {
        let (decoder, prompt) = (Arc::clone(&self.0), prompt.to_vec());
        spawn_blocking(move || continuation(&decoder, &prompt, max_tokens, sampling)).await.unwrap()
    }
}

/// One forward pass and one decision for each token.
fn continuation(decoder: &Decoder, prompt: &[Token], max_tokens: usize, sampling: Sampling) -> Vec<Token> {
    let (mut cache, mut work) = (decoder.new_cache(), Workspace::new(1));
    let mut sampler = Sampler::new(sampling, prompt, &[]);
    let (mut text, mut next) = (Vec::new(), prompt.to_vec());
    while text.len() < max_tokens {
        let rows = Row::chain(&next, 0);
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) };
        let output = decoder.forward(&mut work, &mut [segment], Asked::default()).unwrap();
        let token = sampler.decide(output.logits(0, 0), &[]).unwrap();
        cache.keep_path(&(0..rows.len()).collect::<Vec<_>>()).unwrap();
        sampler.push(&[token]);
        text.push(token);
        if decoder.config().eos.contains(&token) {
            break;
        }
        next = vec![token];
    }
    text
}
