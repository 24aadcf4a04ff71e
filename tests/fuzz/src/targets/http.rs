//! Bodies of OpenAI's API.

use espalier_openai::{Asked, Kind, TokensAsked};
use espalier_proto::GenerationRequest;

use crate::target::{Target, refused};

/// Answers to one request, at most.
const CHOICES_MAX: usize = 32;

pub(crate) const CHAT: Target = Target {
    name: "http-chat",
    about: "The body of a chat is refused in words, or asks for one or several answers of one target.",
    run: |bytes| asks(Kind::Chat, bytes),
    seeds: || CHATS.map(|body| body.as_bytes().to_vec()).into(),
    tries: 3000,
    memory_max: 1 << 18,
};

pub(crate) const COMPLETION: Target = Target {
    name: "http-completion",
    about: "The body of a completion is refused in words, or asks for one or several answers of one target.",
    run: |bytes| asks(Kind::Completion, bytes),
    seeds: || COMPLETIONS.map(|body| body.as_bytes().to_vec()).into(),
    ..CHAT
};

pub(crate) const TOKENS: Target = Target {
    name: "http-tokenize",
    about: "The body of a question for tokens is refused in words, or has one prompt.",
    run: |bytes| match TokensAsked::parse(bytes) {
        Ok(_) => true,
        Err(refusal) => refused(&refusal),
    },
    seeds: || QUESTIONS.map(|body| body.as_bytes().to_vec()).into(),
    ..CHAT
};

const CHATS: [&str; 3] = [
    r#"{"model": "medium", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 0.5,
        "seed": 7, "n": 2, "stop": ["\n", "."], "logprobs": true, "top_logprobs": 3, "logit_bias": {"7": -1.5}}"#,
    r#"{"model": "medium", "messages": [{"role": "developer", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": true, "stream_options": {"include_usage": true}, "user": "ann",
        "espalier": {"policy": "eagle2,total=8", "drafter": "sorted", "speculate": true, "top_k": 5, "rounds": true}}"#,
    r#"{"model": "medium", "messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_schema",
        "json_schema": {"name": "n", "strict": true, "schema": {"type": "object", "properties": {}}}}}"#,
];

const COMPLETIONS: [&str; 3] = [
    r#"{"model": "small", "prompt": "Hi", "logprobs": 2, "presence_penalty": 0.5, "espalier": {"regex": "[0-9]+"}}"#,
    r#"{"model": "small", "prompt": ["Hi", "Ho"], "n": 3, "top_p": 0.9, "frequency_penalty": -1}"#,
    r#"{"model": "small", "prompt": [[1, 2], [3]], "echo": false, "best_of": 1, "suffix": null}"#,
];

const QUESTIONS: [&str; 2] =
    [r#"{"model": "small", "prompt": "Hi"}"#, r#"{"model": "small", "messages": [{"role": "user", "content": "Hi"}]}"#];

/// Whether a body was understood. What it asks for is then read as what comes over gRPC is.
fn asks(kind: Kind, bytes: &[u8]) -> bool {
    let asked = match Asked::parse(kind, bytes) {
        Ok(asked) => asked,
        Err(refusal) => return refused(&refusal),
    };
    assert!((1..=CHOICES_MAX).contains(&asked.choices.len()), "{} answers", asked.choices.len());
    assert_eq!(asked.choices.len() % asked.of_each, 0, "each prompt has as many answers");
    for choice in asked.choices {
        assert_eq!(choice.target, asked.model, "all answers are of one target");
        if let Err(refusal) = GenerationRequest::try_from(choice) {
            refused(&refusal);
        }
    }
    true
}
