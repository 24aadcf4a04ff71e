//! A client of the gateway.

use std::time::{Duration, Instant};

use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{Completion, Fault, GeneratedToken, GenerationEvent, GenerationRequest, Message, Party, Prompt};
use espalier_service_kit::channel;
use espalier_speculation::{Sampling, parse_policy};
use tonic::transport::Channel;

use crate::args::Decoding;
use crate::error::CliError;

/// A connection to a gateway.
pub(crate) struct Client(GenerationClient<Channel>);

/// An answer and how long it took.
pub(crate) struct Answer {
    pub(crate) tokens: Vec<GeneratedToken>,
    pub(crate) completion: Completion,
    /// From the request to the end of the answer.
    pub(crate) elapsed: Duration,
    /// From the first tokens to the end, and how many tokens came after the first ones.
    pub(crate) decoding: (Duration, usize),
}

impl Answer {
    /// The text.
    pub(crate) fn text(&self) -> String {
        let pieces = self.tokens.iter().map(|token| token.text.as_str());
        pieces.chain([self.completion.text.as_str()]).collect()
    }

    /// The tokens' ids.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    /// Tokens per second over the whole request, prompt included.
    pub(crate) fn tokens_per_second(&self) -> f64 {
        self.tokens.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Tokens per second of decoding alone: without the prompt, which plain and speculative decoding read alike. None
    /// for an answer that came in one piece.
    pub(crate) fn decoded_per_second(&self) -> Option<f64> {
        let (elapsed, tokens) = self.decoding;
        (tokens > 0).then(|| tokens as f64 / elapsed.as_secs_f64())
    }
}

impl Client {
    pub(crate) fn new(gateway: &str) -> Result<Self, CliError> {
        Ok(Self(GenerationClient::new(channel(gateway)?)))
    }

    /// Asks, hands tokens to `see` as they come, and returns the whole answer.
    pub(crate) async fn generate(
        &mut self,
        request: GenerationRequest,
        mut see: impl FnMut(&[GeneratedToken]),
    ) -> Result<Answer, CliError> {
        let begun = Instant::now();
        let failed = |status: tonic::Status| Fault::from_status(Party::Gateway, &status);
        let mut events = self.0.generate(tonic::Request::new(request.into())).await.map_err(failed)?.into_inner();
        let (mut tokens, mut first) = (Vec::new(), None);
        while let Some(event) = events.message().await.map_err(failed)? {
            match GenerationEvent::try_from(event)? {
                GenerationEvent::Tokens(new) => {
                    see(&new);
                    tokens.extend(new);
                    first.get_or_insert((Instant::now(), tokens.len()));
                }
                GenerationEvent::Finished(completion) => {
                    let decoding = first.map_or((Duration::ZERO, 0), |(at, seen)| (at.elapsed(), tokens.len() - seen));
                    return Ok(Answer { tokens, completion: *completion, elapsed: begun.elapsed(), decoding });
                }
            }
        }
        Err(CliError::Cut)
    }
}

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
        Form::Chat => {
            Prompt::Conversation(vec![Message { role: "user".to_owned(), content: prompt.to_owned() }])
        }
    };
    Ok(GenerationRequest {
        target: target.to_owned(),
        prompt,
        max_tokens: decoding.max_tokens as usize,
        sampling: Sampling::new(decoding.temperature, decoding.top_k as usize, decoding.top_p, decoding.seed)?,
        seeded: true,
        stop_tokens: Vec::new(),
        policy: policy.map(str::to_owned),
        drafter: None,
        speculate: !decoding.no_speculation,
    })
}
