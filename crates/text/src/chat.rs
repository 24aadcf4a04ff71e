//! Chat templates: Jinja as Hugging Face's tokenizers run it.

use std::error::Error as _;
use std::time::SystemTime;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, context, syntax::SyntaxConfig};
use minijinja_contrib::pycompat;
use serde::Serialize;

use crate::clock::strftime;
use crate::error::{Result, TextError};
use crate::parts::{Settings, SpecialToken};

const NAME: &str = "chat_template";
/// Instructions of the template engine before a template is stopped.
const FUEL_MAX: u64 = 20_000_000;
const INDENT_MAX: usize = 16;

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A turn of the user.
    pub fn user(content: impl Into<String>) -> Self {
        let (role, content) = ("user".to_owned(), content.into());
        Self { role, content }
    }

    fn value(&self) -> Value {
        Value::from_pairs([("role", self.role.as_str()), ("content", self.content.as_str())])
    }
}

/// A parsed chat template and the special tokens that it may print.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    special: Value,
}

impl ChatTemplate {
    /// Parses the template among the settings; `None` if there is none.
    pub(crate) fn parse(settings: &Settings) -> Result<Option<Self>> {
        let Some(source) = settings.template() else {
            return Ok(None);
        };
        let mut environment = environment().map_err(|fault| syntax_fault(&fault))?;
        let source = without_generation_marks(source);
        environment.add_template_owned(NAME, source).map_err(|fault| syntax_fault(&fault))?;
        let special = special_tokens(settings);
        Ok(Some(Self { environment, special }))
    }

    /// The prompt that asks for the assistant's answer to `messages`. Templates that print the date print `now`, in UTC.
    pub(crate) fn render(&self, messages: &[Message], now: SystemTime) -> Result<String> {
        let date = move |format: String| {
            let fault = || Error::new(ErrorKind::InvalidOperation, format!("unknown date format \"{format}\""));
            strftime(&format, now).ok_or_else(fault)
        };
        let context = context! {
            messages => messages.iter().map(Message::value).collect::<Value>(),
            add_generation_prompt => true,
            tools => (),
            documents => (),
            strftime_now => Value::from_function(date),
            ..self.special.clone()
        };
        let template = self.environment.get_template(NAME);
        template.and_then(|template| template.render(context)).map_err(|fault| render_fault(&fault))
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

fn special_tokens(settings: &Settings) -> Value {
    let named = [
        ("bos_token", &settings.bos_token),
        ("eos_token", &settings.eos_token),
        ("unk_token", &settings.unk_token),
        ("pad_token", &settings.pad_token),
    ];
    let present = |(name, token): (&'static str, &Option<SpecialToken>)| Some((name, token.as_ref()?.text().to_owned()));
    Value::from_pairs(named.into_iter().filter_map(present))
}

/// A template's own refusal, told from its failures by its type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "the template raised an exception").with_source(Refusal(message)))
}

fn syntax_fault(fault: &Error) -> TextError {
    let fault = fault.to_string();
    TextError::TemplateSyntax { fault }
}

fn render_fault(fault: &Error) -> TextError {
    match fault.source().and_then(|source| source.downcast_ref::<Refusal>()) {
        Some(Refusal(message)) => TextError::Refused { message: message.clone() },
        None => TextError::TemplateFailed { fault: fault.to_string() },
    }
}

/// JSON as Python's `json.dumps` writes it: not escaped for HTML, a space after `,` and `:`, optionally indented.
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
    fn begin_array_value<W: std::io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: std::io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: std::io::Write + ?Sized>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}
