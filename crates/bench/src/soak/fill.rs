//! Gives all blocks of keys and values their memory, which they get when they are first used.

use espalier_client::Client;
use espalier_command::{Decoding, Form, request};
use espalier_local::System;
use espalier_model::BLOCK;
use espalier_proto::{GenerationRequest, Prompt};

use crate::error::BenchError;

/// How often each block is used, more or less.
const TIMES: usize = 2;

/// The least for which a drafter reads a prompt too: one token that is drafted, and the target's own after it.
const TOKENS: u32 = 2;

/// Drafts whatever it costs.
const POLICY: &str = "constant,k=1";

/// Sends long prompts of which no two begin alike.
pub(super) async fn blocks(system: &System, client: &Client) -> Result<(), BenchError> {
    let targets = client.clone().targets().await?;
    let most = system.memory().iter().map(|(_, pool)| pool.counts().total).max().unwrap_or(0);
    for target in &targets {
        let length = target.context / 2;
        let asked = request(&target.name, "", Form::Raw, &Decoding::greedy(TOKENS))?;
        let asked = GenerationRequest { policy: Some(POLICY.to_owned()), ..asked };
        for i in 0..(TIMES * most * BLOCK).div_ceil(length.max(1)) {
            let token = |at: usize| ((i + at * (i + 1)) % target.vocabulary.size) as u32;
            let prompt = Prompt::Tokens((0..length).map(token).collect());
            client.clone().generate(GenerationRequest { prompt, ..asked.clone() }, |_| {}).await?;
        }
    }
    Ok(())
}
