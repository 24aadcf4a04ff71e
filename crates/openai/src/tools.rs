//! What a chat may call, and what was called before.

use espalier_proto::{Conversation, pb};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::RequestError;
use crate::fields::Fields;

/// What may be had of `tool_choice`.
const CHOICES: &str = "`none`, `auto`, `required` or a function's name";

/// A choice as the API has it: a word, or an object that names a function.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a word or an object was expected")]
enum Choice {
    Word(String),
    Named(Map<String, Value>),
}

/// Puts what may be called into a conversation. Tools that must not be called are left out.
pub(crate) fn take(fields: &mut Fields, conversation: &mut pb::Conversation) -> Result<(), RequestError> {
    let tools: Vec<Map<String, Value>> = fields.take("tools")?.unwrap_or_default();
    let choice: Option<Choice> = fields.take("tool_choice")?;
    if tools.is_empty() {
        return take_nothing(fields, choice);
    }
    let named = |i: usize| format!("{}[{i}]", fields.named("tools"));
    let tools = tools.into_iter().enumerate();
    let tools = tools.map(|(i, tool)| read_tool(Fields::of(tool, &named(i)))).collect::<Result<_, _>>()?;
    let single = !fields.take("parallel_tool_calls")?.unwrap_or(true);
    let Some(choice) = read_choice(fields, choice)? else { return Ok(()) };
    let tool_choice = Some(pb::ToolChoice { choice: choice.0, single });
    let toolbox = pb::Conversation { messages: Vec::new(), tools, tool_choice };
    // Names and their number are the protocol's to judge; here it is known where they stand.
    let fault = |source| RequestError::Wire { field: fields.named("tools"), source };
    Conversation::try_from(toolbox.clone()).map_err(fault)?;
    *conversation = pb::Conversation { messages: std::mem::take(&mut conversation.messages), ..toolbox };
    Ok(())
}

/// Takes what goes with tools where there are none.
fn take_nothing(fields: &mut Fields, choice: Option<Choice>) -> Result<(), RequestError> {
    fields.only("parallel_tool_calls", "true")?;
    match choice {
        None => Ok(()),
        Some(Choice::Word(word)) if word == "none" => Ok(()),
        Some(_) => Err(unsupported(fields, "tool_choice", "given without `tools`", "`none`")),
    }
}

/// What must be called, if anything, of tools that may be.
struct Wanted(Option<pb::tool_choice::Choice>);

/// What must be called; nothing if nothing may be.
fn read_choice(fields: &Fields, choice: Option<Choice>) -> Result<Option<Wanted>, RequestError> {
    use pb::tool_choice::Choice::{Name, Required};
    Ok(match choice {
        None => Some(Wanted(None)),
        Some(Choice::Word(word)) => match word.as_str() {
            "none" => None,
            "auto" => Some(Wanted(None)),
            "required" => Some(Wanted(Some(Required(true)))),
            _ => return Err(unsupported(fields, "tool_choice", &format!("`{word}`"), CHOICES)),
        },
        Some(Choice::Named(named)) => Some(Wanted(Some(Name(read_name(fields, named)?)))),
    })
}

/// The function that must be called.
fn read_name(fields: &Fields, named: Map<String, Value>) -> Result<String, RequestError> {
    let mut named = Fields::of(named, &fields.named("tool_choice"));
    named.need_only("type", "\"function\"")?;
    let mut function = named.need_within("function")?;
    let name = function.need("name")?;
    function.end()?;
    named.end()?;
    Ok(name)
}

fn unsupported(fields: &Fields, name: &str, found: &str, supported: &'static str) -> RequestError {
    RequestError::Unsupported { field: fields.named(name), found: found.to_owned(), supported }
}

/// Reads a tool. Its schema is always kept to, strict or not.
fn read_tool(mut tool: Fields) -> Result<pb::Tool, RequestError> {
    tool.need_only("type", "\"function\"")?;
    let mut function = tool.need_within("function")?;
    let name = function.need("name")?;
    let description: Option<String> = function.take("description")?;
    let parameters: Option<Map<String, Value>> = function.take("parameters")?;
    let _: Option<bool> = function.take("strict")?;
    function.end()?;
    tool.end()?;
    let parameters = parameters.map(|parameters| Value::Object(parameters).to_string()).unwrap_or_default();
    Ok(pb::Tool { name, description: description.unwrap_or_default(), parameters })
}

/// Takes what a message called.
pub(crate) fn take_calls(message: &mut Fields) -> Result<Vec<pb::ToolCall>, RequestError> {
    let calls: Vec<Map<String, Value>> = message.take("tool_calls")?.unwrap_or_default();
    let named = |i: usize| format!("{}[{i}]", message.named("tool_calls"));
    calls.into_iter().enumerate().map(|(i, call)| read_call(Fields::of(call, &named(i)))).collect()
}

fn read_call(mut call: Fields) -> Result<pb::ToolCall, RequestError> {
    let id = call.need("id")?;
    call.need_only("type", "\"function\"")?;
    let mut function = call.need_within("function")?;
    let (name, arguments): (_, String) = (function.need("name")?, function.need("arguments")?);
    let object: Result<Map<String, Value>, _> = serde_json::from_str(&arguments);
    object.map_err(|source| RequestError::Kind { field: function.named("arguments"), source })?;
    function.end()?;
    call.end()?;
    Ok(pb::ToolCall { id, name, arguments })
}
