//! What the client is told: one object, or the pieces of a stream.

use std::borrow::Cow;

use espalier_proto::{CallForm, Completion, GeneratedToken, SpeculationSummary};
use espalier_speculation::FinishReason;
use serde::Serialize;
use serde_json::Value;

use crate::calls::CallId;
use crate::chat::{ChatChoice, Delta, Message, Telling};
use crate::logprobs::{ChatLogprobs, CompletionLogprobs};
use crate::request::Kind;

/// What all objects of an answer have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The call that is answered.
    pub kind: Kind,
    /// Names the answer.
    pub id: String,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// The target.
    pub model: String,
}

/// One of the texts that were asked for, as far as it has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    text: String,
    tokens: Vec<GeneratedToken>,
    completion: Option<Completion>,
    /// How calls stand in its text, if there may be any.
    call_form: Option<CallForm>,
}

/// What has come of a choice since the last piece.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Which choice.
    pub index: usize,
    /// Its new tokens.
    pub tokens: &'a [GeneratedToken],
    /// Text that belongs to no token: what was held back to the end.
    pub rest: &'a str,
    /// Why it ended, if it did.
    pub reason: Option<FinishReason>,
}

/// An object of the API: a whole answer, or a piece of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Told<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    /// What is told beyond the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    espalier: Option<Value>,
}

/// What was used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    espalier: Speculation,
}

/// How speculation went, over all choices.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Speculation {
    rounds: u64,
    drafted: u64,
    verified: u64,
    accepted: u64,
    accepted_by_depth: Vec<u64>,
    tau: Option<f64>,
    draft_ms: f64,
    verify_ms: f64,
    wait_ms: f64,
    failovers: u32,
    drafter: String,
    policy: String,
    /// The seed of the first choice: the same request with it has the same answer.
    seed: u64,
}

/// What is told of a choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Chat(ChatChoice<'a>),
    Text(TextChoice<'a>),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct TextChoice<'a> {
    index: usize,
    text: Cow<'a, str>,
    logprobs: Option<CompletionLogprobs>,
    finish_reason: Option<&'static str>,
}

fn finish(reason: FinishReason, calls: bool) -> &'static str {
    match reason {
        FinishReason::Stop if calls => "tool_calls",
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

impl Choice {
    /// One that has begun, and may hold calls in this form.
    pub fn begun(call_form: Option<CallForm>) -> Self {
        Self { call_form, ..Self::default() }
    }

    /// Takes tokens that came.
    pub fn push(&mut self, tokens: Vec<GeneratedToken>) {
        tokens.iter().for_each(|token| self.text.push_str(&token.text));
        self.tokens.extend(tokens);
    }

    /// Takes the end.
    pub fn end(&mut self, completion: Completion) {
        self.text.push_str(&completion.text);
        self.completion = Some(completion);
    }

    /// How it ended, if it has.
    pub fn completion(&self) -> Option<&Completion> {
        self.completion.as_ref()
    }

    fn wants_logprobs(&self) -> bool {
        self.tokens.iter().any(|token| token.logprob.is_some())
    }
}

impl Names {
    /// The whole answer, of so many choices for each prompt.
    pub fn whole<'a>(&'a self, choices: &'a [Choice], of_each: usize) -> Answer<'a> {
        let object = match self.kind {
            Kind::Chat => "chat.completion",
            Kind::Completion => "text_completion",
        };
        let whole = |(index, choice): (usize, &'a Choice)| self.whole_choice(index, choice);
        self.object(object, choices.iter().enumerate().map(whole).collect(), Some(Usage::of(choices, of_each)))
    }

    fn whole_choice<'a>(&self, index: usize, choice: &'a Choice) -> Told<'a> {
        let finished = |calls| choice.completion.as_ref().map(|completion| finish(completion.reason, calls));
        let rated = choice.wants_logprobs();
        match self.kind {
            Kind::Chat => {
                let message = Message::new(&choice.text, choice.call_form.as_ref(), |call| self.call(index, call));
                let (finish_reason, message) = (finished(message.calls()), Some(message));
                let logprobs = rated.then(|| ChatLogprobs::of(&choice.tokens));
                Told::Chat(ChatChoice { index, message, delta: None, logprobs, finish_reason })
            }
            Kind::Completion => {
                let (finish_reason, logprobs) =
                    (finished(false), rated.then(|| CompletionLogprobs::of(&choice.tokens, 0)));
                Told::Text(TextChoice { index, text: choice.text.as_str().into(), logprobs, finish_reason })
            }
        }
    }

    /// What a stream says of a choice before its first token; completions say nothing.
    pub fn beginning(&self, index: usize) -> Option<Answer<'_>> {
        let delta = Some(Delta::beginning());
        let choice = ChatChoice { index, message: None, delta, logprobs: None, finish_reason: None };
        (self.kind == Kind::Chat).then(|| self.piece(vec![Told::Chat(choice)], None))
    }

    /// A piece of a stream that has told so much of the choice.
    pub fn part(&self, part: &Part<'_>, told: &mut Telling) -> Answer<'_> {
        let text: String = part.tokens.iter().map(|token| token.text.as_str()).chain([part.rest]).collect();
        let (index, before) = (part.index, told.characters);
        told.characters += text.chars().count();
        let rated = part.tokens.iter().any(|token| token.logprob.is_some());
        let choice = match self.kind {
            Kind::Chat => {
                let delta = Some(told.delta(text, part.reason.is_some(), |call| self.call(index, call)));
                let finish_reason = part.reason.map(|reason| finish(reason, told.has_calls()));
                let logprobs = rated.then(|| ChatLogprobs::of(part.tokens));
                Told::Chat(ChatChoice { index, message: None, delta, logprobs, finish_reason })
            }
            Kind::Completion => {
                let finish_reason = part.reason.map(|reason| finish(reason, false));
                let logprobs = rated.then(|| CompletionLogprobs::of(part.tokens, before));
                Told::Text(TextChoice { index, text: text.into(), logprobs, finish_reason })
            }
        };
        self.piece(vec![choice], None)
    }

    fn call(&self, choice: usize, call: usize) -> CallId {
        CallId::new(&self.id, choice, call)
    }

    /// The last piece of a stream that tells what was used.
    pub fn usage(&self, choices: &[Choice], of_each: usize) -> Answer<'_> {
        self.piece(Vec::new(), Some(Usage::of(choices, of_each)))
    }

    fn piece<'a>(&'a self, choices: Vec<Told<'a>>, usage: Option<Usage>) -> Answer<'a> {
        let object = match self.kind {
            Kind::Chat => "chat.completion.chunk",
            Kind::Completion => "text_completion",
        };
        self.object(object, choices, usage)
    }

    fn object<'a>(&'a self, object: &'static str, choices: Vec<Told<'a>>, usage: Option<Usage>) -> Answer<'a> {
        Answer { id: &self.id, object, created: self.created, model: &self.model, choices, usage, espalier: None }
    }
}

impl Answer<'_> {
    /// The same with something beyond the API, in a field of our name.
    #[must_use]
    pub fn telling(self, own: Option<Value>) -> Self {
        Self { espalier: own, ..self }
    }
}

impl Usage {
    /// What choices used that have come to their ends. A prompt counts once, however many choices it has.
    fn of(choices: &[Choice], of_each: usize) -> Self {
        let ended: Vec<&Completion> = choices.iter().filter_map(Choice::completion).collect();
        let prompt_tokens = ended.iter().step_by(of_each.max(1)).map(|completion| completion.prompt_tokens).sum();
        let completion_tokens = ended.iter().map(|completion| completion.completion_tokens).sum();
        let total_tokens = prompt_tokens + completion_tokens;
        Self { prompt_tokens, completion_tokens, total_tokens, espalier: Speculation::of(&ended) }
    }
}

impl Speculation {
    fn of(ended: &[&Completion]) -> Self {
        let Some((first, others)) = ended.split_first() else { return Self::default() };
        let mut all = Self::one(&first.speculation, first.seed);
        others.iter().for_each(|other| all.add(&other.speculation));
        // Each round commits what it accepts, and mostly a token more.
        let tokens: usize = ended.iter().map(|completion| completion.completion_tokens).sum();
        if !others.is_empty() && all.rounds > 0 {
            all.tau = Some(tokens as f64 / all.rounds as f64);
        }
        all
    }

    fn one(summary: &SpeculationSummary, seed: u64) -> Self {
        Self {
            tau: summary.tau,
            drafter: summary.drafter.clone(),
            policy: summary.policy.clone(),
            seed,
            ..Self::default()
        }
        .plus(summary)
    }

    fn plus(mut self, summary: &SpeculationSummary) -> Self {
        self.add(summary);
        self
    }

    fn add(&mut self, summary: &SpeculationSummary) {
        let depths = self.accepted_by_depth.len().max(summary.accepted_by_depth.len());
        self.accepted_by_depth.resize(depths, 0);
        self.accepted_by_depth.iter_mut().zip(&summary.accepted_by_depth).for_each(|(all, one)| *all += one);
        self.rounds += summary.rounds;
        self.drafted += summary.drafted;
        self.verified += summary.verified;
        self.accepted += summary.accepted;
        self.draft_ms += summary.draft.as_secs_f64() * 1e3;
        self.verify_ms += summary.verify.as_secs_f64() * 1e3;
        self.wait_ms += summary.wait.as_secs_f64() * 1e3;
        self.failovers += summary.failovers;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(id: u32, text: &str, logprob: Option<f64>) -> GeneratedToken {
        GeneratedToken { id, text: text.to_owned(), drafted: false, logprob, alternatives: Vec::new() }
    }

    fn completion(tokens: usize, text: &str) -> Completion {
        Completion {
            reason: FinishReason::Length,
            prompt_tokens: 5,
            completion_tokens: tokens,
            speculation: SpeculationSummary { rounds: 2, accepted: 1, ..SpeculationSummary::default() },
            text: text.to_owned(),
            seed: 9,
            stop_string: None,
        }
    }

    fn written(object: Answer<'_>) -> Value {
        serde_json::to_value(object).unwrap_or_default()
    }

    fn names(kind: Kind) -> Names {
        Names { kind, id: "x".to_owned(), created: 7, model: "m".to_owned() }
    }

    fn choice() -> Choice {
        let mut choice = Choice::default();
        choice.push(vec![token(1, "Hé", Some(-0.5)), token(2, "llo", Some(-1.0))]);
        choice.end(completion(2, "!"));
        choice
    }

    #[test]
    fn a_whole_chat_is_as_the_api_has_it() {
        let (names, choices) = (names(Kind::Chat), [choice()]);
        let found = written(names.whole(&choices, 1));
        assert_eq!(found["object"], "chat.completion");
        assert_eq!(found["choices"][0]["message"], json!({"role": "assistant", "content": "Héllo!", "refusal": null}));
        assert_eq!(found["choices"][0]["finish_reason"], "length");
        let first = json!({"token": "Hé", "logprob": -0.5, "bytes": [72, 195, 169], "top_logprobs": []});
        assert_eq!(found["choices"][0]["logprobs"]["content"][0], first);
        assert_eq!(found["usage"]["total_tokens"], 7);
        assert_eq!(found["usage"]["espalier"]["rounds"], 2);
    }

    #[test]
    fn a_whole_completion_says_where_its_tokens_stand() {
        let (names, choices) = (names(Kind::Completion), [choice()]);
        let found = written(names.whole(&choices, 1));
        assert_eq!((&found["object"], &found["choices"][0]["text"]), (&json!("text_completion"), &json!("Héllo!")));
        assert_eq!(found["choices"][0]["logprobs"]["text_offset"], json!([0, 2]));
    }

    #[test]
    fn a_prompt_counts_once_for_all_its_choices() {
        let (names, choices) = (names(Kind::Chat), [choice(), choice(), choice(), choice()]);
        let found = written(names.whole(&choices, 2));
        assert_eq!((&found["usage"]["prompt_tokens"], &found["usage"]["completion_tokens"]), (&json!(10), &json!(8)));
        assert_eq!(found["usage"]["espalier"]["tau"], 1.0);
    }

    #[test]
    fn pieces_of_a_stream_make_up_the_whole() {
        let names = names(Kind::Chat);
        let tokens = [token(1, "Hé", None), token(2, "llo", None)];
        let parts = [
            Part { index: 0, tokens: &tokens[..1], rest: "", reason: None },
            Part { index: 0, tokens: &tokens[1..], rest: "!", reason: Some(FinishReason::Stop) },
        ];
        let mut told = Telling::default();
        let parts: Vec<Value> = parts.iter().map(|part| written(names.part(part, &mut told))).collect();
        let said: String = names
            .beginning(0)
            .into_iter()
            .map(written)
            .chain(parts.clone())
            .filter_map(|piece| Some(piece["choices"][0]["delta"]["content"].as_str()?.to_owned()))
            .collect();
        assert_eq!(said, "Héllo!");
        assert_eq!(parts[1]["choices"][0]["finish_reason"], "stop");
        let usage = written(names.usage(&[choice()], 1));
        assert_eq!((&usage["choices"], &usage["usage"]["prompt_tokens"]), (&json!([]), &json!(5)));
    }
    #[test]
    fn calls_are_told_whole_and_in_pieces() {
        let (open, close) = ("<call>{\"name\": \"".to_owned(), "}".to_owned());
        let form = CallForm { open, middle: "\", \"arguments\": ".to_owned(), between: None, close };
        let names = names(Kind::Chat);
        let pieces = ["So: <ca", "ll>{\"name\": \"f\", \"argu", "ments\": {\"a\": ", "1}}"];
        let tokens: Vec<_> = (0..).zip(pieces).map(|(id, text)| token(id, text, None)).collect();
        let mut choice = Choice::begun(Some(form.clone()));
        choice.push(tokens.clone());
        choice.end(Completion { reason: FinishReason::Stop, ..completion(4, "") });
        let whole = written(names.whole(&[choice], 1));
        let id = &whole["choices"][0]["message"]["tool_calls"][0]["id"];
        let function = json!({"name": "f", "arguments": "{\"a\": 1}"});
        let call = json!({"id": id, "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": "So: ", "refusal": null, "tool_calls": [call]});
        assert_eq!(whole["choices"][0]["message"], message);
        assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");

        let mut told = Telling::nothing(Some(form));
        let last = [Part { index: 0, tokens: &[], rest: "", reason: Some(FinishReason::Stop) }];
        let parts = tokens.iter().map(|token| Part { tokens: std::slice::from_ref(token), reason: None, ..last[0] });
        let parts: Vec<Value> = parts.chain(last).map(|part| written(names.part(&part, &mut told))).collect();
        let deltas: Vec<&Value> = parts.iter().map(|part| &part["choices"][0]["delta"]).collect();
        let begun = json!({"index": 0, "id": id, "type": "function", "function": {"name": "f", "arguments": ""}});
        let more = |text: &str| json!({"index": 0, "function": {"arguments": text}});
        let expected = [
            json!({"content": "So: "}),
            json!({}),
            json!({"tool_calls": [begun, more("{\"a\": ")]}),
            json!({"tool_calls": [more("1}")]}),
            json!({}),
        ];
        assert_eq!(deltas, expected.iter().collect::<Vec<_>>());
        assert_eq!(parts[4]["choices"][0]["finish_reason"], "tool_calls");
    }
}
