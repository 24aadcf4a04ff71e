//! Chat templates: Jinja as Hugging Face's tokenizers run it.

use std::error::Error as _;
use std::io;
use std::time::SystemTime;

use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind, context, syntax::SyntaxConfig};
use minijinja_contrib::pycompat;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::clock::strftime;
use crate::error::{Result, TextError};
use crate::guard::guarded;
use crate::parts::{Settings, SpecialToken};

const NAME: &str = "chat_template";
/// Instructions of the template engine before a template is stopped.
const FUEL_MAX: u64 = 20_000_000;
const INDENT_MAX: usize = 16;
/// Bytes of a rendered prompt: twice those of the largest message that a service reads.
const PROMPT_BYTES_MAX: usize = 8 << 20;
/// Bytes of what a template says went wrong: it is told to clients, in the head of an answer.
const WORDS_BYTES_MAX: usize = 1024;

/// What was said so far, and what may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Its turns, in the order in which they were said.
    pub messages: Vec<Message>,
    /// What may be called, as templates read it: `{"type": "function", "function": {"name": …, "parameters": …}}`.
    pub tools: Vec<Json>,
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages, tools: Vec::new() }
    }
}

impl From<Message> for Conversation {
    fn from(message: Message) -> Self {
        vec![message].into()
    }
}

/// One turn of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`, or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
    /// What is called with it, as templates read it: `{"id": …, "function": {"name": …, "arguments": {…}}}`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tool_calls: Vec<Json>,
    /// Of a tool's answer: which call it answers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_call_id: Option<String>,
    /// Of a tool's answer: the tool's name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
}

impl Message {
    /// Words that call nothing and answer no call.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), ..Self::default() }
    }

    /// A turn of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }
}

/// What a chat template is made of, not parsed yet: parsing computes what is constant in it, and may take any memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateSource {
    source: String,
    /// The special tokens that it may print, by name.
    special: Vec<(String, String)>,
}

impl TemplateSource {
    /// The template among the settings; `None` if there is none.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let named = [
            ("bos_token", &settings.bos_token),
            ("eos_token", &settings.eos_token),
            ("unk_token", &settings.unk_token),
            ("pad_token", &settings.pad_token),
        ];
        let present = |(name, token): (&'static str, &Option<SpecialToken>)| {
            Some((name.to_owned(), token.as_ref()?.text().to_owned()))
        };
        let special = named.into_iter().filter_map(present).collect();
        Some(Self { source: settings.template()?.to_owned(), special })
    }
}

/// A parsed chat template and the special tokens that it may print.
///
/// Its instructions are bounded, and the text that it makes. The memory of its values is not, and where a process has no
/// more, it ends: who renders templates of strangers does so in a process that may end.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    special: Value,
}

impl ChatTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// What is no template.
    pub fn parse(source: &TemplateSource) -> Result<Self> {
        let mut environment = environment().map_err(|fault| syntax_fault(&fault))?;
        let template = without_generation_marks(&source.source);
        let parsed = guarded(|| environment.add_template_owned(NAME, template).map_err(|fault| fault.to_string()));
        parsed.map_err(|fault| TextError::TemplateSyntax { fault: short(&fault) })?;
        let special = source.special.iter().map(|(name, token)| (name.as_str(), token.as_str()));
        Ok(Self { environment, special: Value::from_pairs(special) })
    }

    /// The prompt that asks for the assistant's answer. Templates that print the date print `now`, in UTC.
    ///
    /// # Errors
    /// A template that refuses the conversation, fails on it, makes too long a text of it, or tells nothing of its tools.
    pub fn render(&self, conversation: &Conversation, now: SystemTime) -> Result<String> {
        let Conversation { messages, tools } = conversation;
        if !tools.is_empty() && !self.tells_of_tools()? {
            return Err(TextError::NoTools);
        }
        let date = move |format: String| {
            let fault = || Error::new(ErrorKind::InvalidOperation, format!("unknown date format \"{format}\""));
            strftime(&format, now).ok_or_else(fault)
        };
        let context = context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => true,
            tools => Some(tools).filter(|tools| !tools.is_empty()).map(|tools| Value::from(Serde(tools))),
            documents => (),
            strftime_now => Value::from_function(date),
            ..self.special.clone()
        };
        let mut prompt = Bounded::default();
        let rendered = guarded(|| {
            let template = self.environment.get_template(NAME);
            Ok(template.and_then(|template| template.render_captured_to(context, &mut prompt).map(drop)))
        });
        let rendered = rendered.map_err(|fault| TextError::TemplateFailed { fault: short(&fault) })?;
        if prompt.over {
            return Err(TextError::LongPrompt { limit: PROMPT_BYTES_MAX });
        }
        rendered.map_err(|fault| render_fault(&fault))?;
        String::from_utf8(prompt.text).map_err(|fault| TextError::TemplateFailed { fault: fault.to_string() })
    }
}

impl ChatTemplate {
    /// Whether the template makes anything of tools.
    fn tells_of_tools(&self) -> Result<bool> {
        let template = self.environment.get_template(NAME).map_err(|fault| syntax_fault(&fault))?;
        let read = guarded(|| Ok(template.undeclared_variables(false)));
        Ok(read.map_err(|fault| TextError::TemplateFailed { fault: short(&fault) })?.contains("tools"))
    }
}

/// A text that takes no more than [`PROMPT_BYTES_MAX`].
#[derive(Default)]
struct Bounded {
    text: Vec<u8>,
    over: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > PROMPT_BYTES_MAX - self.text.len() {
            self.over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(FUEL_MAX));
    environment.set_unknown_method_callback(pycompat::unknown_method_callback);
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", to_json);
    Ok(environment)
}

/// `{% generation %}` marks the assistant's words for training, and prints nothing.
fn without_generation_marks(source: &str) -> String {
    let mut source = source.to_owned();
    for (open, close) in [("{%", "%}"), ("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}")] {
        for (mark, nothing) in [("generation", "if true"), ("endgeneration", "endif")] {
            source = source.replace(&format!("{open} {mark} {close}"), &format!("{open} {nothing} {close}"));
        }
    }
    source
}

/// A template's own refusal, told from its failures by its type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "the template raised an exception").with_source(Refusal(message)))
}

fn syntax_fault(fault: &Error) -> TextError {
    let fault = short(&fault.to_string());
    TextError::TemplateSyntax { fault }
}

fn render_fault(fault: &Error) -> TextError {
    match fault.source().and_then(|source| source.downcast_ref::<Refusal>()) {
        Some(Refusal(message)) => TextError::Refused { message: short(message) },
        None => TextError::TemplateFailed { fault: short(&fault.to_string()) },
    }
}

/// The beginning of what a template says, where it says a lot.
fn short(words: &str) -> String {
    match words.len() {
        ..=WORDS_BYTES_MAX => words.to_owned(),
        _ => format!("{}…", &words[..words.floor_char_boundary(WORDS_BYTES_MAX)]),
    }
}

/// JSON as Python's `json.dumps` writes it: not escaped for HTML, a space after `,` and `:`, optionally indented.
#[expect(clippy::needless_pass_by_value, reason = "the template engine passes options by value")]
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let mut json = Vec::new();
    let written = match indent {
        Some(width) => {
            let indent = " ".repeat(width.min(INDENT_MAX));
            let pretty = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut json, pretty))
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut json, OneLine)),
    };
    let fault = |fault: String| Error::new(ErrorKind::BadSerialization, fault);
    written.map_err(|cause| fault(cause.to_string()))?;
    String::from_utf8(json).map_err(|cause| fault(cause.to_string()))
}

/// `{"a": [1, 2], "b": null}`
struct OneLine;

impl serde_json::ser::Formatter for OneLine {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::json;

    use super::*;
    use crate::parts::Parts;

    fn parse(config: &str) -> Result<Option<ChatTemplate>> {
        let parts = Parts { tokenizer: Vec::new(), config: Some(config.as_bytes().to_vec()), chat_template: None };
        TemplateSource::of(&parts.settings()?).as_ref().map(ChatTemplate::parse).transpose()
    }

    fn template(source: &str) -> ChatTemplate {
        let config =
            serde_json::json!({ "chat_template": source, "bos_token": { "content": "<s>" }, "eos_token": "</s>" });
        parse(&config.to_string()).unwrap().unwrap()
    }

    /// Renders for the turns `user: hi`, `assistant: <b> "yo"`, `user: bye` on 2024-07-26.
    fn render(source: &str) -> Result<String> {
        let now = UNIX_EPOCH + Duration::from_secs(1_721_952_000);
        let said = vec![Message::user("hi"), Message::new("assistant", "<b> \"yo\""), Message::user("bye")];
        template(source).render(&said.into(), now)
    }

    /// Each expected text is what `apply_chat_template` of transformers 4.57 gives.
    #[test]
    fn templates_render_as_in_python() {
        let cases = [
            ("{{ bos_token }}{{ eos_token }}{{ pad_token }}", "<s></s>"),
            ("{% for m in messages %}\n  {% if loop.first %}\n{{ m.role }}\n  {% endif %}\n{% endfor %}\n", "user\n"),
            ("{{ messages[1] | tojson }}", r#"{"role": "assistant", "content": "<b> \"yo\""}"#),
            (
                "{{ {'a': [1, 2.5, none], 'é': {}} | tojson(indent=2) }}",
                "{\n  \"a\": [\n    1,\n    2.5,\n    null\n  ],\n  \"é\": {}\n}",
            ),
            ("{% for m in messages[::-1] %}{{ m['content'][0] }}{% endfor %}", "b<h"),
            (
                "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
                "3",
            ),
            ("{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "user"),
            ("{{ ' a</think>b '.split('</think>')[-1].strip() + 'x'.upper() }}", "bX"),
            ("{{ messages[0].content.startswith('h') and 'role' in messages[0] }}", "True"),
            ("{{ tools is defined }} {{ tools is none }} {{ other is defined }}", "True True False"),
            ("{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"),
            ("{%- generation %}{{ messages[1].content }}{% endgeneration -%}  !", "<b> \"yo\"!"),
            ("{% if add_generation_prompt %}go{% endif %}", "go"),
        ];
        for (source, expected) in cases {
            assert_eq!(render(source).unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn tools_calls_and_their_answers_are_told_as_templates_read_them() {
        let source = "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{% for call in \
            m.tool_calls %}[{{ call.id }} {{ call.function.name }} {{ call.function.arguments | tojson }}]{% endfor %}{% if \
            m.role == 'tool' %}{{ m.tool_call_id }} {{ m.name }}: {{ m.content }}{% endif %}{% endfor %}";
        let call = json!({"id": "1", "function": {"name": "f", "arguments": {"b": 1, "a": "é"}}});
        let asked = Message { tool_calls: vec![call], ..Message::new("assistant", "") };
        let (id, name) = (Some("1".to_owned()), Some("f".to_owned()));
        let answer = Message { tool_call_id: id, name, ..Message::new("tool", "7") };
        let tools = vec![json!({"type": "function", "function": {"name": "f"}})];
        let conversation = Conversation { messages: vec![Message::user("hi"), asked, answer], tools };
        assert_eq!(
            template(source).render(&conversation, UNIX_EPOCH).unwrap(),
            r#"{"type": "function", "function": {"name": "f"}}[1 f {"b": 1, "a": "é"}]1 f: 7"#
        );
        // One that does not look at them would keep them from the target in silence.
        let silent = template("{{ messages[0].content }}").render(&conversation, UNIX_EPOCH);
        assert!(matches!(silent, Err(TextError::NoTools)));
    }

    #[test]
    fn a_refusal_is_told_in_the_template_s_own_words() {
        let fault = render("{{ raise_exception('Roles must alternate') }}").unwrap_err();
        assert_eq!(fault.to_string(), "the chat template refuses the messages: Roles must alternate");
    }

    #[test]
    fn what_a_template_says_is_cut_and_its_text_bounded() {
        let long = "{% for i in range(3000) %}{{ '0123456789abcdef' * 256 }}{% endfor %}";
        let fault = render(long).unwrap_err().to_string();
        assert_eq!(fault, "the chat template made a prompt of more than 8388608 bytes");
        assert_eq!(render(&long.replace("3000", "2000")).unwrap().len(), 2000 << 12);
        for source in ["{{ raise_exception('é' * 100000) }}", "{{ strftime_now('%é' * 100000) }}"] {
            let fault = render(source).unwrap_err().to_string();
            assert!(fault.len() < 1200 && fault.ends_with('…'), "{fault}");
        }
    }

    #[test]
    fn nothing_can_be_turned_round() {
        let rendered = template("{% for m in messages[::-1] %}{{ m.role }}{% endfor %}.")
            .render(&Conversation::default(), UNIX_EPOCH);
        assert_eq!(rendered.unwrap(), ".");
    }

    #[test]
    fn a_failure_is_an_error() {
        for source in ["{{ messages[7].content }}", "{{ nothing() }}", "{{ strftime_now('%!') }}"] {
            assert!(matches!(render(source), Err(TextError::TemplateFailed { .. })), "{source}");
        }
    }

    #[test]
    fn an_endless_template_is_stopped() {
        let source = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
        assert!(matches!(render(source), Err(TextError::TemplateFailed { .. })));
    }

    #[test]
    fn of_several_templates_the_default_is_taken() {
        let named = r#"{"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]}"#;
        let only_other = r#"{"chat_template": [{"name": "rag", "template": "r"}]}"#;
        let rendered = parse(named).unwrap().unwrap().render(&Conversation::default(), UNIX_EPOCH).unwrap();
        assert_eq!(rendered, "d");
        assert!(parse(only_other).unwrap().is_none());
        assert!(parse("{}").unwrap().is_none());
    }
}
