//! From a request to one that can be served: every rule, and only here.

use std::sync::Arc;

use espalier_constraint::{ConstraintError, Follower};
use espalier_proto::{CallForm, DrafterCard, GenerationRequest, Prompt, SequenceId, SequenceSpec};
use espalier_speculation::{Acceptance, ExitThresholds, PolicySpec, Sampling, Shaping, Token, parse_policy};
use espalier_text::Tokenizer;

use crate::calling::{self, Calling};
use crate::directory::Directory;
use crate::error::RequestError;
use crate::peers::TargetInfo;
use crate::renderer::Renderer;
use crate::session::Session;
use crate::stream::TextStream;
use crate::usual::Usual;
use crate::wanted::{NOBODY, Wanted};

/// A request that its target can serve.
#[derive(Debug, Clone)]
pub(crate) struct ValidRequest {
    pub(crate) target: Arc<TargetInfo>,
    pub(crate) sequence: SequenceSpec,
    /// What its tokens become.
    pub(crate) text: TextStream,
    /// How calls stand in that text, where there are tools.
    pub(crate) call_form: Option<CallForm>,
    /// Who is to propose.
    pub(crate) wanted: Wanted,
    /// What requests have in common that should meet in one place.
    pub(crate) key: u64,
    /// The policy that it names; the usual one if absent.
    policy: Option<PolicySpec>,
    /// Whether the client is told of rounds.
    pub(crate) rounds: bool,
    usual: Arc<Usual>,
}

impl ValidRequest {
    /// Checks a request against what is there; what is `usual` holds where it says
    /// nothing. `id` names its sequence in all services. Tokenizes the prompt, which may take a while.
    pub(crate) fn new(
        request: GenerationRequest,
        id: SequenceId,
        session: Option<Session>,
        directory: &Directory,
        usual: &Arc<Usual>,
    ) -> Result<Self, RequestError> {
        let target = find_target(&request.target, directory)?;
        let policy = read_policy(request.policy.as_deref(), request.sampling.acceptance())?;
        policy.as_ref().map_or(Ok(()), |policy| usual.caps.check(policy))?;
        check_tokens("generated", &request.generated, &target)?;
        let generated = Generated::of(&request, &target)?;
        check_tokens("stop_tokens", &request.stop_tokens, &target)?;
        check_tokens("logit_bias", &biased_tokens(&request.sampling), &target)?;
        check_length(&request.prompt, &target)?;
        let calling = Calling::of(&request, &target, &usual.renderer)?;
        let (call_form, held) = calling.map(|calling| (calling.form, calling.constraint)).unzip();
        let request = GenerationRequest { constraint: request.constraint.or(held), ..request };
        check_constraint(&request, &target)?;
        let prompt = tokenize(request.prompt, &target.tokenizer, &usual.renderer)?;
        check_tokens("the prompt", &prompt, &target)?;
        let max_tokens = match request.cut_to_context {
            // Of one token the room is checked below.
            true => request.max_tokens.min(target.card.context.saturating_sub(prompt.len()).max(1)),
            false => request.max_tokens,
        };
        check_room(prompt.len(), max_tokens, &target)?;
        let asked = if request.speculate { request.drafter.as_deref() } else { Some(NOBODY) };
        let key = Session::key(session, &prompt);
        let mut sequence = SequenceSpec {
            id,
            committed: prompt,
            generated: 0,
            sampling: request.sampling,
            max_tokens,
            stop_tokens: request.stop_tokens,
            logprobs: request.logprobs,
            // None but that of the key that was shown, of which a request does not tell.
            tenant: 0,
            constraint: request.constraint,
        };
        sequence.commit(&generated.tokens);
        let valid = Self {
            wanted: Wanted::new(asked),
            key,
            sequence,
            text: generated.text,
            call_form,
            policy,
            rounds: request.rounds,
            usual: Arc::clone(usual),
            target,
        };
        valid.check_wanted(directory)?;
        Ok(valid)
    }

    /// A drafter that is asked for by name must be known and suit.
    fn check_wanted(&self, directory: &Directory) -> Result<(), RequestError> {
        let Wanted::Named(name) = &self.wanted else {
            return Ok(());
        };
        let known = directory.drafters();
        let mut named = known.iter().filter(|card| card.name == *name).map(|card| self.check_drafter(card));
        match named.next() {
            None => Err(RequestError::UnknownDrafter { found: name.clone(), known: directory.known_drafters() }),
            Some(Err(_)) if named.any(|checked| checked.is_ok()) => Ok(()),
            Some(checked) => checked,
        }
    }

    /// Whether a drafter can follow this target through prompt and answer.
    pub(crate) fn check_drafter(&self, card: &DrafterCard) -> Result<(), RequestError> {
        let (drafter, target) = (card.name.clone(), &self.target.card);
        if card.vocabulary.fingerprint != target.vocabulary.fingerprint {
            return Err(RequestError::Tokenizers { drafter, target: target.name.clone() });
        }
        if let Some(only) = card.only_target.as_ref().filter(|only| only.fingerprint != target.model.fingerprint) {
            let (made_for, expected) = (only.name.clone(), only.fingerprint.clone());
            let (target, found) = (target.name.clone(), target.model.fingerprint.clone());
            return Err(RequestError::OtherTarget { drafter, made_for, expected, target, found });
        }
        let needed = self.sequence.committed.len() + self.sequence.max_tokens;
        if needed > card.context {
            return Err(RequestError::DrafterContext { drafter, needed, context: card.context });
        }
        Ok(())
    }

    /// How to follow the answer from here on where it is held to something and `ends` end it; this may take a while.
    pub(crate) fn following(
        &self,
        ends: Vec<Token>,
    ) -> Option<impl FnOnce() -> Result<Follower, ConstraintError> + Send + use<>> {
        let constraint = self.sequence.constraint.clone()?;
        let (constraints, generated) = (self.target.constraints.clone(), self.sequence.generated_tokens().to_vec());
        Some(move || constraints.compile(&constraint)?.follow(&generated, &ends))
    }

    /// How trees are grown with a drafter.
    pub(crate) fn policy(&self, drafter: &str) -> PolicySpec {
        let usual = || self.usual.policy(&self.target.card.name, drafter, self.sequence.sampling.acceptance());
        self.policy.clone().unwrap_or_else(usual)
    }

    /// When rows leave a drafter; its own thresholds if absent, as they are where those of the profile are for another
    /// number of exits.
    pub(crate) fn exit_thresholds(&self, drafter: &DrafterCard) -> Option<ExitThresholds> {
        let (target, drafter, exits) = (&*self.target.card.name, &*drafter.name, drafter.exits);
        let thresholds = self.usual.profiles.thresholds(target, drafter)?;
        if thresholds.exits() != exits {
            let profile = thresholds.exits();
            tracing::warn!(target, drafter, exits, profile, "a profile is for another number of exits: not used");
            return None;
        }
        Some(thresholds.clone())
    }
}

/// The first tokens of an answer, known from a stream that broke.
struct Generated {
    tokens: Vec<Token>,
    /// The text behind them.
    text: TextStream,
}

impl Generated {
    /// Those of a request, which its answer may begin with.
    fn of(request: &GenerationRequest, target: &TargetInfo) -> Result<Self, RequestError> {
        let (tokens, max_tokens) = (request.generated.clone(), request.max_tokens);
        if tokens.len() > max_tokens {
            return Err(RequestError::ManyGenerated { generated: tokens.len(), max_tokens });
        }
        if !(tokens.is_empty() || request.seeded || request.sampling.is_greedy()) {
            return Err(RequestError::NoSeed);
        }
        let mut text = TextStream::new(&target.tokenizer, request.stop_strings.clone());
        let ends = |token: &Token| target.card.end_tokens.contains(token) || request.stop_tokens.contains(token);
        let stop = tokens.iter().position(ends).map_or(tokens.len(), |index| index + 1);
        let end = text.skip(&tokens)?.min(stop);
        if end < tokens.len() {
            return Err(RequestError::PastEnd { generated: tokens.len(), end });
        }
        Ok(Self { tokens, text })
    }
}

/// Refuses a constraint that is none, or that the beginning of the answer breaks. Drafter and verifier compile it again.
fn check_constraint(request: &GenerationRequest, target: &TargetInfo) -> Result<(), RequestError> {
    let Some(constraint) = &request.constraint else { return Ok(()) };
    let ends = [&target.card.end_tokens[..], &request.stop_tokens].concat();
    target.constraints.compile(constraint)?.follow(&request.generated, &ends)?;
    Ok(())
}

/// The policy that a request names; one that goes with its acceptance.
fn read_policy(named: Option<&str>, acceptance: Acceptance) -> Result<Option<PolicySpec>, RequestError> {
    let policy = named.map(parse_policy).transpose()?;
    match acceptance {
        Acceptance::Coupled => Ok(policy),
        Acceptance::Rejection => Ok(policy.map(PolicySpec::suiting_drawn).transpose()?),
    }
}

pub(crate) fn find_target(name: &str, directory: &Directory) -> Result<Arc<TargetInfo>, RequestError> {
    directory
        .target(name)
        .ok_or_else(|| RequestError::UnknownTarget { found: name.to_owned(), known: directory.known_targets() })
}

/// Refuses a prompt that cannot fit, before the time is spent that tokenizing it takes.
fn check_length(prompt: &Prompt, target: &TargetInfo) -> Result<(), RequestError> {
    let bytes = match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Conversation(conversation) => calling::bytes_of(conversation),
        // Each is a token.
        Prompt::Tokens(tokens) => return check_room(tokens.len(), 1, target),
    };
    let (longest, limit) = (target.tokenizer.longest_token(), target.text_bytes_max());
    let (context, target) = (target.card.context, target.card.name.clone());
    if bytes > limit {
        return Err(RequestError::LongText { bytes, target, context, longest, limit });
    }
    Ok(())
}

/// The tokens of a prompt that a target could take, and the target. This may take a while.
pub(crate) fn tokens_of(
    target: &str,
    prompt: Prompt,
    directory: &Directory,
    renderer: &Renderer,
) -> Result<(Arc<TargetInfo>, Vec<Token>), RequestError> {
    let target = find_target(target, directory)?;
    check_length(&prompt, &target)?;
    let tokens = tokenize(prompt, &target.tokenizer, renderer)?;
    check_tokens("the prompt", &tokens, &target)?;
    Ok((target, tokens))
}

fn tokenize(prompt: Prompt, tokenizer: &Tokenizer, renderer: &Renderer) -> Result<Vec<Token>, RequestError> {
    let tokens = match prompt {
        Prompt::Tokens(tokens) => tokens,
        Prompt::Text(text) if text.is_empty() => vec![],
        Prompt::Text(text) => tokenizer.encode(&text, true)?,
        Prompt::Conversation(said) if calling::bytes_of(&said) == 0 => vec![],
        Prompt::Conversation(said) => tokenizer.encode(&renderer.render(tokenizer, &calling::told(said))?, false)?,
    };
    if tokens.is_empty() {
        return Err(RequestError::EmptyPrompt);
    }
    Ok(tokens)
}

fn biased_tokens(sampling: &Sampling) -> Vec<Token> {
    let bias = sampling.shaping().map(Shaping::bias).unwrap_or_default();
    bias.iter().map(|&(token, _)| token).collect()
}

fn check_tokens(field: &'static str, tokens: &[Token], target: &TargetInfo) -> Result<(), RequestError> {
    let size = target.card.vocabulary.size;
    let Some(&token) = tokens.iter().find(|&&token| token as usize >= size) else {
        return Ok(());
    };
    let (target, last) = (target.card.name.clone(), size.saturating_sub(1));
    Err(RequestError::UnknownToken { field, token, target, last })
}

fn check_room(prompt: usize, max_tokens: usize, target: &TargetInfo) -> Result<(), RequestError> {
    let (context, target) = (target.card.context, target.card.name.clone());
    if max_tokens == 0 {
        return Err(RequestError::NoTokens);
    }
    if prompt >= context {
        return Err(RequestError::LongPrompt { tokens: prompt, target, context });
    }
    let room = context - prompt;
    if max_tokens > room {
        return Err(RequestError::ManyTokens { max_tokens, prompt, target, room });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn by_rejection_a_policy_that_suits_is_demanded() {
        let read = |named, acceptance| read_policy(Some(named), acceptance).map(|policy| policy.unwrap().to_string());
        let (coupled, rejection) = (Acceptance::Coupled, Acceptance::Rejection);
        assert_eq!(read("pct", coupled).unwrap(), "pct");
        assert_eq!(read("cape", rejection).unwrap(), "cape");
        assert!(matches!(read("pct", rejection), Err(RequestError::Pruning(_))));
        assert!(matches!(read("guess", coupled), Err(RequestError::Policy(_))));
        assert!(read_policy(None, rejection).unwrap().is_none());
    }
}
