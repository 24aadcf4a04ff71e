//! Requests whose answers may call tools.

use std::collections::HashMap;

use espalier_constraint::constraint_of_calls;
use espalier_proto::{CallForm, Conversation, GenerationRequest, Message, Prompt, Tool, ToolCall, WireError};
use espalier_speculation::Constraint;
use espalier_text::{Conversation as Told, Message as Turn};
use serde_json::{Value, json};

use crate::call_form;
use crate::error::RequestError;
use crate::peers::TargetInfo;
use crate::renderer::Renderer;

/// How an answer calls tools, and what it is held to for that.
#[derive(Debug, Clone)]
pub(crate) struct Calling {
    pub(crate) form: CallForm,
    pub(crate) constraint: Constraint,
}

impl Calling {
    /// That of a request, if it has tools. May block for a while the first time that a target's form is needed.
    pub(crate) fn of(
        request: &GenerationRequest,
        target: &TargetInfo,
        renderer: &Renderer,
    ) -> Result<Option<Self>, RequestError> {
        let Prompt::Conversation(Conversation { tools: Some(tools), .. }) = &request.prompt else { return Ok(None) };
        if let Some(constraint) = &request.constraint {
            return Err(RequestError::ToolsAndConstraint { kind: constraint.kind() });
        }
        let form = match target.call_form.get() {
            Some(form) => form,
            None => {
                let found = call_form::find(&target.tokenizer, |said| renderer.render(&target.tokenizer, said))?;
                target.call_form.get_or_init(|| found)
            }
        };
        let constraint = constraint_of_calls(form, tools).map_err(WireError::from)?;
        Ok(Some(Self { form: form.clone(), constraint }))
    }
}

/// A conversation as templates read it.
pub(crate) fn told(conversation: Conversation) -> Told {
    let Conversation { messages, tools } = conversation;
    let calls = messages.iter().flat_map(|message| &message.calls);
    let names: HashMap<String, String> = calls.map(|call| (call.id.clone(), call.name.clone())).collect();
    let turn = |Message { role, content, calls, answers }| Turn {
        role,
        content,
        tool_calls: calls.into_iter().map(told_call).collect(),
        name: answers.as_ref().and_then(|id| names.get(id).cloned()),
        tool_call_id: answers,
    };
    let tools = tools.iter().flat_map(|tools| tools.all()).map(told_tool).collect();
    Told { messages: messages.into_iter().map(turn).collect(), tools }
}

fn told_tool(Tool { name, description, parameters }: &Tool) -> Value {
    let parameters = match parameters.is_empty() {
        true => json!({"type": "object", "properties": {}}),
        false => Value::Object(parameters.clone()),
    };
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

fn told_call(ToolCall { id, name, arguments }: ToolCall) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// Bytes of the texts of a conversation.
pub(crate) fn bytes_of(conversation: &Conversation) -> usize {
    let of_call = |call: &ToolCall| call.name.len() + Value::Object(call.arguments.clone()).to_string().len();
    let of_message = |said: &Message| said.content.len() + said.calls.iter().map(of_call).sum::<usize>();
    let of_tool = |tool: &Tool| told_tool(tool).to_string().len();
    let tools = conversation.tools.iter().flat_map(|tools| tools.all());
    conversation.messages.iter().map(of_message).sum::<usize>() + tools.map(of_tool).sum::<usize>()
}
