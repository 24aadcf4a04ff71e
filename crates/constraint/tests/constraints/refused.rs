//! What cannot be used, and why.

use std::time::{Duration, Instant};

use espalier_constraint::{ConstraintError, Constraints};
use espalier_speculation::{ConstraintKind, Restriction};
use espalier_text::{Parts, Tokenizer};
use serde_json::json;

use crate::support::{END, compile, encode};

use ConstraintKind::{Grammar, JsonSchema, Regex};

fn refusal(kind: ConstraintKind, words: &str) -> String {
    compile(kind, words).map(|_| words.to_owned()).unwrap_err().to_string()
}

#[test]
fn a_schema_is_refused_with_where_and_why() {
    for (words, told) in [
        ("{\n  \"type\": }", "json_schema is no JSON: expected value at line 2 column 11"),
        ("[1]", "json_schema cannot be used: schema must be an object or boolean"),
        (r#"{"type": "objekt"}"#, "json_schema cannot be used: Invalid type: objekt"),
        (r#"{"propertyNames": {}}"#, r#"json_schema cannot be used: Unimplemented keys: ["propertyNames"]"#),
        (r##"{"$ref": "#/$defs/none"}"##, "json_schema cannot be used: Pointer '/$defs/none' does not exist"),
        ("false", "json_schema cannot be used: Unsatisfiable schema: schema is false"),
        (
            r#"{"type": "integer", "minimum": 3, "maximum": 2}"#,
            "json_schema cannot be used: Unsatisfiable schema: minimum (3) is greater than maximum (2)",
        ),
    ] {
        assert_eq!(refusal(JsonSchema, words), told);
    }
    assert!(compile(JsonSchema, "true").is_ok());
}

#[test]
fn nothing_is_read_from_elsewhere() {
    for reference in ["http://127.0.0.1:1/schema.json", "file:///etc/hostname"] {
        let told = refusal(JsonSchema, &json!({"$ref": reference}).to_string());
        assert!(told.contains("Default retriever does not fetch resources"), "{told}");
    }
}

#[test]
fn a_regular_expression_is_refused_with_where_and_why() {
    for (words, told) in [
        ("a(", "unclosed group"),
        ("(?=a)b", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        (r"[^\s\S]", "regex cannot be used: no text fulfils it"),
    ] {
        let refusal = refusal(Regex, words);
        assert!(refusal.starts_with("regex cannot be used: ") && refusal.contains(told), "{refusal}");
    }
}

#[test]
fn a_grammar_is_refused_with_where_and_why() {
    for (words, told) in [
        ("x: \"a\"", "grammar cannot be used: no start rule found"),
        ("start: y", "grammar cannot be used: at 1(8): unknown name: \"y\""),
        ("start: \"a\"\nb: (\"c\"", "grammar cannot be used: 2(8): Expected token ')'"),
        ("start: start \"a\"", "grammar cannot be used: no text fulfils it"),
        ("start: <|user|>", "grammar cannot be used: at 1(8): unknown special token"),
        ("start: a\na[stop=\"x\"]: /b.*/", "grammar uses `stop`, `lazy` or `max_tokens`, which are not supported"),
    ] {
        let refusal = refusal(Grammar, words);
        assert!(refusal.starts_with(told), "{refusal}");
    }
    let nested = refusal(Grammar, &format!("start: {}", "(".repeat(60_000)));
    assert!(nested.starts_with("grammar cannot be used: 1(37): lark grammar too deeply nested"), "{nested}");
}

#[test]
fn what_was_generated_must_be_allowed() {
    let compiled = compile(Regex, "ab+").unwrap();
    let [a, b] = ["a", "b"].map(|text| encode(text)[0]);
    let refusal = |generated: &[u32]| compiled.follow(generated, &[END]).map(drop).map_err(|error| error.to_string());
    assert_eq!(refusal(&[a, b, b]), Ok(()));
    assert_eq!(refusal(&[a, b, END]), Ok(()));
    let told =
        |token, place| format!("token {token} at place {place} of what was generated is not allowed by the regex");
    assert_eq!(refusal(&[a, a]), Err(told(a, 1)));
    assert_eq!(refusal(&[a, END]), Err(told(END, 1)));
}

/// Whatever it says, it is compiled or refused soon, and what follows it takes no longer.
#[test]
fn the_worst_takes_a_while_and_no_more() {
    let chain: String = (0..5000).map(|i| format!("a{i}: a{}\n", i + 1)).collect();
    let references: String = (0..1500).map(|i| format!("\"d{i}\":{{\"$ref\":\"#/$defs/d{}\"}},", i + 1)).collect();
    let long = json!({"type": "array", "items": {"type": "string", "minLength": 50}, "minItems": 50_000});
    for (kind, words) in [
        (Regex, "(a|b)*a(a|b){300}c".to_owned()),
        (Regex, "(a|b)".repeat(10_000)),
        (Regex, "(a?)".repeat(4_000)),
        (Regex, "a{1000}{1000}{1000}".to_owned()),
        (Regex, r"(\p{L}+\s?){1,1000}\w{1000}".to_owned()),
        (Grammar, format!("start: a0\n{chain}a5000: \"x\"\n")),
        (Grammar, "start: e\ne: e e | \"a\" | e \"b\" e".to_owned()),
        (JsonSchema, format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{references}"d1500":{{"type":"integer"}}}}}}"##)),
        (JsonSchema, format!("{}{{}}{}", "{\"items\":".repeat(120), "}".repeat(120))),
        (JsonSchema, long.to_string()),
    ] {
        let begun = Instant::now();
        let Ok(compiled) = compile(kind, &words) else { continue };
        let mut follower = compiled.follow(&[], &[END]).unwrap();
        let mut logits = vec![0.0; 4096];
        for _ in 0..40 {
            logits.fill(0.0);
            if follower.restrict(&[], &mut logits).is_err() {
                break;
            }
            let token = logits.iter().position(|logit| *logit == 0.0).unwrap() as u32;
            follower.push(&[token]);
        }
        let begins: String = words.chars().take(30).collect();
        assert!(begun.elapsed() < Duration::from_secs(20), "{begins}: {:?}", begun.elapsed());
        println!("{begins}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_tokenizer_without_bytes_cannot_write_every_text() {
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    });
    let parts = Parts { tokenizer: file.to_string().into_bytes(), config: None, chat_template: None };
    let constraints = Constraints::new(Tokenizer::from_parts(parts).unwrap());
    let refusal = constraints.compile(&espalier_speculation::Constraint::new(Regex, "a").unwrap()).unwrap_err();
    assert!(matches!(refusal, ConstraintError::Tokenizer { .. }));
    assert_eq!(refusal.to_string(), "texts of this target cannot be constrained: no token is the byte 0x00");
}
