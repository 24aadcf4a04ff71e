//! How a target writes calls of tools: its chat template is had to write some.

use espalier_proto::CallForm;
use espalier_text::{Conversation, Message, TextError, Tokenizer};
use serde_json::{Value, json};
use thiserror::Error;

use crate::renderer::RenderError;

/// Why a target's answers cannot call tools.
#[derive(Debug, Error)]
pub enum CallFormError {
    /// Its template does not write any.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Its template writes them in another way than as a name and a JSON object.
    #[error("the target's chat template writes calls in a form that is not understood")]
    Unknown,
    /// Its template writes them with tokens that texts do not have.
    #[error("the target's chat template writes calls with the special token `{token}`, which no text has")]
    Special {
        /// The first of them.
        token: String,
    },
}

/// What is called for a try, by what ids: some templates take none but of nine letters and digits.
const PROBES: [(&str, &str); 2] = [("first_probe", "probe0001"), ("second_probe", "probe0002")];

/// The arguments of each as JSON is written in answers.
const ARGUMENTS: &str = "{\"probe\": \"value\"}";

/// What is said instead.
const WORDS: &str = "probing words";

/// The form in which a template writes calls, and which a tokenizer's texts can have.
///
/// # Errors
/// [`CallFormError`] says why there is none.
pub(crate) fn find(
    tokenizer: &Tokenizer,
    render: impl Fn(&Conversation) -> Result<String, RenderError>,
) -> Result<CallForm, CallFormError> {
    // Some templates write an answer that is followed by a question as they do not write the last one, and some let no
    // question follow calls.
    let form = match written(&render, true) {
        Ok(Some(form)) => form,
        Ok(None) => written(&render, false)?.ok_or(CallFormError::Unknown)?,
        Err(RenderError::Text(TextError::NoTools)) => return Err(RenderError::Text(TextError::NoTools).into()),
        Err(fault) => written(&render, false).map_err(|_| fault)?.ok_or(CallFormError::Unknown)?,
    };
    let CallForm { open, middle, between, close } = &form;
    for part in [open, middle, between.as_ref().unwrap_or(close), close] {
        if let Some(token) = tokenizer.hidden_in(part).map_err(RenderError::from)? {
            return Err(CallFormError::Special { token });
        }
    }
    Ok(form)
}

/// The form of calls in an answer that is followed by a question, or by nothing; none if it is not understood.
fn written(
    render: &impl Fn(&Conversation) -> Result<String, RenderError>,
    followed: bool,
) -> Result<Option<CallForm>, RenderError> {
    let question = Message::user("probing question");
    let asked = render(&conversation(vec![question.clone()]))?;
    let answered = |answer: Message| {
        let further = followed.then(|| question.clone());
        let messages = [question.clone(), answer].into_iter().chain(further).collect();
        let whole = render(&conversation(messages))?;
        Ok::<_, RenderError>(whole.strip_prefix(&asked).map(str::to_owned))
    };
    let words = answered(Message::new("assistant", WORDS))?;
    let end = words.as_deref().and_then(|words| words.split_once(WORDS)).map(|(_, end)| end);
    let one = answered(calling(1))?;
    let Some((one, end)) = one.as_deref().zip(end) else { return Ok(None) };
    // Templates that write one call at the most refuse two.
    let two = answered(calling(2)).ok().flatten();
    Ok(single(one, end).map(|form| CallForm { between: two.and_then(|two| between(&form, &two, end)), ..form }))
}

/// What is around name and arguments of a call that is all of an answer with this end.
fn single(answer: &str, end: &str) -> Option<CallForm> {
    let answer = without_ids(answer.strip_suffix(end)?)?;
    let (open, behind) = answer.split_once(PROBES[0].0)?;
    let (middle, close) = behind.split_once(ARGUMENTS)?;
    Some(CallForm { open: open.to_owned(), middle: middle.to_owned(), between: None, close: close.to_owned() })
}

/// What stands between two calls of this form that are all of an answer with this end.
fn between(form: &CallForm, answer: &str, end: &str) -> Option<String> {
    let answer = without_ids(answer.strip_suffix(end)?)?;
    let CallForm { open, middle, close, .. } = form;
    let [first, second] = PROBES.map(|(name, _)| format!("{name}{middle}{ARGUMENTS}"));
    let behind = answer.strip_prefix(open.as_str())?.strip_prefix(&first)?;
    Some(behind.strip_suffix(close.as_str())?.strip_suffix(&second)?.to_owned())
}

/// Calls without their ids, which a target is not to write: it cannot know any. None if they are not there as JSON has them.
fn without_ids(answer: &str) -> Option<String> {
    let id = |(_, id): (&str, &str)| format!("\"id\": \"{id}\"");
    let leave_out = |answer: String, id: String| answer.replace(&format!(", {id}"), "").replace(&format!("{id}, "), "");
    let without = PROBES.map(id).into_iter().fold(answer.to_owned(), leave_out);
    (!PROBES.iter().any(|(_, id)| without.contains(id))).then_some(without)
}

fn conversation(messages: Vec<Message>) -> Conversation {
    let tool = |(name, _)| {
        let parameters = json!({"type": "object", "properties": {"probe": {"type": "string"}}});
        json!({"type": "function", "function": {"name": name, "description": "a probe", "parameters": parameters}})
    };
    Conversation { messages, tools: PROBES.map(tool).into() }
}

fn calling(count: usize) -> Message {
    let call = |&(name, id): &(&str, &str)| -> Value {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": {"probe": "value"}}})
    };
    Message { tool_calls: PROBES.iter().take(count).map(call).collect(), ..Message::new("assistant", "") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use espalier_text::Parts;

    use super::*;

    fn form_of(template: &str) -> Result<CallForm, CallFormError> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models/small");
        let shipped = Tokenizer::open(&folder).unwrap();
        let parts = Parts { chat_template: Some(template.as_bytes().to_vec()), ..shipped.parts().clone() };
        let tokenizer = Tokenizer::from_parts(parts).unwrap();
        find(&tokenizer, |said| Ok(tokenizer.chat(said)?))
    }

    fn form(open: &str, middle: &str, between: Option<&str>, close: &str) -> CallForm {
        let [open, middle, close] = [open, middle, close].map(str::to_owned);
        CallForm { open, middle, between: between.map(str::to_owned), close }
    }

    /// As Qwen's templates do: calls in marks, and thoughts before an answer that no question follows.
    const MARKED: &str = "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}\
        {% for call in m.tool_calls %}{% if m.content or not loop.first %}{{ '\\n' }}{% endif %}<tool_call>
{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}</s>
{% endfor %}{{ '<|assistant|>\n' }}";

    /// As Llama's do: a call is all of an answer, and the only one.
    const BARE: &str = "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}<|{{ m.role }}|>\
        {% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one call at once') }}{% endif %}\
        {\"name\": \"{{ m.tool_calls[0].function.name }}\", \"parameters\": {{ m.tool_calls[0].function.arguments | tojson }}}\
        {% else %}{{ m.content | trim }}{% endif %}</s>{% endfor %}<|assistant|>";

    /// As Mistral's do: a list, whose calls have ids, and behind which no question may come.
    const LIST: &str = "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}\
        {% if not loop.first and m.role == 'user' %}{{ raise_exception('alternate') }}{% endif %}\
        {% if m.tool_calls %}[CALLS] [{% for call in m.tool_calls %}\
        {% if call.id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}\
        {\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}, \"id\": \"{{ call.id }}\"}\
        {% if not loop.last %}, {% endif %}{% endfor %}]</s>\
        {% elif m.role == 'user' %}[INST] {{ m.content }}[/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}";

    #[test]
    fn a_template_shows_how_its_target_writes_calls() {
        let (open, close) = ("<tool_call>\n{\"name\": \"", "}\n</tool_call>");
        let between = format!("{close}\n{open}");
        assert_eq!(form_of(MARKED).unwrap(), form(open, "\", \"arguments\": ", Some(&between), close));
        assert_eq!(form_of(BARE).unwrap(), form("{\"name\": \"", "\", \"parameters\": ", None, "}"));
        let between = "}, {\"name\": \"";
        let open = "[CALLS] [{\"name\": \"";
        assert_eq!(form_of(LIST).unwrap(), form(open, "\", \"arguments\": ", Some(between), "}]"));
    }

    #[test]
    fn the_shipped_targets_write_calls_in_marks() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models/medium");
        let tokenizer = Tokenizer::open(&folder).unwrap();
        let found = find(&tokenizer, |said| Ok(tokenizer.chat(said)?)).unwrap();
        assert_eq!(found.mark(), Some("<tool_call>"));
    }

    #[test]
    fn a_template_that_writes_none_or_in_another_way_is_told_apart() {
        let fault = |template: &str| form_of(template).unwrap_err().to_string();
        let deaf = "{% for m in messages %}{{ m.content }}</s>{% endfor %}";
        assert_eq!(fault(deaf), "the chat template tells the target nothing of tools");
        let unknown = "the target's chat template writes calls in a form that is not understood";
        assert_eq!(fault(&format!("{{{{ tools | length }}}}{deaf}")), unknown);
        assert_eq!(
            fault(&MARKED.replace("call.function.arguments | tojson", "call.function.arguments.probe")),
            unknown
        );
        let special = fault(&MARKED.replace("<tool_call>", "<|system|>"));
        assert_eq!(
            special,
            "the target's chat template writes calls with the special token `<|system|>`, which no text has"
        );
        let refusing =
            fault(&MARKED.replace("{{ m.content }}", "{{ raise_exception('no') if m.tool_calls }}{{ m.content }}"));
        assert_eq!(refusing, "the chat template refuses the messages: no");
    }
}
