//! What answers are held to.

use espalier_proto::pb;
use espalier_proto::pb::constraint::Kind as Words;
use serde_json::{Map, Value};

use crate::error::RequestError;
use crate::fields::Fields;

/// What the answers of a request are held to, and the field that says so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) constraint: pb::Constraint,
    pub(crate) field: String,
}

/// Takes what answers are held to: of a chat the API's `response_format`, or one of our own fields.
pub(crate) fn take(is_chat: bool, fields: &mut Fields, own: &mut Option<Fields>) -> Result<Option<Held>, RequestError> {
    let format = match is_chat {
        true => take_format(fields)?,
        false => fields.only("response_format", TEXT).map(|()| None)?,
    };
    let mut held: Vec<Held> = format.map(|words| held(fields, "response_format", words)).into_iter().collect();
    if let Some(own) = own {
        let schema: Option<Value> = own.take("json_schema")?;
        held.extend(schema.map(|schema| self::held(own, "json_schema", Words::JsonSchema(schema.to_string()))));
        let (regex, grammar) = (own.take("regex")?, own.take("grammar")?);
        held.extend(regex.map(|regex| self::held(own, "regex", Words::Regex(regex))));
        held.extend(grammar.map(|grammar| self::held(own, "grammar", Words::Grammar(grammar))));
    }
    match held.len() {
        0 | 1 => Ok(held.pop()),
        _ => {
            let (field, found) = (held.swap_remove(1).field, format!("given beside `{}`", held[0].field));
            Err(RequestError::Unsupported { field, found, supported: "one of them" })
        }
    }
}

/// What a chat is held to unless it says otherwise.
const TEXT: &str = "{\"type\":\"text\"}";

fn held(fields: &Fields, name: &str, words: Words) -> Held {
    Held { constraint: pb::Constraint { kind: Some(words) }, field: fields.named(name) }
}

fn take_format(fields: &mut Fields) -> Result<Option<Words>, RequestError> {
    let Some(mut format) = fields.within("response_format")? else { return Ok(None) };
    let kind: String = format.need("type")?;
    let words = match kind.as_str() {
        "text" => None,
        "json_object" => Some(Words::JsonSchema("{\"type\":\"object\"}".to_owned())),
        "json_schema" => Some(Words::JsonSchema(take_schema(&mut format)?)),
        _ => {
            let supported = "`text`, `json_object` or `json_schema`";
            return Err(RequestError::Unsupported {
                field: format.named("type"),
                found: format!("`{kind}`"),
                supported,
            });
        }
    };
    format.end()?;
    Ok(words)
}

/// Takes a schema. What it is called and described as changes nothing, and it is always kept to, strict or not.
fn take_schema(format: &mut Fields) -> Result<String, RequestError> {
    let mut described = format.need_within("json_schema")?;
    let (_, _): (Option<String>, Option<String>) = (described.take("name")?, described.take("description")?);
    let _: Option<bool> = described.take("strict")?;
    let schema: Map<String, Value> = described.need("schema")?;
    described.end()?;
    Ok(Value::Object(schema).to_string())
}
