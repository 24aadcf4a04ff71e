//! Answers that may call tools.

use espalier_constraint::constraint_of_calls;
use espalier_proto::{CallForm, Tool, ToolChoice, Tools};
use espalier_speculation::{Constraint, Restriction, Token};
use serde_json::{Value, json};

use crate::support::{CONSTRAINTS, END, allowed, decode, drawn, tokenizer};

fn tool(name: &str, parameters: &Value) -> Tool {
    let parameters = parameters.as_object().unwrap().clone();
    Tool { name: name.to_owned(), description: String::new(), parameters }
}

fn tools(choice: ToolChoice, single: bool) -> Tools {
    let sum = json!({
        "properties": {"a": {"enum": [1, 22]}, "b": {"type": "boolean"}},
        "required": ["a", "b"], "additionalProperties": false,
    });
    let summary = json!({"type": "object", "properties": {}, "additionalProperties": false});
    Tools::new(vec![tool("sum", &sum), tool("summary", &summary)], choice, single).unwrap()
}

/// Marked, as Qwen and Hermes write calls.
fn marked() -> CallForm {
    let open = "<tool_call>\n{\"name\": \"".to_owned();
    let close = "}\n</tool_call>".to_owned();
    CallForm { between: Some(format!("{close}\n{open}")), open, middle: "\", \"arguments\": ".to_owned(), close }
}

/// Without a mark, and one at the most, as Llama writes them.
fn bare() -> CallForm {
    let (open, middle) = ("{\"name\": \"".to_owned(), "\", \"parameters\": ".to_owned());
    CallForm { open, middle, between: None, close: "}".to_owned() }
}

fn constraint(form: &CallForm, choice: ToolChoice, single: bool) -> Constraint {
    constraint_of_calls(form, &tools(choice, single)).unwrap()
}

/// Whether a whole text is allowed, in whatever tokens, and may end.
fn is_whole(constraint: &Constraint, text: &str) -> bool {
    let spellings = tokenizer().spellings().unwrap();
    let spelling = |token: Token| spellings.get(token as usize).filter(|spelling| !spelling.is_empty());
    let mut follower = CONSTRAINTS.compile(constraint).unwrap().follow(&[], &[END]).unwrap();
    let mut left = text.as_bytes();
    while !left.is_empty() {
        let allowed = allowed(&mut follower, &[]).into_iter();
        let fitting = allowed.filter_map(|token| Some((left.strip_prefix(&spelling(token)?[..])?, token)));
        let Some((rest, token)) = fitting.min_by_key(|(rest, _)| rest.len()) else { return false };
        follower.push(&[token]);
        left = rest;
    }
    allowed(&mut follower, &[]).contains(&END)
}

const SUM: &str = "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\": 22, \"b\": true}}\n</tool_call>";
const SUMMARY: &str = "<tool_call>\n{\"name\": \"summary\", \"arguments\": {}}\n</tool_call>";

#[test]
fn whoever_may_call_may_say_words_calls_or_both() {
    let auto = constraint(&marked(), ToolChoice::Auto, false);
    for text in ["", "2 + 2 is 4.", "a < b, {\"name\": \"sum\"}", SUM, SUMMARY] {
        assert!(is_whole(&auto, text), "{text}");
    }
    assert!(is_whole(&auto, &format!("I shall add them.\n{SUM}\n{SUMMARY}")));
    for text in [
        "<tool_call>",
        "<tool_call>\n{\"name\": \"product\"",
        "{\"name\"} <tool_call>sum",
        &SUM.replace("22", "23"),
        &SUM.replace("true", "1"),
        &format!("{SUM} That was it."),
    ] {
        assert!(!is_whole(&auto, text), "{text}");
    }
}

#[test]
fn whoever_must_call_says_nothing_else() {
    let required = constraint(&marked(), ToolChoice::Required, false);
    assert!(is_whole(&required, SUM) && is_whole(&required, &format!("{SUMMARY}\n{SUM}")));
    assert!(!is_whole(&required, "") && !is_whole(&required, &format!("So: {SUM}")));
    let named = constraint(&marked(), ToolChoice::Named("sum".to_owned()), true);
    assert!(is_whole(&named, SUM));
    assert!(!is_whole(&named, SUMMARY) && !is_whole(&named, &format!("{SUM}\n{SUM}")));
}

#[test]
fn calls_without_a_mark_are_all_of_an_answer() {
    let auto = constraint(&bare(), ToolChoice::Auto, false);
    let call = "{\"name\": \"sum\", \"parameters\": {\"a\": 1, \"b\": false}}";
    for text in [call, "4", "{\"value\": 4}", &format!("so {call}")] {
        assert!(is_whole(&auto, text), "{text}");
    }
    assert!(!is_whole(&auto, "{\"name\": \"Ann\"}") && !is_whole(&auto, &format!("{call} {call}")));
}

#[test]
fn texts_that_are_drawn_from_what_is_allowed_are_calls_that_the_schemas_allow() {
    let required = constraint(&marked(), ToolChoice::Required, false);
    for seed in 0..40 {
        let mut follower = CONSTRAINTS.compile(&required).unwrap().follow(&[], &[END]).unwrap();
        let (text, ended) = drawn(&mut follower, seed, 400);
        let text = decode(&text);
        // Whether there is another call is drawn too, so a text may be longer than that.
        if !ended {
            continue;
        }
        for call in text.split("<tool_call>\n").skip(1) {
            let call: Value = serde_json::from_str(call.split("\n</tool_call>").next().unwrap()).unwrap();
            match call["name"].as_str().unwrap() {
                "sum" => assert!(call["arguments"]["a"].is_u64() && call["arguments"]["b"].is_boolean(), "{text}"),
                name => assert_eq!((name, &call["arguments"]), ("summary", &json!({})), "{text}"),
            }
        }
    }
}

#[test]
fn schemas_that_are_too_long_together_are_refused() {
    let long = json!({"description": "a".repeat(70 << 10)});
    let tools = Tools::new(vec![tool("f", &long)], ToolChoice::Auto, false).unwrap();
    let fault = constraint_of_calls(&marked(), &tools).unwrap_err().to_string();
    assert!(fault.starts_with("grammar has 7") && fault.ends_with("beyond the limit of 65536"), "{fault}");
}
