//! Conversations, with the tools that a target may call.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::common::{check_length, check_text};
use crate::error::WireError;
use crate::pb;

/// Tools that a target may call, and calls of one message.
pub const TOOLS_MAX: usize = 128;

/// Bytes of the longest name of a tool, and of what tells a call apart.
pub(crate) const TOOL_NAME_BYTES_MAX: usize = 64;

/// What was said so far, and what may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// In the order in which they were said.
    pub messages: Vec<Message>,
    /// What the answer may call, if anything.
    pub tools: Option<Tools>,
}

impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages, tools: None }
    }
}

/// What one party said in a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or whatever else the template knows.
    pub role: String,
    /// What was said.
    pub content: String,
    /// What was called with it.
    pub calls: Vec<ToolCall>,
    /// The `id` of the call that it answers, if it does.
    pub answers: Option<String>,
}

impl Message {
    /// Words that call nothing and answer no call.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), ..Self::default() }
    }
}

/// A function of the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// 1 to 64 letters, digits, `-` and `_`.
    pub name: String,
    /// What it does, in words for the target.
    pub description: String,
    /// The JSON schema of the object of its arguments.
    pub parameters: Map<String, Value>,
}

/// What must be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// What the target likes, if anything.
    Auto,
    /// Something.
    Required,
    /// The tool of this name.
    Named(String),
}

/// The tools of a conversation: at least one, each by a name of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    tools: Vec<Tool>,
    choice: ToolChoice,
    single: bool,
}

impl Tools {
    /// Tools of which `choice` says what must be called, and `single` that no more than one may.
    ///
    /// # Errors
    /// No tools or too many, a name that is none or that two have, or one to be called that is none of theirs.
    pub fn new(tools: Vec<Tool>, choice: ToolChoice, single: bool) -> Result<Self, WireError> {
        if tools.is_empty() {
            return Err(WireError::Empty { field: "tools" });
        }
        check_length("tools", tools.len(), TOOLS_MAX)?;
        let mut names = HashSet::new();
        for tool in &tools {
            check_name("tools.name", &tool.name)?;
            if !names.insert(tool.name.as_str()) {
                return Err(WireError::Twice { field: "tools.name", value: tool.name.clone() });
            }
        }
        match &choice {
            ToolChoice::Named(name) if !names.contains(name.as_str()) => {
                Err(WireError::NoTool { field: "tool_choice.name", value: name.clone() })
            }
            _ => Ok(Self { tools, choice, single }),
        }
    }

    /// All of them, in the order in which the target is told of them.
    pub fn all(&self) -> &[Tool] {
        &self.tools
    }

    /// Those that may be called.
    pub fn callable(&self) -> impl Iterator<Item = &Tool> {
        let only = match &self.choice {
            ToolChoice::Named(name) => Some(name),
            ToolChoice::Auto | ToolChoice::Required => None,
        };
        self.tools.iter().filter(move |tool| only.is_none_or(|only| *only == tool.name))
    }

    /// Whether the answer may be words alone.
    pub fn may_be_left(&self) -> bool {
        self.choice == ToolChoice::Auto
    }

    /// Whether no more than one may be called.
    pub fn is_single(&self) -> bool {
        self.single
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Tells the calls of a conversation apart.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments by their names.
    pub arguments: Map<String, Value>,
}

/// How a target writes calls into its text: `open`, a name, `middle`, the arguments as JSON, and `close`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallForm {
    /// What is before the name of the first.
    pub open: String,
    /// What is between a name and its arguments.
    pub middle: String,
    /// What is between the arguments of a call and the name of the next one; none if there is no next one.
    pub between: Option<String>,
    /// What is behind the arguments of the last.
    pub close: String,
}

impl CallForm {
    /// What tells calls from words: words do not hold it. It is what `open` begins with before the brackets of JSON. A form
    /// without one has calls at the beginning of an answer alone, and words do not begin as calls do.
    pub fn mark(&self) -> Option<&str> {
        let bracket = self.open.find(['{', '[']).unwrap_or(self.open.len());
        Some(self.open[..bracket].trim_end()).filter(|mark| !mark.is_empty())
    }
}

/// A name of 1 to 64 letters, digits, `-` and `_`.
fn check_name(field: &'static str, name: &str) -> Result<(), WireError> {
    check_text(field, name, TOOL_NAME_BYTES_MAX)?;
    match name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        true => Ok(()),
        false => Err(WireError::Name { field, value: name.to_owned() }),
    }
}

/// An object written as JSON; nothing stands for an empty one.
fn read_object(field: &'static str, text: &str) -> Result<Map<String, Value>, WireError> {
    match text {
        "" => Ok(Map::new()),
        text => serde_json::from_str(text).map_err(|fault| WireError::NoObject { field, fault: fault.to_string() }),
    }
}

fn write_object(object: Map<String, Value>) -> String {
    if object.is_empty() { String::new() } else { Value::Object(object).to_string() }
}

impl TryFrom<pb::Conversation> for Conversation {
    type Error = WireError;

    fn try_from(wire: pb::Conversation) -> Result<Self, WireError> {
        let messages = wire.messages.into_iter().map(Message::try_from).collect::<Result<_, _>>()?;
        Ok(Self { messages, tools: read_tools(wire.tools, wire.tool_choice)? })
    }
}

impl From<Conversation> for pb::Conversation {
    fn from(conversation: Conversation) -> Self {
        let messages = conversation.messages.into_iter().map(Into::into).collect();
        let Some(Tools { tools, choice, single }) = conversation.tools else {
            return Self { messages, ..Self::default() };
        };
        Self { messages, tools: tools.into_iter().map(Into::into).collect(), tool_choice: write_choice(choice, single) }
    }
}

fn read_tools(tools: Vec<pb::Tool>, choice: Option<pb::ToolChoice>) -> Result<Option<Tools>, WireError> {
    if tools.is_empty() && choice.is_none() {
        return Ok(None);
    }
    // Before any of them is read.
    check_length("tools", tools.len(), TOOLS_MAX)?;
    let tools = tools.into_iter().map(Tool::try_from).collect::<Result<_, _>>()?;
    let (choice, single) = read_choice(choice.unwrap_or_default());
    Tools::new(tools, choice, single).map(Some)
}

fn read_choice(wire: pb::ToolChoice) -> (ToolChoice, bool) {
    use pb::tool_choice::Choice;
    let choice = match wire.choice {
        None | Some(Choice::Required(false)) => ToolChoice::Auto,
        Some(Choice::Required(true)) => ToolChoice::Required,
        Some(Choice::Name(name)) => ToolChoice::Named(name),
    };
    (choice, wire.single)
}

fn write_choice(choice: ToolChoice, single: bool) -> Option<pb::ToolChoice> {
    use pb::tool_choice::Choice;
    let choice = match choice {
        ToolChoice::Auto if !single => return None,
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(Choice::Required(true)),
        ToolChoice::Named(name) => Some(Choice::Name(name)),
    };
    Some(pb::ToolChoice { choice, single })
}

impl TryFrom<pb::ChatMessage> for Message {
    type Error = WireError;

    fn try_from(wire: pb::ChatMessage) -> Result<Self, WireError> {
        check_length("tool_calls", wire.tool_calls.len(), TOOLS_MAX)?;
        check_length("tool_call_id", wire.tool_call_id.len(), TOOL_NAME_BYTES_MAX)?;
        let calls = wire.tool_calls.into_iter().map(ToolCall::try_from).collect::<Result<_, _>>()?;
        let answers = Some(wire.tool_call_id).filter(|id| !id.is_empty());
        Ok(Self { role: wire.role, content: wire.content, calls, answers })
    }
}

impl From<Message> for pb::ChatMessage {
    fn from(message: Message) -> Self {
        Self {
            role: message.role,
            content: message.content,
            tool_calls: message.calls.into_iter().map(Into::into).collect(),
            tool_call_id: message.answers.unwrap_or_default(),
        }
    }
}

impl TryFrom<pb::Tool> for Tool {
    type Error = WireError;

    fn try_from(wire: pb::Tool) -> Result<Self, WireError> {
        let parameters = read_object("tools.parameters", &wire.parameters)?;
        Ok(Self { name: wire.name, description: wire.description, parameters })
    }
}

impl From<Tool> for pb::Tool {
    fn from(tool: Tool) -> Self {
        Self { name: tool.name, description: tool.description, parameters: write_object(tool.parameters) }
    }
}

impl TryFrom<pb::ToolCall> for ToolCall {
    type Error = WireError;

    fn try_from(wire: pb::ToolCall) -> Result<Self, WireError> {
        check_name("tool_calls.name", &wire.name)?;
        check_length("tool_calls.id", wire.id.len(), TOOL_NAME_BYTES_MAX)?;
        let arguments = read_object("tool_calls.arguments", &wire.arguments)?;
        Ok(Self { id: wire.id, name: wire.name, arguments })
    }
}

impl From<ToolCall> for pb::ToolCall {
    fn from(call: ToolCall) -> Self {
        Self { id: call.id, name: call.name, arguments: write_object(call.arguments) }
    }
}

impl From<CallForm> for pb::CallForm {
    fn from(form: CallForm) -> Self {
        let CallForm { open, middle, between, close } = form;
        Self { open, middle, between, close }
    }
}

impl From<pb::CallForm> for CallForm {
    fn from(wire: pb::CallForm) -> Self {
        let pb::CallForm { open, middle, between, close } = wire;
        Self { open, middle, between, close }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn tool(name: &str) -> Tool {
        let parameters = object(&json!({"type": "object", "properties": {"b": {}, "a": {}}}));
        Tool { name: name.to_owned(), description: "does it".to_owned(), parameters }
    }

    #[test]
    fn a_conversation_with_tools_survives_the_wire() {
        let call =
            ToolCall { id: "1".to_owned(), name: "f".to_owned(), arguments: object(&json!({"b": 1, "a": "é"})) };
        let messages = vec![
            Message::new("user", "2 + 2?"),
            Message { calls: vec![call], ..Message::new("assistant", "") },
            Message { answers: Some("1".to_owned()), ..Message::new("tool", "4") },
        ];
        for choice in [ToolChoice::Auto, ToolChoice::Required, ToolChoice::Named("g".to_owned())] {
            for single in [false, true] {
                let tools = Tools::new(vec![tool("f"), tool("g")], choice.clone(), single).unwrap();
                let conversation = Conversation { messages: messages.clone(), tools: Some(tools) };
                let wire = pb::Conversation::from(conversation.clone());
                assert_eq!(Conversation::try_from(wire), Ok(conversation));
            }
        }
        let without = Conversation { messages, tools: None };
        assert_eq!(Conversation::try_from(pb::Conversation::from(without.clone())), Ok(without));
    }

    #[test]
    fn the_tool_that_must_be_called_is_the_only_one_that_may() {
        let names = |choice| {
            let tools = Tools::new(vec![tool("f"), tool("g")], choice, false).unwrap();
            (tools.callable().map(|tool| tool.name.clone()).collect::<Vec<_>>(), tools.may_be_left())
        };
        assert_eq!(names(ToolChoice::Auto), (vec!["f".to_owned(), "g".to_owned()], true));
        assert_eq!(names(ToolChoice::Required), (vec!["f".to_owned(), "g".to_owned()], false));
        assert_eq!(names(ToolChoice::Named("g".to_owned())), (vec!["g".to_owned()], false));
    }

    #[test]
    fn tools_that_cannot_be_are_refused() {
        let wire = |name: &str, parameters: &str| pb::Tool {
            name: name.to_owned(),
            description: String::new(),
            parameters: parameters.to_owned(),
        };
        let fault = |tools: Vec<pb::Tool>, choice: Option<pb::ToolChoice>| {
            let wire = pb::Conversation { messages: vec![], tools, tool_choice: choice };
            Conversation::try_from(wire).unwrap_err().to_string()
        };
        let named = pb::ToolChoice { choice: Some(pb::tool_choice::Choice::Name("g".to_owned())), single: false };
        assert_eq!(fault(vec![wire("f", ""); 2], None), "tools.name `f` is there twice");
        assert_eq!(fault(vec![wire("f", ""); 129], None), "tools is 129, beyond the limit of 128");
        assert_eq!(fault(vec![wire("f", "")], Some(named.clone())), "tool_choice.name `g` is none of the tools");
        assert_eq!(fault(vec![], Some(named)), "tools is empty");
        assert_eq!(
            fault(vec![wire("a b", "")], None),
            "tools.name `a b` is not made of letters, digits, `-` and `_` alone"
        );
        assert!(fault(vec![wire("f", "[1]")], None).starts_with("tools.parameters is no JSON object: invalid type"));
    }
}
