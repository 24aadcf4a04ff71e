//! What a chat says: words and calls.

use std::borrow::Cow;

use espalier_proto::CallForm;
use serde::Serialize;

use crate::calls::{CallId, CallReader, Said};
use crate::logprobs::ChatLogprobs;

/// One of the answers, or a piece of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ChatChoice<'a> {
    pub(crate) index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delta: Option<Delta>,
    pub(crate) logprobs: Option<ChatLogprobs>,
    pub(crate) finish_reason: Option<&'static str>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Message<'a> {
    role: &'static str,
    /// Null where there are calls and no words.
    content: Option<Cow<'a, str>>,
    /// Nothing is ever refused so.
    refusal: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called>,
}

/// A piece of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called>,
}

/// A call, or in a stream what is new of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Called {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    function: Function,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Function {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    arguments: String,
}

impl Called {
    /// One that begins.
    fn new(name: String, id: CallId) -> Self {
        let function = Function { name: Some(name), arguments: String::new() };
        Self { index: None, id: Some(id.to_string()), r#type: Some("function"), function }
    }
}

impl<'a> Message<'a> {
    /// An answer of words alone, or of calls in this form, too.
    pub(crate) fn new(text: &'a str, form: Option<&CallForm>, id: impl Fn(usize) -> CallId) -> Self {
        let Some(form) = form else {
            return Self { role: "assistant", content: Some(text.into()), refusal: None, tool_calls: Vec::new() };
        };
        let whole = Telling::nothing(Some(form.clone())).delta(text.to_owned(), true, id);
        let mut tool_calls = Vec::<Called>::new();
        for new in whole.tool_calls {
            match tool_calls.last_mut().filter(|_| new.id.is_none()) {
                Some(call) => call.function.arguments.push_str(&new.function.arguments),
                None => tool_calls.push(Called { index: None, ..new }),
            }
        }
        let content = whole.content.or_else(|| tool_calls.is_empty().then(String::new)).map(Cow::from);
        Self { role: "assistant", content, refusal: None, tool_calls }
    }

    /// Whether anything is called.
    pub(crate) fn calls(&self) -> bool {
        !self.tool_calls.is_empty()
    }
}

impl Delta {
    /// The first, which says who speaks.
    pub(crate) fn beginning() -> Self {
        Self { role: Some("assistant"), content: Some(String::new()), tool_calls: Vec::new() }
    }
}

/// How far a stream has told one of its answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Telling {
    /// Characters of the text.
    pub(crate) characters: usize,
    /// Reads calls, where there may be any.
    reader: Option<CallReader>,
    /// Calls that have begun.
    calls: usize,
}

impl Telling {
    /// Nothing was told yet of an answer that may hold calls in this form.
    pub fn nothing(form: Option<CallForm>) -> Self {
        Self { reader: form.map(CallReader::new), ..Self::default() }
    }

    /// What is told with these words of it, the last ones or others.
    pub(crate) fn delta(&mut self, text: String, last: bool, id: impl Fn(usize) -> CallId) -> Delta {
        let Some(reader) = &mut self.reader else {
            return Delta { content: Some(text).filter(|text| !text.is_empty()), ..Delta::default() };
        };
        let mut said = reader.push(&text);
        if last {
            said.extend(reader.finish());
        }
        let mut delta = Delta::default();
        for said in said {
            match said {
                Said::Words(words) => delta.content.get_or_insert_default().push_str(&words),
                Said::Call(name) => delta.tool_calls.push(self.call(name, &id)),
                Said::Arguments(arguments) => delta.tool_calls.push(self.arguments(arguments)),
            }
        }
        delta
    }

    /// A call that begins.
    fn call(&mut self, name: String, id: impl Fn(usize) -> CallId) -> Called {
        let index = self.calls;
        self.calls += 1;
        Called { index: Some(index), ..Called::new(name, id(index)) }
    }

    /// More of the arguments of the last one.
    fn arguments(&self, arguments: String) -> Called {
        let function = Function { name: None, arguments };
        Called { index: self.calls.checked_sub(1), id: None, r#type: None, function }
    }

    /// Whether anything was called.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }
}
