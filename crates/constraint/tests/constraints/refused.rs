//! Refused.
use crate::support::compile;
use espalier_speculation::ConstraintKind;
#[test]
fn see() {
    use ConstraintKind::{Grammar, JsonSchema, Regex};
    let chain: String = (0..5000).map(|i| format!("a{i}:a{}\n", i + 1)).collect();
    let chain = format!("start: a0\n{}a5000: \"x\"\n", &chain);
    let deepjson = format!("{}{}", "{\"not\":".repeat(100), "{}".to_owned() + &"}".repeat(100));
    let defs: String = (0..1500).map(|i| format!("\"d{i}\":{{\"$ref\":\"#/$defs/d{}\"}},", i + 1)).collect();
    let defs = format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{defs}\"d1500\":{{\"type\":\"integer\"}}}}}}");
    for (kind, words) in [
        (JsonSchema, "{"),
        (JsonSchema, "{\"type\":\"objekt\"}"),
        (JsonSchema, "[1]"),
        (JsonSchema, "false"),
        (JsonSchema, "true"),
        (JsonSchema, "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"a\"}}"),
        (JsonSchema, "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}"),
        (JsonSchema, "{\"$ref\":\"http://example.com/x.json\"}"),
        (JsonSchema, "{\"$ref\":\"file:///etc/passwd\"}"),
        (JsonSchema, "{\"$ref\":\"#/$defs/none\"}"),
        (JsonSchema, "{\"type\":\"string\",\"maxLength\":1000000000}"),
        (
            JsonSchema,
            "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":50,\"maxLength\":100},\"minItems\":50000}",
        ),
        (JsonSchema, &deepjson),
        (JsonSchema, &defs),
        (JsonSchema, "{\"type\":\"string\",\"pattern\":\"(a|b)*a(a|b){200}\"}"),
        (Regex, "a("),
        (Regex, "a{1000}{1000}{1000}"),
        (Regex, "(?=a)b"),
        (Regex, "[^\\s\\S]"),
        (Regex, "a\nb"),
        (Regex, "(a|b)*a(a|b){300}c"),
        (Regex, &"(a|b)".repeat(10000)),
        (Regex, &"(a?)".repeat(10000)),
        (Regex, "\\p{L}+\\w{100}"),
        (Regex, "\\1"),
        (Grammar, "x: \"a\""),
        (Grammar, "start: y"),
        (Grammar, "start: start \"a\""),
        (Grammar, "start: (\"a\""),
        (Grammar, &"(".repeat(60000)),
        (Grammar, &chain),
        (Grammar, "start: <|user|>"),
        (Grammar, "start: /a+/\nstart[stop=\"x\"]: /b/"),
        (Grammar, "start: a\na[stop=\"x\"]: /b.*/"),
        (Grammar, "start: %json {\"type\":\"objekt\"}"),
        (Grammar, "%import common.X\nstart: X"),
        (Grammar, "start: e\ne: e e | \"a\" | e \"b\" e"),
    ] {
        let t = std::time::Instant::now();
        let r = compile(kind, words);
        println!(
            "{kind} {:?} {:.1} ms: {}",
            words.chars().take(60).collect::<String>(),
            t.elapsed().as_secs_f64() * 1e3,
            r.map(|_| "fine".to_owned()).unwrap_or_else(|e| e.to_string())
        );
    }
}
