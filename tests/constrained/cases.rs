//! What texts are held to: 20 schemas, 5 regular expressions and 3 grammars.

use espalier_speculation::{Constraint, ConstraintKind};

use crate::valid;

/// A constraint, and how to see whether a text is what it asks for.
pub(crate) struct Case {
    pub(crate) constraint: Constraint,
    pub(crate) check: fn(&Constraint, &str) -> Result<(), String>,
}

const SCHEMAS: [&str; 20] = [
    r#"{"type":"object","properties":{"answer":{"type":"integer","minimum":0,"maximum":100000}},"required":["answer"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"question":{"type":"string","maxLength":60},"answer":{"type":"integer"},"unit":{"enum":["dollars","hours","apples","people"]}},"required":["question","answer","unit"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"steps":{"type":"array","items":{"type":"string","minLength":1,"maxLength":40},"minItems":1,"maxItems":4},"result":{"type":"integer","minimum":-1000,"maximum":1000}},"required":["steps","result"],"additionalProperties":false}"#,
    r#"{"type":"array","items":{"type":"integer","minimum":1,"maximum":999},"minItems":3,"maxItems":8}"#,
    r#"{"enum":["yes","no","it depends"]}"#,
    r#"{"type":"boolean"}"#,
    r#"{"type":"string","minLength":5,"maxLength":80}"#,
    r#"{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","pattern":"^[a-z]{3,10}@[a-z]{3,10}\\.(com|org)$"}},"required":["name","age","email"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"id":{"type":"string","pattern":"^[0-9a-f]{8}-[0-9a-f]{4}$"},"ok":{"type":"boolean"}},"required":["id","ok"],"additionalProperties":false}"#,
    r##"{"type":"object","properties":{"shape":{"anyOf":[{"$ref":"#/$defs/circle"},{"$ref":"#/$defs/square"}]}},"required":["shape"],"additionalProperties":false,"$defs":{"circle":{"type":"object","properties":{"kind":{"const":"circle"},"radius":{"type":"integer","minimum":1,"maximum":99}},"required":["kind","radius"],"additionalProperties":false},"square":{"type":"object","properties":{"kind":{"const":"square"},"side":{"type":"integer","minimum":1,"maximum":99}},"required":["kind","side"],"additionalProperties":false}}}"##,
    r#"{"type":"object","properties":{"tool":{"enum":["add","subtract","multiply","divide"]},"arguments":{"type":"object","properties":{"a":{"type":"integer","minimum":-999,"maximum":999},"b":{"type":"integer","minimum":-999,"maximum":999}},"required":["a","b"],"additionalProperties":false}},"required":["tool","arguments"],"additionalProperties":false}"#,
    r#"{"type":"array","items":{"type":"object","properties":{"item":{"type":"string","maxLength":16},"count":{"type":"integer","minimum":1,"maximum":50}},"required":["item","count"],"additionalProperties":false},"minItems":1,"maxItems":4}"#,
    r#"{"type":"object","properties":{"note":{"type":["string","null"],"maxLength":30},"score":{"type":"integer","minimum":1,"maximum":5}},"required":["note","score"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"city":{"type":"string","maxLength":20},"country":{"type":"string","maxLength":20},"population":{"type":"integer","minimum":0,"maximum":40000000}},"required":["city"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"date":{"type":"string","pattern":"^20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]$"},"amount":{"type":"integer","minimum":0,"maximum":9999},"currency":{"enum":["EUR","USD","GBP"]},"paid":{"type":"boolean"}},"required":["date","amount","currency","paid"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"matrix":{"type":"array","items":{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":3,"maxItems":3},"minItems":2,"maxItems":2}},"required":["matrix"],"additionalProperties":false}"#,
    r#"{"anyOf":[{"type":"integer","minimum":0,"maximum":1000},{"enum":["unknown","none"]}]}"#,
    r#"{"type":"object","properties":{"title":{"type":"string","maxLength":40},"tags":{"type":"array","items":{"enum":["math","money","time","food","school"]},"minItems":1,"maxItems":3},"difficulty":{"enum":["easy","medium","hard"]},"published":{"type":"boolean"}},"required":["title","tags","difficulty","published"],"additionalProperties":false}"#,
    r##"{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"value":{"type":"integer","minimum":0,"maximum":99},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/leaf"}]}},"required":["value","next"],"additionalProperties":false},"leaf":{"type":"object","properties":{"value":{"type":"integer","minimum":0,"maximum":99}},"required":["value"],"additionalProperties":false}}}"##,
    r#"{"type":"object","properties":{"status":{"const":"done"},"code":{"const":0},"message":{"type":"string","maxLength":60}},"required":["status","code","message"],"additionalProperties":false}"#,
];

const REGEXES: [&str; 5] = [
    r"The answer is -?[0-9]{1,5}\.",
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z",
    r"(yes|no|maybe), because [a-z ]{5,60}\.",
    r"#[0-9a-f]{6}(, #[0-9a-f]{6}){1,4}",
    r"[A-Z][a-z]{2,8} (has|had|buys) [1-9][0-9]? [a-z]{3,9}s?( and [1-9][0-9]? [a-z]{3,9}s?)?\.",
];

const SUM: &str = r#"
start: term ((" + " | " - ") term)~1..4 " = " NUMBER
term: NUMBER | "(" NUMBER (" * " | " / ") NUMBER ")"
NUMBER: /[1-9][0-9]{0,3}/
"#;

const LIST: &str = r#"
start: item~2..5
item: "- " WORD (" " WORD)~0..4 ": " AMOUNT "\n"
WORD: /[a-z]{2,9}/
AMOUNT: /\$[1-9][0-9]{0,3}(\.[0-9]{2})?/
"#;

const CALLS: &str = r#"
start: call ("; " call)~0..3
call: NAME "(" (argument (", " argument)~0..2)? ")"
argument: NAME "=" value
value: /[0-9]{1,4}/ | "true" | "false" | "\"" /[a-z ]{0,12}/ "\""
NAME: /[a-z]{2,8}(_[a-z]{2,8})?/
"#;

/// All of them.
pub(crate) fn cases() -> Vec<Case> {
    let case = |kind, words: &str, check| Case { constraint: Constraint::new(kind, words).unwrap(), check };
    let schemas = SCHEMAS.iter().map(|words| case(ConstraintKind::JsonSchema, words, valid::json as _));
    let regexes = REGEXES.iter().map(|words| case(ConstraintKind::Regex, words, valid::regex as _));
    let grammars = [(SUM, valid::sum as _), (LIST, valid::list as _), (CALLS, valid::calls as _)];
    let grammars = grammars.into_iter().map(|(words, check)| case(ConstraintKind::Grammar, words, check));
    schemas.chain(regexes).chain(grammars).collect()
}
