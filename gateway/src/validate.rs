//! From a request to one that can be served: every rule, and only here.

use std::sync::Arc;

use espalier_proto::{DrafterCard, GenerationRequest, Message, Prompt};
use espalier_speculation::{PolicySpec, Sampling, Token, parse_policy};
use espalier_text::{Message as ChatMessage, Tokenizer};

use crate::directory::{Directory, Drafter};
use crate::error::RequestError;
use crate::peers::TargetInfo;

/// Asks for n-gram proposals instead of a draft model's.
const NGRAM: &str = "ngram";

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
            Self::Nobody => "none",
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
    pub(crate) policy: PolicySpec,
    pub(crate) drafting: Drafting,
}

impl ValidRequest {
    /// Checks a request against what is there; `policy` is the one to use unless
    /// it names its own. Tokenizes the prompt, which may take a while.
    pub(crate) fn new(
        request: GenerationRequest,
        directory: &Directory,
        policy: &PolicySpec,
    ) -> Result<Self, RequestError> {
        let target = find_target(&request.target, directory)?;
        let policy = request.policy.as_deref().map_or_else(|| Ok(policy.clone()), parse_policy)?;
        let drafting = choose_drafting(&request, &target, directory)?;
        check_tokens("stop_tokens", &request.stop_tokens, &target)?;
        let prompt = tokenize(request.prompt, &target.tokenizer)?;
        check_tokens("the prompt", &prompt, &target)?;
        check_room(prompt.len(), request.max_tokens, &target)?;
        Ok(Self {
            target,
            prompt,
            max_tokens: request.max_tokens,
            sampling: request.sampling,
            stop_tokens: request.stop_tokens,
            policy,
            drafting,
        })
    }
}

fn find_target(name: &str, directory: &Directory) -> Result<Arc<TargetInfo>, RequestError> {
    directory.target(name).ok_or_else(|| RequestError::UnknownTarget {
        found: name.to_owned(),
        known: list(directory.targets().into_iter().map(|target| target.name)),
    })
}

fn choose_drafting(
    request: &GenerationRequest,
    target: &TargetInfo,
    directory: &Directory,
) -> Result<Drafting, RequestError> {
    match request.drafter.as_deref() {
        _ if !request.speculate => Ok(Drafting::Nobody),
        Some(NGRAM) => Ok(Drafting::Ngram),
        Some(name) => named_drafter(name, target, directory),
        None => Ok(any_drafter(target, directory)),
    }
}

fn named_drafter(name: &str, target: &TargetInfo, directory: &Directory) -> Result<Drafting, RequestError> {
    let drafters = directory.drafters();
    let Some((drafter, card)) = drafters.iter().find(|(_, card)| card.name == name) else {
        let known = drafters.iter().map(|(_, card)| card.name.clone()).chain([NGRAM.to_owned()]);
        return Err(RequestError::UnknownDrafter { found: name.to_owned(), known: list(known) });
    };
    if !suits(card, target) {
        let (drafter, target) = (name.to_owned(), target.card.name.clone());
        return Err(RequestError::Tokenizers { drafter, target });
    }
    Ok(Drafting::Model(name.to_owned(), Arc::clone(drafter)))
}

/// A drafter that answers and suits the target; n-grams where there is none.
fn any_drafter(target: &TargetInfo, directory: &Directory) -> Drafting {
    let mut drafters = directory.drafters().into_iter();
    let found = drafters.find(|(drafter, card)| drafter.is_up() && suits(card, target));
    found.map_or(Drafting::Ngram, |(drafter, card)| Drafting::Model(card.name.clone(), drafter))
}

fn suits(card: &DrafterCard, target: &TargetInfo) -> bool {
    card.vocabulary.fingerprint == target.card.vocabulary.fingerprint
}

fn tokenize(prompt: Prompt, tokenizer: &Tokenizer) -> Result<Vec<Token>, RequestError> {
    let tokens = match prompt {
        Prompt::Tokens(tokens) => tokens,
        Prompt::Text(text) if text.is_empty() => vec![],
        Prompt::Text(text) => tokenizer.encode(&text, true)?,
        Prompt::Conversation(messages) if messages.is_empty() => vec![],
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
