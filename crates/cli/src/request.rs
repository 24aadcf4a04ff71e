//! What a command line asks of a gateway.

use espalier_proto::{GenerationRequest, Message, Prompt};
use espalier_speculation::{Penalties, Sampling, SamplingError, Shaping, StopStrings, parse_policy};

use crate::args::Decoding;
use crate::error::CliError;

/// How a prompt is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As one turn of a conversation, in the target's chat template.
    Chat,
    /// As it is.
    Raw,
}

/// The request that the command line describes, checked as far as it can be here.
pub(crate) fn request(
    target: &str,
    prompt: &str,
    form: Form,
    decoding: &Decoding,
) -> Result<GenerationRequest, CliError> {
    let policy = decoding.policy.as_deref();
    policy.map(parse_policy).transpose()?;
    let prompt = match form {
        Form::Raw => Prompt::Text(prompt.to_owned()),
        Form::Chat => Prompt::Conversation(vec![Message { role: "user".to_owned(), content: prompt.to_owned() }]),
    };
    Ok(GenerationRequest {
        target: target.to_owned(),
        prompt,
        max_tokens: decoding.max_tokens as usize,
        sampling: sampling(decoding)?,
        seeded: true,
        stop_tokens: Vec::new(),
        stop_strings: StopStrings::default(),
        logprobs: None,
        policy: policy.map(str::to_owned),
        drafter: None,
        speculate: !decoding.no_speculation,
    })
}

fn sampling(decoding: &Decoding) -> Result<Sampling, SamplingError> {
    let shaping = &decoding.shaping;
    let penalties = Penalties {
        repetition: shaping.repetition_penalty,
        presence: shaping.presence_penalty,
        frequency: shaping.frequency_penalty,
    };
    let sampling = Sampling::new(decoding.temperature, decoding.top_k as usize, decoding.top_p, decoding.seed)?;
    let shaping = Shaping::new(penalties, shaping.logit_bias.iter().copied())?;
    Ok(sampling.with_min_p(decoding.min_p)?.with_shaping(shaping))
}
