//! The `Generation` service: what clients ask for, and what they get.

use espalier_speculation::{Constraint, FinishReason, LOGPROBS_MAX, Sampling, StopStrings, Token};

use crate::common::{
    Vocabulary, at_least_one, check_length, check_text, read_constraint, read_logprob, read_logprobs_asked,
    read_reason, read_sampling, required, wire_count, write_constraint, write_finish, write_sampling,
};
use crate::conversation::{CallForm, Conversation};
use crate::drafter::POLICY_BYTES_MAX;
use crate::error::WireError;
use crate::pb;
use crate::pb::generate_request::Prompt as WirePrompt;
use crate::pb::generate_response::Event as Down;
use crate::round_trace::{RoundTrace, read_trace, write_trace};
use crate::sequence::{STOP_TOKENS_MAX, SequenceId};
use crate::speculation_summary::{SpeculationSummary, read_summary, write_summary};
use crate::verifier_card::MODEL_NAME_BYTES_MAX;

/// What is to be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text as it is.
    Text(String),
    /// A conversation, to be put into the target's chat template.
    Conversation(Conversation),
    /// Tokens as they are.
    Tokens(Vec<Token>),
}

/// A request for text. Whether the target can serve it, the gateway decides.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationRequest {
    /// The target's name.
    pub target: String,
    /// What is to be continued.
    pub prompt: Prompt,
    /// At most so many tokens.
    pub max_tokens: usize,
    /// How the target chooses.
    pub sampling: Sampling,
    /// Whether the client chose the seed in `sampling`; otherwise the gateway does.
    pub seeded: bool,
    /// Tokens that end the text, besides the target's own.
    pub stop_tokens: Vec<Token>,
    /// Texts that end the text, which is cut before them.
    pub stop_strings: StopStrings,
    /// Alternatives that each token comes with besides its logprob; no logprobs if absent.
    pub logprobs: Option<usize>,
    /// How trees are grown; the gateway's default if absent.
    pub policy: Option<String>,
    /// The drafter that must be used; any if absent.
    pub drafter: Option<String>,
    /// Whether drafts may be used at all.
    pub speculate: bool,
    /// The first tokens of the answer, which is to go on behind them.
    pub generated: Vec<Token>,
    /// Whether as many tokens are generated as fit the context, where `max_tokens` are more.
    pub cut_to_context: bool,
    /// Whether each chunk comes with the round that its tokens are from.
    pub rounds: bool,
    /// What the answer is held to.
    pub constraint: Option<Constraint>,
}

impl TryFrom<pb::GenerateRequest> for GenerationRequest {
    type Error = WireError;

    fn try_from(wire: pb::GenerateRequest) -> Result<Self, WireError> {
        check_length("target", wire.target.len(), MODEL_NAME_BYTES_MAX)?;
        check_length("drafter", wire.drafter.len(), MODEL_NAME_BYTES_MAX)?;
        check_length("policy", wire.policy.len(), POLICY_BYTES_MAX)?;
        check_length("stop_tokens", wire.stop_tokens.len(), STOP_TOKENS_MAX)?;
        Ok(Self {
            target: wire.target,
            prompt: required("prompt", wire.prompt)?.try_into()?,
            max_tokens: wire.max_tokens as usize,
            seeded: wire.sampling.as_ref().is_some_and(|sampling| sampling.seed.is_some()),
            sampling: read_sampling(wire.sampling)?,
            stop_tokens: wire.stop_tokens,
            stop_strings: StopStrings::new(wire.stop_strings)?,
            logprobs: read_logprobs_asked(wire.logprobs)?,
            policy: given(wire.policy),
            drafter: given(wire.drafter),
            speculate: !wire.no_speculation,
            generated: wire.generated,
            cut_to_context: wire.cut_to_context,
            rounds: wire.rounds,
            constraint: read_constraint(wire.constraint)?,
        })
    }
}

impl From<GenerationRequest> for pb::GenerateRequest {
    fn from(request: GenerationRequest) -> Self {
        let sampling = write_sampling(&request.sampling);
        Self {
            target: request.target,
            prompt: Some(request.prompt.into()),
            max_tokens: wire_count(request.max_tokens),
            sampling: Some(pb::Sampling { seed: sampling.seed.filter(|_| request.seeded), ..sampling }),
            stop_tokens: request.stop_tokens,
            stop_strings: request.stop_strings.into(),
            logprobs: request.logprobs.map(wire_count),
            policy: request.policy.unwrap_or_default(),
            drafter: request.drafter.unwrap_or_default(),
            no_speculation: !request.speculate,
            generated: request.generated,
            cut_to_context: request.cut_to_context,
            rounds: request.rounds,
            constraint: request.constraint.as_ref().map(write_constraint),
        }
    }
}

impl TryFrom<WirePrompt> for Prompt {
    type Error = WireError;

    fn try_from(wire: WirePrompt) -> Result<Self, WireError> {
        Ok(match wire {
            WirePrompt::Text(text) => Self::Text(text),
            WirePrompt::TokenIds(tokens) => Self::Tokens(tokens.ids),
            WirePrompt::Conversation(conversation) => Self::Conversation(conversation.try_into()?),
        })
    }
}

impl From<Prompt> for WirePrompt {
    fn from(prompt: Prompt) -> Self {
        match prompt {
            Prompt::Text(text) => Self::Text(text),
            Prompt::Tokens(ids) => Self::TokenIds(pb::TokenIds { ids }),
            Prompt::Conversation(conversation) => Self::Conversation(conversation.into()),
        }
    }
}

/// An empty text stands for none.
fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// A token on its way to the client.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedToken {
    /// The token.
    pub id: Token,
    /// The text that became complete with it.
    pub text: String,
    /// Whether the drafter had proposed it.
    pub drafted: bool,
    /// Natural logarithm of its probability in the target's own distribution, if asked for.
    pub logprob: Option<f64>,
    /// The most probable tokens in its place, as many as were asked for, best first.
    pub alternatives: Vec<Alternative>,
}

/// A token that might have been said in another's place.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The token.
    pub id: Token,
    /// Its text on its own.
    pub text: String,
    /// Natural logarithm of its probability in the target's own distribution.
    pub logprob: f64,
}

/// The end of a generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens of the prompt, template included.
    pub prompt_tokens: usize,
    /// Tokens generated.
    pub completion_tokens: usize,
    /// How speculation went.
    pub speculation: SpeculationSummary,
    /// Text that was held back to the end: an incomplete character, or what never became a stop string.
    pub text: String,
    /// The seed that was used.
    pub seed: u64,
    /// The stop string that ended the text, if one did.
    pub stop_string: Option<String>,
}

/// The tokens of one round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chunk {
    /// In order.
    pub tokens: Vec<GeneratedToken>,
    /// The round that they are from, if that was asked for.
    pub round: Option<Box<RoundTrace>>,
}

/// What a client is told first of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Names the request in the logs of all services.
    pub id: SequenceId,
    /// The seed that is used.
    pub seed: u64,
    /// Tokens of the prompt, template included.
    pub prompt_tokens: usize,
    /// How calls stand in the text, where there are tools.
    pub call_form: Option<CallForm>,
}

/// A message to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum GenerationEvent {
    /// The request was let in; the first message, and only the first.
    Begun(Begun),
    /// The tokens of one round.
    Tokens(Chunk),
    /// The end; nothing follows.
    Finished(Box<Completion>),
}

impl From<GenerationEvent> for pb::GenerateResponse {
    fn from(event: GenerationEvent) -> Self {
        let event = match event {
            GenerationEvent::Begun(Begun { id, seed, prompt_tokens, call_form }) => {
                let (id, prompt_tokens) = (id.to_string(), wire_count(prompt_tokens));
                Down::Begun(pb::Begun { id, seed, prompt_tokens, call_form: call_form.map(Into::into) })
            }
            GenerationEvent::Tokens(Chunk { tokens, round }) => Down::Chunk(pb::Chunk {
                tokens: tokens.into_iter().map(write_token).collect(),
                round: round.map(|round| write_trace(*round)),
            }),
            GenerationEvent::Finished(completion) => Down::Finished(write_completion(*completion)),
        };
        Self { event: Some(event) }
    }
}

impl TryFrom<pb::GenerateResponse> for GenerationEvent {
    type Error = WireError;

    fn try_from(wire: pb::GenerateResponse) -> Result<Self, WireError> {
        Ok(match required("event", wire.event)? {
            Down::Chunk(chunk) => Self::Tokens(Chunk {
                tokens: chunk.tokens.into_iter().map(read_token).collect::<Result<_, _>>()?,
                round: chunk.round.map(|round| read_trace(round).map(Box::new)).transpose()?,
            }),
            Down::Begun(pb::Begun { id, seed, prompt_tokens, call_form }) => {
                let (id, prompt_tokens) = (SequenceId::new(&id)?, prompt_tokens as usize);
                Self::Begun(Begun { id, seed, prompt_tokens, call_form: call_form.map(Into::into) })
            }
            Down::Finished(finished) => Self::Finished(Box::new(read_completion(finished)?)),
        })
    }
}

fn write_token(token: GeneratedToken) -> pb::GeneratedToken {
    let write = |Alternative { id, text, logprob }| pb::Alternative { id, text, logprob };
    pb::GeneratedToken {
        id: token.id,
        text: token.text,
        drafted: token.drafted,
        logprob: token.logprob,
        alternatives: token.alternatives.into_iter().map(write).collect(),
    }
}

fn read_token(wire: pb::GeneratedToken) -> Result<GeneratedToken, WireError> {
    check_length("alternatives", wire.alternatives.len(), LOGPROBS_MAX)?;
    let read =
        |wire: pb::Alternative| Ok(Alternative { id: wire.id, text: wire.text, logprob: read_logprob(wire.logprob)? });
    Ok(GeneratedToken {
        id: wire.id,
        text: wire.text,
        drafted: wire.drafted,
        logprob: wire.logprob.map(read_logprob).transpose()?,
        alternatives: wire.alternatives.into_iter().map(read).collect::<Result<_, WireError>>()?,
    })
}

fn write_completion(completion: Completion) -> pb::Finished {
    pb::Finished {
        reason: write_finish(Some(completion.reason)),
        usage: Some(pb::Usage {
            prompt_tokens: wire_count(completion.prompt_tokens),
            completion_tokens: wire_count(completion.completion_tokens),
        }),
        statistics: Some(write_summary(completion.speculation)),
        text: completion.text,
        seed: completion.seed,
        stop_string: completion.stop_string.unwrap_or_default(),
    }
}

fn read_completion(wire: pb::Finished) -> Result<Completion, WireError> {
    let usage = required("usage", wire.usage)?;
    Ok(Completion {
        reason: read_reason(wire.reason)?,
        prompt_tokens: usage.prompt_tokens as usize,
        completion_tokens: usage.completion_tokens as usize,
        speculation: read_summary(required("statistics", wire.statistics)?)?,
        text: wire.text,
        seed: wire.seed,
        stop_string: given(wire.stop_string),
    })
}

/// A target that answers at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetCard {
    /// Its name.
    pub name: String,
    /// Its vocabulary.
    pub vocabulary: Vocabulary,
    /// Prompt and answer together, in tokens.
    pub context: usize,
    /// The drafters that suit it.
    pub drafters: Vec<String>,
}

impl From<TargetCard> for pb::Target {
    fn from(card: TargetCard) -> Self {
        Self {
            name: card.name,
            vocabulary: Some(card.vocabulary.into()),
            context: wire_count(card.context),
            drafters: card.drafters,
        }
    }
}

impl TryFrom<pb::Target> for TargetCard {
    type Error = WireError;

    fn try_from(wire: pb::Target) -> Result<Self, WireError> {
        check_text("name", &wire.name, MODEL_NAME_BYTES_MAX)?;
        Ok(Self {
            name: wire.name,
            vocabulary: wire.vocabulary.try_into()?,
            context: at_least_one("context", wire.context)?,
            drafters: wire.drafters,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use espalier_speculation::ConstraintKind;

    use super::*;
    use crate::conversation::Message;

    fn request(prompt: Prompt) -> GenerationRequest {
        GenerationRequest {
            target: "medium".to_owned(),
            prompt,
            max_tokens: 64,
            sampling: Sampling::new(0.8, 0, 1.0, 5).unwrap(),
            seeded: true,
            stop_tokens: vec![7],
            stop_strings: StopStrings::new(vec!["\n\n".to_owned()]).unwrap(),
            logprobs: Some(3),
            policy: Some("constant,k=5".to_owned()),
            drafter: None,
            speculate: true,
            generated: vec![3, 4],
            cut_to_context: true,
            rounds: true,
            constraint: Some(Constraint::new(ConstraintKind::Regex, "[0-9]+").unwrap()),
        }
    }

    #[test]
    fn a_request_survives_the_wire() {
        let said = Conversation { messages: vec![Message::new("user", "2 + 2?")], tools: None };
        for prompt in [Prompt::Text("Once".to_owned()), Prompt::Conversation(said), Prompt::Tokens(vec![1, 2])] {
            let wire = pb::GenerateRequest::from(request(prompt.clone()));
            assert_eq!(GenerationRequest::try_from(wire), Ok(request(prompt)));
        }
    }

    #[test]
    fn a_request_without_a_seed_says_so() {
        let unseeded = GenerationRequest { seeded: false, ..request(Prompt::Tokens(vec![1])) };
        let wire = pb::GenerateRequest::from(unseeded);
        assert_eq!(wire.sampling.as_ref().unwrap().seed, None);
        assert!(!GenerationRequest::try_from(wire).unwrap().seeded);
    }

    #[test]
    fn a_request_without_a_prompt_is_refused() {
        let wire = pb::GenerateRequest { prompt: None, ..request(Prompt::Tokens(vec![])).into() };
        assert_eq!(GenerationRequest::try_from(wire), Err(WireError::Missing { field: "prompt" }));
    }

    #[test]
    fn events_survive_the_wire() {
        let alternatives = vec![Alternative { id: 9, text: " nine".to_owned(), logprob: -0.25 }];
        let token =
            GeneratedToken { id: 4, text: " four".to_owned(), drafted: true, logprob: Some(-1.5), alternatives };
        let completion = Completion {
            reason: FinishReason::Stop,
            prompt_tokens: 12,
            completion_tokens: 1,
            speculation: SpeculationSummary {
                rounds: 1,
                depth: 6,
                accepted_by_depth: vec![3, 1],
                tau: Some(2.5),
                draft: Duration::from_millis(3),
                drafter: "small".to_owned(),
                ..SpeculationSummary::default()
            },
            text: String::new(),
            seed: 9,
            stop_string: Some("\n\n".to_owned()),
        };
        let call_form = CallForm {
            open: "<call>".to_owned(),
            middle: ": ".to_owned(),
            between: Some(", ".to_owned()),
            close: "</call>".to_owned(),
        };
        let begun = Begun { id: SequenceId::from(7), seed: 9, prompt_tokens: 12, call_form: Some(call_form) };
        let (tokens, finished) = (
            GenerationEvent::Tokens(Chunk { tokens: vec![token], round: Some(Box::default()) }),
            GenerationEvent::Finished(Box::new(completion)),
        );
        for event in [GenerationEvent::Begun(begun), tokens, finished] {
            assert_eq!(GenerationEvent::try_from(pb::GenerateResponse::from(event.clone())), Ok(event));
        }
    }

    #[test]
    fn a_target_survives_the_wire() {
        let card = TargetCard {
            name: "medium".to_owned(),
            vocabulary: Vocabulary { size: 4096, fingerprint: "abc".to_owned() },
            context: 2048,
            drafters: vec!["small".to_owned()],
        };
        assert_eq!(TargetCard::try_from(pb::Target::from(card.clone())), Ok(card));
    }
}
