//! Tools over HTTP and gRPC: what is called is one of the tools, with arguments of its schema, whoever drafts.

use espalier_proto::{Conversation, GenerationRequest, Message, Prompt, Tool, ToolChoice, Tools};
use espalier_tests::{answer, request, sampling};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::http::{QUESTION, chat, post, started};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"pets": {"type": "integer", "minimum": 0, "maximum": 99}, "kind": {"enum": ["dogs", "cats"]}},
        "required": ["pets", "kind"], "additionalProperties": false,
    })
}

fn function(name: &str, parameters: &Value) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "of pets", "parameters": parameters}})
}

fn tools() -> Value {
    json!([function("count", &parameters()), function("list", &json!({"type": "object", "properties": {}}))])
}

/// A chat that must call a tool, as many times as fit.
fn calling(more: &Value) -> Value {
    let named = json!({"type": "function", "function": {"name": "count"}});
    let mut body = chat(&json!({
        "tools": tools(), "tool_choice": named, "parallel_tool_calls": false, "max_tokens": 64, "temperature": 0.8, "seed": 7,
    }));
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn what_must_be_called_is_called_with_arguments_of_its_schema_whole_and_piece_by_piece() {
    let (system, gateway, client) = started().await;
    let whole = post(gateway, "/v1/chat/completions", &calling(&json!({}))).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null),
        "{whole}"
    );
    let [call] = &choice["message"]["tool_calls"].as_array().unwrap()[..] else { panic!("{whole}") };
    assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("count")));
    let arguments = call["function"]["arguments"].as_str().unwrap();
    let told: Value = serde_json::from_str(arguments).unwrap();
    assert!(told["pets"].as_u64().unwrap() < 100 && ["dogs", "cats"].contains(&told["kind"].as_str().unwrap()));

    // No other bytes without drafts, piece by piece, and over gRPC, where calls stand in the text.
    let plain =
        post(gateway, "/v1/chat/completions", &calling(&json!({"espalier": {"speculate": false}}))).await.json();
    assert_eq!(plain["choices"][0]["message"]["tool_calls"][0]["function"], call["function"]);
    let events = post(gateway, "/v1/chat/completions", &calling(&json!({"stream": true}))).await.events();
    let deltas = events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array()).flatten();
    let pieces: String = deltas.clone().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!((pieces.as_str(), deltas.filter(|call| call["id"].is_string()).count()), (arguments, 1));
    let last = events.iter().rev().find_map(|event| event["choices"][0]["finish_reason"].as_str());
    assert_eq!(last, Some("tool_calls"));

    let heard = answer(&client, over_grpc()).await;
    assert!(heard.text().contains(&format!("\"arguments\": {arguments}")), "{}", heard.text());
    system.stop().await.unwrap();
}

/// The same over gRPC.
fn over_grpc() -> GenerationRequest {
    let tool = |tool: &Value| Tool {
        name: tool["function"]["name"].as_str().unwrap().to_owned(),
        description: "of pets".to_owned(),
        parameters: tool["function"]["parameters"].as_object().unwrap().clone(),
    };
    let all = tools().as_array().unwrap().iter().map(tool).collect();
    let tools = Tools::new(all, ToolChoice::Named("count".to_owned()), true).unwrap();
    let conversation = Conversation { messages: vec![Message::new("user", QUESTION)], tools: Some(tools) };
    GenerationRequest { prompt: Prompt::Conversation(conversation), ..request("medium", &[], 64, sampling(0.8, 7)) }
}

#[tokio::test]
async fn what_was_called_and_answered_is_told_to_the_target() {
    let (system, gateway, _) = started().await;
    let call =
        json!({"id": "call00001", "type": "function", "function": {"name": "count", "arguments": "{\"pets\": 5}"}});
    let messages = json!([
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "content": "five of them"},
    ]);
    let body = json!({"model": "medium", "messages": messages, "tools": tools()});
    let told = post(gateway, "/v1/tokenize", &body).await.json();
    let text: String = told["token_strs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for part in ["\"name\": \"list\"", "{\"name\": \"count\", \"arguments\": {\"pets\": 5}}", "five of them"] {
        assert!(text.contains(part), "{text}");
    }
    // Whoever may call may say words instead; a target this small does.
    let mut body = body;
    body.as_object_mut().unwrap().extend(json!({"max_tokens": 24, "temperature": 0}).as_object().unwrap().clone());
    let answered = post(gateway, "/v1/chat/completions", &body).await;
    assert_eq!(answered.json()["usage"]["prompt_tokens"], told["count"]);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn tools_that_cannot_be_had_are_refused_by_their_name() {
    let (system, gateway, _) = started().await;
    let odd = json!([function("count", &json!({"type": "objekt"}))]);
    for (more, field, told) in [
        (json!({"tools": odd}), "tools", "grammar cannot be used"),
        (json!({"espalier": {"regex": "a"}}), "espalier.regex", "given beside `tools`"),
    ] {
        let refused = post(gateway, "/v1/chat/completions", &calling(&more)).await;
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["param"]), (StatusCode::BAD_REQUEST, &json!(field)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(told), "{error}");
    }
    system.stop().await.unwrap();
}
