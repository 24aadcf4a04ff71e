//! Answers that may call tools, or must: the grammar of them.

use espalier_proto::{CallForm, Tool, Tools};
use espalier_speculation::{Constraint, ConstraintKind, ConstraintLength};
use serde_json::{Value, json};

use crate::compiling::with_style;

/// What answers are held to that may call these tools in this form: words, or calls, or words and then calls, as far as
/// the choice of tools lets them. Every call is of one of the tools, and its arguments are as that one's schema has them.
///
/// # Errors
/// Schemas that are longer together than a constraint may be.
pub fn constraint_of_calls(form: &CallForm, tools: &Tools) -> Result<Constraint, ConstraintLength> {
    let close = text(&form.close);
    let calls = match form.between.as_deref().filter(|_| !tools.is_single()) {
        Some(between) => rule("calls", [format!("call ({} call)* {close}", text(between))]),
        None => rule("calls", [format!("call {close}")]),
    };
    let callable: Vec<&Tool> = tools.callable().collect();
    let names = callable.iter().enumerate();
    let names = names.map(|(i, tool)| format!("{} arguments_{i}", text(&format!("{}{}", tool.name, form.middle))));
    let arguments = callable.iter().enumerate();
    let arguments = arguments.map(|(i, tool)| rule(&format!("arguments_{i}"), [format!("%json {}", schema(tool))]));
    let grammar: String = [start(form, tools), calls, rule("call", names)].into_iter().chain(arguments).collect();
    Constraint::new(ConstraintKind::Grammar, &grammar)
}

/// The rule that an answer is derived from, with what tells words from calls.
fn start(form: &CallForm, tools: &Tools) -> String {
    let open = text(&form.open);
    if !tools.may_be_left() {
        return rule("start", [format!("{open} calls")]);
    }
    let (behind, words, calling) = match form.mark() {
        Some(mark) => {
            let (behind, mark) = (text(&form.open[mark.len()..]), pattern(mark));
            // Words up to the first mark, with it.
            let calling = format!("/{ANY}{mark}/ & ~/{ANY}{mark}{SOME}/");
            (behind, format!("/{ANY}/ & ~/{ANY}{mark}{ANY}/"), calling)
        }
        None => (String::new(), format!("/{ANY}/ & ~/{}{ANY}/", pattern(&form.open)), open),
    };
    let start = rule("start", ["WORDS".to_owned(), format!("CALLING {behind} calls")]);
    format!("{start}WORDS: {words}\nCALLING: {calling}\n")
}

/// Any text, and any but none.
const ANY: &str = "(?s:.*)";
const SOME: &str = "(?s:.+)";

/// A rule of the grammar, with its alternatives.
fn rule(name: &str, alternatives: impl IntoIterator<Item = String>) -> String {
    format!("{name}: {}\n", alternatives.into_iter().collect::<Vec<_>>().join("\n    | "))
}

/// A text as it is, within a regular expression of the grammar.
fn pattern(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        '\n' => "\\n".to_owned(),
        _ if character.is_ascii_punctuation() && !"<>_".contains(character) => format!("\\{character}"),
        _ => character.to_string(),
    });
    escaped.collect()
}

/// A text as it is.
fn text(text: &str) -> String {
    Value::from(text).to_string()
}

/// The schema of a tool's arguments: an object, whatever it says besides.
fn schema(tool: &Tool) -> Value {
    let mut fields = tool.parameters.clone();
    fields.entry("type").or_insert_with(|| json!("object"));
    with_style(fields)
}
