//! What a request asks for.

use espalier_proto::pb::generate_request::Prompt;
use espalier_proto::{is_client_name, pb};
use serde::Deserialize;

use crate::error::RequestError;
use crate::fields::Fields;
use crate::{constraint, prompt, sampling};

/// Answers to one request: each is a sequence of its own.
const CHOICES_MAX: usize = 32;

/// Alternatives that each token of a chat may come with, as the API has it.
const CHAT_LOGPROBS_MAX: u32 = 20;

/// The same of a completion.
const COMPLETION_LOGPROBS_MAX: u32 = 5;

/// Tokens of a completion unless told otherwise, as the API has it. A chat's may fill the context.
const COMPLETION_TOKENS: u32 = 16;

/// Fields whose only value here is what the API has without them.
const USUAL: [(&str, &str); 8] = [
    ("store", "false"),
    ("functions", "[]"),
    ("function_call", "\"none\""),
    ("service_tier", "\"auto\""),
    ("modalities", "[\"text\"]"),
    ("metadata", "{}"),
    ("echo", "false"),
    ("best_of", "1"),
];

/// What a client may be called.
const CLIENT_NAME: &str = "a name of 1 to 64 printable ASCII characters";

/// Which of the two calls it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
}

/// A request that has been understood. Whether its target can serve it, the gateway decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The call.
    pub kind: Kind,
    /// Its target.
    pub model: String,
    /// What each choice is asked by, in their order.
    pub choices: Vec<pb::GenerateRequest>,
    /// How many of them there are for each prompt.
    pub of_each: usize,
    /// Whether the answer is to come piece by piece.
    pub streams: bool,
    /// Whether a stream ends with what was used.
    pub tells_usage: bool,
    /// On whose behalf it was sent, if that was said.
    pub user: Option<String>,
    /// The field that holds what the answers are held to, if they are.
    pub constraint_field: Option<String>,
}

impl Asked {
    /// Reads a request's body.
    ///
    /// # Errors
    /// [`RequestError`] names the field that is wrong or not supported.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::parse(body)?;
        let mut own = fields.within("espalier")?;
        let model: String = fields.need("model")?;
        let prompts = match kind {
            Kind::Chat => vec![Prompt::Conversation(prompt::take_conversation(&mut fields)?)],
            Kind::Completion => prompt::take_prompts(&mut fields)?,
        };
        let held = constraint::take(kind == Kind::Chat, &mut fields, &mut own)?;
        let (constraint, field) = held.map(|held| (held.constraint, held.field)).unzip();
        let calls = prompts.iter().any(|prompt| matches!(prompt, Prompt::Conversation(said) if !said.tools.is_empty()));
        let constraint_field = match (calls, field) {
            (true, Some(field)) => {
                let found = "given beside `tools`".to_owned();
                return Err(RequestError::Unsupported { field, found, supported: "one of them" });
            }
            (true, None) => Some("tools".to_owned()),
            (false, field) => field,
        };
        let one = pb::GenerateRequest { constraint, ..take_one(kind, &model, &mut fields, &mut own)? };
        let count = take_count(&mut fields, prompts.len())?;
        let streams = fields.take("stream")?.unwrap_or(false);
        let tells_usage = take_stream_options(&mut fields)?;
        let user = take_user(&mut fields)?;
        for (name, usual) in USUAL {
            fields.only(name, usual)?;
        }
        own.map_or(Ok(()), Fields::end)?;
        fields.end()?;
        let choices = prompts.into_iter().flat_map(|prompt| chosen(&one, &prompt, count)).collect();
        Ok(Self { kind, model, choices, of_each: count as usize, streams, tells_usage, user, constraint_field })
    }
}

/// The choices for one prompt: each draws with a seed of its own.
fn chosen(one: &pb::GenerateRequest, prompt: &Prompt, count: u32) -> Vec<pb::GenerateRequest> {
    let choice = |i: u32| {
        let mut choice = pb::GenerateRequest { prompt: Some(prompt.clone()), ..one.clone() };
        if let Some(sampling) = &mut choice.sampling {
            sampling.seed = sampling.seed.map(|seed| seed.wrapping_add(u64::from(i)));
        }
        choice
    };
    (0..count).map(choice).collect()
}

/// Takes all that is the same for each choice.
fn take_one(
    kind: Kind,
    model: &str,
    fields: &mut Fields,
    own: &mut Option<Fields>,
) -> Result<pb::GenerateRequest, RequestError> {
    let sampling = sampling::take(fields, own)?;
    let max_tokens = take_max_tokens(kind, fields)?;
    let mut one = pb::GenerateRequest {
        target: model.to_owned(),
        max_tokens: max_tokens.unwrap_or(u32::MAX),
        cut_to_context: max_tokens.is_none(),
        sampling: Some(sampling),
        stop_strings: take_stop(fields)?,
        logprobs: take_logprobs(kind, fields)?,
        ..pb::GenerateRequest::default()
    };
    if let Some(own) = own {
        one.policy = own.take("policy")?.unwrap_or_default();
        one.drafter = own.take("drafter")?.unwrap_or_default();
        one.no_speculation = !own.take("speculate")?.unwrap_or(true);
        one.stop_tokens = own.take("stop_tokens")?.unwrap_or_default();
        one.rounds = own.take("rounds")?.unwrap_or(false);
    }
    Ok(one)
}

fn take_max_tokens(kind: Kind, fields: &mut Fields) -> Result<Option<u32>, RequestError> {
    let max_tokens: Option<u32> = fields.take("max_tokens")?;
    match kind {
        Kind::Chat => Ok(fields.take("max_completion_tokens")?.or(max_tokens)),
        Kind::Completion => Ok(Some(max_tokens.unwrap_or(COMPLETION_TOKENS))),
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts was expected")]
enum Stop {
    One(String),
    Several(Vec<String>),
}

fn take_stop(fields: &mut Fields) -> Result<Vec<String>, RequestError> {
    Ok(match fields.take("stop")? {
        None => Vec::new(),
        Some(Stop::One(text)) => vec![text],
        Some(Stop::Several(texts)) => texts,
    })
}

fn take_logprobs(kind: Kind, fields: &mut Fields) -> Result<Option<u32>, RequestError> {
    let (name, found, most) = match kind {
        Kind::Chat => {
            let wanted = fields.take("logprobs")?.unwrap_or(false);
            let top: Option<u32> = fields.take("top_logprobs")?;
            match (wanted, top) {
                (false, Some(1..)) => {
                    let (field, found) = (fields.named("top_logprobs"), "given".to_owned());
                    return Err(RequestError::Unsupported { field, found, supported: "`logprobs: true` beside it" });
                }
                (wanted, top) => ("top_logprobs", wanted.then(|| top.unwrap_or(0)), CHAT_LOGPROBS_MAX),
            }
        }
        Kind::Completion => ("logprobs", fields.take("logprobs")?, COMPLETION_LOGPROBS_MAX),
    };
    within(fields, name, found, most)?;
    Ok(found)
}

/// Takes how many choices each of so many prompts is to have.
fn take_count(fields: &mut Fields, prompts: usize) -> Result<u32, RequestError> {
    let most = CHOICES_MAX / prompts.max(1);
    let count: u32 = fields.take("n")?.unwrap_or(1);
    if prompts == 0 || prompts > CHOICES_MAX {
        return Err(RequestError::Count { field: fields.named("prompt"), found: prompts, most: CHOICES_MAX });
    }
    if count == 0 || count as usize > most {
        let field = fields.named("n");
        return Err(RequestError::Range { field, found: f64::from(count), low: 1.0, high: most as f64 });
    }
    Ok(count)
}

fn within(fields: &Fields, name: &str, found: Option<u32>, most: u32) -> Result<(), RequestError> {
    match found {
        Some(found) if found > most => {
            let (field, found) = (fields.named(name), f64::from(found));
            Err(RequestError::Range { field, found, low: 0.0, high: f64::from(most) })
        }
        _ => Ok(()),
    }
}

fn take_stream_options(fields: &mut Fields) -> Result<bool, RequestError> {
    let Some(mut options) = fields.within("stream_options")? else { return Ok(false) };
    let tells_usage = options.take("include_usage")?.unwrap_or(false);
    options.only("include_obfuscation", "false")?;
    options.end()?;
    Ok(tells_usage)
}

/// Takes on whose behalf it is sent: newer clients name it otherwise.
fn take_user(fields: &mut Fields) -> Result<Option<String>, RequestError> {
    let (user, identifier) = (take_name(fields, "user")?, take_name(fields, "safety_identifier")?);
    Ok(identifier.or(user))
}

fn take_name(fields: &mut Fields, name: &str) -> Result<Option<String>, RequestError> {
    let found: Option<String> = fields.take(name)?;
    match found {
        Some(found) if !is_client_name(&found) => {
            let field = fields.named(name);
            Err(RequestError::Unsupported { field, found: format!("{found:?}"), supported: CLIENT_NAME })
        }
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_proto::{Conversation, Message};
    use serde_json::{Value, json};

    use super::*;

    fn parse(kind: Kind, body: &Value) -> Result<Asked, RequestError> {
        Asked::parse(kind, body.to_string().as_bytes())
    }

    fn chat(more: &Value) -> Value {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    fn said(role: &str, content: &str) -> pb::Conversation {
        pb::Conversation::from(Conversation::from(vec![Message::new(role, content)]))
    }

    #[test]
    fn a_chat_asks_for_one_answer_as_long_as_fits_at_temperature_1() {
        let asked = parse(Kind::Chat, &chat(&json!({}))).unwrap();
        let [one] = &asked.choices[..] else { panic!("{asked:?}") };
        assert!(one.cut_to_context && one.sampling.as_ref().unwrap().temperature == 1.0);
        assert_eq!(one.prompt, Some(Prompt::Conversation(said("user", "Hi"))));
        assert!(!asked.streams && !asked.tells_usage);
    }

    #[test]
    fn choices_draw_with_seeds_of_their_own() {
        let asked = parse(Kind::Chat, &chat(&json!({"n": 3, "seed": -1, "max_tokens": 7}))).unwrap();
        let seeds: Vec<_> = asked.choices.iter().map(|one| one.sampling.as_ref().unwrap().seed.unwrap()).collect();
        assert_eq!(seeds, [u64::MAX, 0, 1]);
        assert!(asked.choices.iter().all(|one| one.max_tokens == 7 && !one.cut_to_context));
    }

    #[test]
    fn prompts_are_texts_or_tokens() {
        for (prompt, count) in [(json!("a"), 1), (json!(["a", "b"]), 2), (json!([1, 2]), 1), (json!([[1], [2, 3]]), 2)]
        {
            let asked = parse(Kind::Completion, &json!({"model": "m", "prompt": prompt})).unwrap();
            assert_eq!(asked.choices.len(), count, "{prompt}");
            assert!(asked.choices.iter().all(|one| one.max_tokens == COMPLETION_TOKENS));
        }
    }

    #[test]
    fn parts_of_a_message_are_one_text() {
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        let body = json!({"model": "m", "messages": [{"role": "developer", "content": parts}]});
        let asked = parse(Kind::Chat, &body).unwrap();
        assert_eq!(asked.choices[0].prompt, Some(Prompt::Conversation(said("system", "ab"))));
    }

    #[test]
    fn our_own_fields_say_who_drafts_and_how() {
        let own = json!({"policy": "none", "drafter": "d", "speculate": false, "top_k": 4, "acceptance": "rejection"});
        let asked = parse(Kind::Chat, &chat(&json!({"espalier": own}))).unwrap();
        let one = &asked.choices[0];
        assert_eq!((one.policy.as_str(), one.drafter.as_str(), one.no_speculation), ("none", "d", true));
        let sampling = one.sampling.as_ref().unwrap();
        assert_eq!((sampling.top_k, sampling.acceptance()), (4, pb::Acceptance::Rejection));
    }

    #[test]
    fn answers_are_held_to_one_thing_whose_field_is_known() {
        use pb::constraint::Kind::{Grammar, JsonSchema, Regex};
        let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
        let described = json!({"name": "it", "strict": true, "schema": schema});
        let whole = "{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}".to_owned();
        let cases = [
            (json!({}), None, None),
            (json!({"response_format": {"type": "text"}}), None, None),
            (
                json!({"response_format": {"type": "json_object"}}),
                Some(JsonSchema("{\"type\":\"object\"}".to_owned())),
                Some("response_format"),
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": described}}),
                Some(JsonSchema(whole.clone())),
                Some("response_format"),
            ),
            (json!({"espalier": {"json_schema": schema}}), Some(JsonSchema(whole)), Some("espalier.json_schema")),
            (json!({"espalier": {"regex": "a+"}}), Some(Regex("a+".to_owned())), Some("espalier.regex")),
            (
                json!({"espalier": {"grammar": "start: A"}}),
                Some(Grammar("start: A".to_owned())),
                Some("espalier.grammar"),
            ),
        ];
        for (more, words, field) in cases {
            let asked = parse(Kind::Chat, &chat(&more)).unwrap();
            let constraint = asked.choices[0].constraint.clone().and_then(|constraint| constraint.kind);
            assert_eq!((constraint, asked.constraint_field.as_deref()), (words, field), "{more}");
        }
        let completion = json!({"model": "m", "prompt": "a", "response_format": {"type": "json_object"}});
        assert_eq!(parse(Kind::Completion, &completion).unwrap_err().field(), Some("response_format"));
    }

    #[test]
    fn what_is_wrong_or_not_supported_is_named() {
        let wrong = [
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"n": 0}), "n"),
            (json!({"n": 33}), "n"),
            (json!({"top_logprobs": 3}), "top_logprobs"),
            (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
            (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
            (json!({"tools": [{"type": "custom", "function": {}}]}), "tools[0].type"),
            (json!({"tools": [function("a b")]}), "tools"),
            (json!({"tools": [function("f"), function("f")]}), "tools"),
            (json!({"tools": [function("f")], "tool_choice": "often"}), "tool_choice"),
            (json!({"tools": [function("f")], "tool_choice": {"type": "function"}}), "tool_choice.function"),
            (json!({"tools": [function("f")], "tool_choice": choose("g")}), "tools"),
            (json!({"tools": [function("f")], "response_format": {"type": "json_object"}}), "response_format"),
            (json!({"tool_choice": "auto"}), "tool_choice"),
            (json!({"parallel_tool_calls": false}), "parallel_tool_calls"),
            (json!({"messages": [{"role": "tool", "content": "7"}]}), "messages[0].tool_call_id"),
            (
                json!({"messages": [{"role": "assistant", "tool_calls": [called("7")]}]}),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (json!({"response_format": {"type": "yaml"}}), "response_format.type"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"schema": 1}}}),
                "response_format.json_schema.schema",
            ),
            (json!({"response_format": {"type": "json_object"}, "espalier": {"regex": "a"}}), "espalier.regex"),
            (json!({"logit_bias": {"a": 1.0}}), "logit_bias"),
            (json!({"stream_options": {"other": 1}}), "stream_options.other"),
            (json!({"espalier": {"polcy": "none"}}), "espalier.polcy"),
            (json!({"espalier": {"acceptance": "never"}}), "espalier.acceptance"),
            (json!({"frobnicate": true}), "frobnicate"),
            (json!({"user": "Ödön"}), "user"),
            (json!({"safety_identifier": ""}), "safety_identifier"),
            (json!({"store": true}), "store"),
            (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
                "messages[0].content[0].type",
            ),
            (json!({"messages": [{"role": "user", "content": "a", "name": "b"}]}), "messages[0].name"),
        ];
        for (more, field) in wrong {
            let error = parse(Kind::Chat, &chat(&more)).unwrap_err();
            assert_eq!(error.field(), Some(field), "{more}: {error}");
            assert!(error.to_string().starts_with(&format!("`{field}`")), "{error}");
        }
        assert_eq!(parse(Kind::Completion, &json!({"prompt": "a"})).unwrap_err().field(), Some("model"));
        let many = parse(Kind::Completion, &json!({"model": "m", "prompt": vec!["a"; 33]})).unwrap_err();
        assert_eq!(
            (many.field(), many.to_string()),
            (Some("prompt"), "`prompt` holds 33; it must hold 1 to 32".to_owned())
        );
        assert!(matches!(Asked::parse(Kind::Chat, b"[1"), Err(RequestError::Json(_))));
    }

    fn function(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}, "strict": true}})
    }

    fn choose(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name}})
    }

    fn called(arguments: &str) -> Value {
        json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}})
    }

    #[test]
    fn tools_are_told_with_what_was_called_and_answered() {
        let messages = json!([
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": null, "tool_calls": [called("{\"a\": 1}")]},
            {"role": "tool", "tool_call_id": "1", "content": "7"},
        ]);
        let asked = |choice: Value| {
            let more = json!({"messages": messages, "tools": [function("f")], "tool_choice": choice});
            let asked = parse(Kind::Chat, &chat(&more)).unwrap();
            let Some(Prompt::Conversation(said)) = asked.choices[0].prompt.clone() else { panic!("{asked:?}") };
            (Conversation::try_from(said).unwrap(), asked.constraint_field)
        };
        let (said, field) = asked(choose("f"));
        assert_eq!((said.messages[1].calls[0].arguments["a"].as_u64(), field.as_deref()), (Some(1), Some("tools")));
        assert_eq!(said.messages[2].answers.as_deref(), Some("1"));
        assert!(!said.tools.unwrap().may_be_left());
        assert!(asked(json!("auto")).0.tools.unwrap().may_be_left());
        assert_eq!(asked(json!("none")), (Conversation { tools: None, ..asked(json!("auto")).0 }, None));
    }

    #[test]
    fn nulls_are_as_absent() {
        let nothing = json!({"temperature": null, "tools": null, "frobnicate": null, "espalier": null, "stop": null});
        assert_eq!(parse(Kind::Chat, &chat(&nothing)).unwrap(), parse(Kind::Chat, &chat(&json!({}))).unwrap());
    }

    proptest::proptest! {
        #[test]
        fn no_body_does_harm(body: Vec<u8>) {
            for kind in [Kind::Chat, Kind::Completion] {
                let _ = Asked::parse(kind, &body);
            }
        }
    }
}
