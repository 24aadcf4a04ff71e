//! Whether texts are what was asked for, found out without the parser that held them to it.

use espalier_speculation::Constraint;
use regex::Regex;
use serde_json::Value;

/// Whether a text is JSON of a schema.
pub(crate) fn json(constraint: &Constraint, text: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(constraint.words()).unwrap();
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check(&schema, &schema, &value)
}

/// Whether a regular expression matches a text as a whole.
pub(crate) fn regex(constraint: &Constraint, text: &str) -> Result<(), String> {
    matches(&format!("^(?:{})$", constraint.words()), text)
}

/// Whether a text is one of the grammar of sums.
pub(crate) fn sum(_: &Constraint, text: &str) -> Result<(), String> {
    let number = "[1-9][0-9]{0,3}";
    let term = format!(r"(?:{number}|\({number} [*/] {number}\))");
    matches(&format!("^{term}(?: [+-] {term}){{1,4}} = {number}$"), text)
}

/// Whether a text is one of the grammar of lists.
pub(crate) fn list(_: &Constraint, text: &str) -> Result<(), String> {
    matches(r"^(?:- [a-z]{2,9}(?: [a-z]{2,9}){0,4}: \$[1-9][0-9]{0,3}(?:\.[0-9]{2})?\n){2,5}$", text)
}

/// Whether a text is one of the grammar of calls.
pub(crate) fn calls(_: &Constraint, text: &str) -> Result<(), String> {
    let name = "[a-z]{2,8}(?:_[a-z]{2,8})?";
    let argument = format!(r#"{name}=(?:[0-9]{{1,4}}|true|false|"[a-z ]{{0,12}}")"#);
    let call = format!(r"{name}\((?:{argument}(?:, {argument}){{0,2}})?\)");
    matches(&format!("^{call}(?:; {call}){{0,3}}$"), text)
}

fn matches(pattern: &str, text: &str) -> Result<(), String> {
    match Regex::new(pattern).unwrap().is_match(text) {
        true => Ok(()),
        false => Err(format!("{pattern} does not match")),
    }
}

/// Whether a value is one of a schema within `root`. Knows what the schemas here use, and nothing else.
fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    for (rule, wanted) in schema.as_object().unwrap() {
        let holds = match rule.as_str() {
            "$defs" => true,
            "$ref" => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(pointer).unwrap(), value)?;
                true
            }
            "anyOf" => wanted.as_array().unwrap().iter().any(|other| check(root, other, value).is_ok()),
            "const" => value == wanted,
            "enum" => wanted.as_array().unwrap().contains(value),
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|wanted| is_of(wanted, value)),
                wanted => is_of(wanted, value),
            },
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= wanted.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 <= wanted.as_u64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| Regex::new(wanted.as_str().unwrap()).unwrap().is_match(text)),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= wanted.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= wanted.as_u64().unwrap()),
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|item| check(root, wanted, item))?;
                true
            }
            "required" => value.as_object().is_none_or(|fields| {
                wanted.as_array().unwrap().iter().all(|name| fields.contains_key(name.as_str().unwrap()))
            }),
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                fields
                    .filter_map(|(name, field)| Some((wanted.get(name)?, field)))
                    .try_for_each(|(schema, field)| check(root, schema, field))?;
                true
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                value.as_object().is_none_or(|fields| fields.keys().all(|name| known.contains_key(name)))
            }
            other => panic!("nothing is known of `{other}`"),
        };
        if !holds {
            return Err(format!("{value} is not what `{rule}` of {wanted} allows"));
        }
    }
    Ok(())
}

fn is_of(wanted: &Value, value: &Value) -> bool {
    match wanted.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        // However large, and -0 too.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        other => panic!("nothing is known of the type `{other}`"),
    }
}
