//! From a request to one that can be served: every rule, and only here.

use std::sync::Arc;

use espalier_proto::{DrafterCard, GenerationRequest, Message, Prompt};
use espalier_speculation::{
    Acceptance, ExitThresholds, PolicySpec, Sampling, Shaping, StopStrings, Token, parse_policy,
};
use espalier_text::{Message as ChatMessage, Tokenizer};

use crate::config::{Config, Usual};
use crate::directory::{Directory, Drafter};
use crate::error::RequestError;
use crate::peers::TargetInfo;

/// Asks for n-gram proposals instead of a draft model's.
const NGRAM: &str = "ngram";

/// Asks for plain decoding.
const NOBODY: &str = "none";

/// Who is to propose.
#[derive(Debug, Clone)]
pub(crate) enum Drafting {
    /// A draft model, by its name.
    Model(String, Arc<Drafter>),
    /// What followed before.
    Ngram,
    /// Nobody: plain decoding.
    Nobody,
}

impl Drafting {
    /// The name that clients are told.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Model(name, _) => name,
            Self::Ngram => NGRAM,
            Self::Nobody => NOBODY,
        }
    }
}

/// A request that its target can serve.
#[derive(Debug, Clone)]
pub(crate) struct ValidRequest {
    pub(crate) target: Arc<TargetInfo>,
    pub(crate) prompt: Vec<Token>,
    pub(crate) max_tokens: usize,
    pub(crate) sampling: Sampling,
    pub(crate) stop_tokens: Vec<Token>,
    pub(crate) stop_strings: StopStrings,
    /// Alternatives that each token comes with besides its logprob; no logprobs if absent.
    pub(crate) logprobs: Option<usize>,
    pub(crate) policy: PolicySpec,
    pub(crate) drafting: Drafting,
    /// When rows leave the drafter; its own thresholds if absent.
    pub(crate) exit_thresholds: Option<ExitThresholds>,
}

impl ValidRequest {
    /// Checks a request against what is there; the `usual` policy is the one to
    /// use unless it names its own, or its acceptance wants another. Tokenizes the
    /// prompt, which may take a while.
    pub(crate) fn new(request: GenerationRequest, directory: &Directory, usual: &Usual) -> Result<Self, RequestError> {
        let target = find_target(&request.target, directory)?;
        let policy = choose_policy(request.policy.as_deref(), &usual.policy, request.sampling.acceptance())?;
        check_tokens("stop_tokens", &request.stop_tokens, &target)?;
        check_tokens("logit_bias", &biased_tokens(&request.sampling), &target)?;
        let prompt = tokenize(request.prompt, &target.tokenizer)?;
        check_tokens("the prompt", &prompt, &target)?;
        check_room(prompt.len(), request.max_tokens, &target)?;
        let asked = if request.speculate { request.drafter.as_deref() } else { Some(NOBODY) };
        let needs = Needs { target: &target, context: prompt.len() + request.max_tokens };
        let drafting = needs.choose(asked, directory)?;
        Ok(Self {
            prompt,
            max_tokens: request.max_tokens,
            sampling: request.sampling,
            stop_tokens: request.stop_tokens,
            stop_strings: request.stop_strings,
            logprobs: request.logprobs,
            policy,
            exit_thresholds: usual.profiles.thresholds(&target.card.name, drafting.name()).cloned(),
            drafting,
            target,
        })
    }
}

/// The policy that a request names, or else `usual`, or else one that goes with its acceptance.
fn choose_policy(named: Option<&str>, usual: &PolicySpec, acceptance: Acceptance) -> Result<PolicySpec, RequestError> {
    let policy = named.map_or_else(|| Ok(usual.clone()), parse_policy)?;
    match (acceptance, named) {
        (Acceptance::Coupled, _) => Ok(policy),
        (Acceptance::Rejection, Some(_)) => Ok(policy.suiting_drawn()?),
        (Acceptance::Rejection, None) => Ok(policy.suiting_drawn().or_else(|_| parse_policy(Config::DRAWN_POLICY))?),
    }
}

fn find_target(name: &str, directory: &Directory) -> Result<Arc<TargetInfo>, RequestError> {
    directory.target(name).ok_or_else(|| RequestError::UnknownTarget {
        found: name.to_owned(),
        known: list(directory.targets().into_iter().map(|target| target.name)),
    })
}

/// What a drafter must be able to follow.
struct Needs<'a> {
    target: &'a TargetInfo,
    /// Prompt and answer together, in tokens.
    context: usize,
}

impl Needs<'_> {
    /// The drafter that was asked for; any that answers and suits, or n-grams, if none was.
    fn choose(&self, asked: Option<&str>, directory: &Directory) -> Result<Drafting, RequestError> {
        match asked {
            Some(NOBODY) => Ok(Drafting::Nobody),
            Some(NGRAM) => Ok(Drafting::Ngram),
            Some(name) => self.named(name, directory),
            None => Ok(self.any(directory)),
        }
    }

    fn named(&self, name: &str, directory: &Directory) -> Result<Drafting, RequestError> {
        let drafters = directory.drafters();
        let Some((drafter, card)) = drafters.iter().find(|(_, card)| card.name == name) else {
            let own = [NGRAM, NOBODY].map(str::to_owned);
            let known = list(drafters.iter().map(|(_, card)| card.name.clone()).chain(own));
            return Err(RequestError::UnknownDrafter { found: name.to_owned(), known });
        };
        self.check(card)?;
        Ok(Drafting::Model(name.to_owned(), Arc::clone(drafter)))
    }

    fn any(&self, directory: &Directory) -> Drafting {
        let mut drafters = directory.drafters().into_iter();
        let found = drafters.find(|(drafter, card)| drafter.is_up() && self.check(card).is_ok());
        found.map_or(Drafting::Ngram, |(drafter, card)| Drafting::Model(card.name.clone(), drafter))
    }

    fn check(&self, card: &DrafterCard) -> Result<(), RequestError> {
        let (drafter, target) = (card.name.clone(), &self.target.card);
        if card.vocabulary.fingerprint != target.vocabulary.fingerprint {
            return Err(RequestError::Tokenizers { drafter, target: target.name.clone() });
        }
        if let Some(only) = card.only_target.as_ref().filter(|only| only.fingerprint != target.model.fingerprint) {
            let (made_for, expected) = (only.name.clone(), only.fingerprint.clone());
            let (target, found) = (target.name.clone(), target.model.fingerprint.clone());
            return Err(RequestError::OtherTarget { drafter, made_for, expected, target, found });
        }
        if self.context > card.context {
            return Err(RequestError::DrafterContext { drafter, needed: self.context, context: card.context });
        }
        Ok(())
    }
}

fn tokenize(prompt: Prompt, tokenizer: &Tokenizer) -> Result<Vec<Token>, RequestError> {
    let tokens = match prompt {
        Prompt::Tokens(tokens) => tokens,
        Prompt::Text(text) if text.is_empty() => vec![],
        Prompt::Text(text) => tokenizer.encode(&text, true)?,
        Prompt::Conversation(messages) if messages.iter().all(|said| said.content.is_empty()) => vec![],
        Prompt::Conversation(messages) => {
            let said = |Message { role, content }| ChatMessage { role, content };
            tokenizer.encode_chat(&messages.into_iter().map(said).collect::<Vec<_>>())?
        }
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

fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none at present".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn by_rejection_a_policy_that_suits_is_chosen_or_demanded() {
        let [pruning, chain] = ["expected-gain", "constant,k=2"].map(|text| parse_policy(text).unwrap());
        let choose = |named, usual, acceptance| choose_policy(named, usual, acceptance).map(|spec| spec.to_string());
        let (coupled, rejection) = (Acceptance::Coupled, Acceptance::Rejection);
        assert_eq!(choose(None, &pruning, coupled).unwrap(), "expected-gain");
        assert_eq!(choose(None, &pruning, rejection).unwrap(), Config::DRAWN_POLICY);
        assert_eq!(choose(None, &chain, rejection).unwrap(), "constant,k=2");
        assert_eq!(choose(Some("cape"), &pruning, rejection).unwrap(), "cape");
        assert_eq!(choose(Some("pct"), &chain, coupled).unwrap(), "pct");
        assert!(matches!(choose(Some("pct"), &chain, rejection), Err(RequestError::Pruning(_))));
    }
}
