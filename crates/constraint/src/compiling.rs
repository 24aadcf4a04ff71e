//! From a client's words to a parser.

use std::io;
use std::thread;

use espalier_speculation::{Constraint, ConstraintKind};
use llguidance::api::{ParserLimits, StopReason, TopLevelGrammar};
use llguidance::{Matcher, ParserFactory, TokenParser};
use serde_json::{Map, Value, json};

use crate::error::ConstraintError;

/// The stack that compiling is given: rules of a grammar that lead to each other grow it, and the longest constraint has
/// thousands of them.
const STACK_BYTES: usize = 512 << 20;

/// Characters of a fault that are told.
const FAULT_CHARACTERS_MAX: usize = 500;

/// How JSON is written: as most of it is, on one line. Where white space is free, a model may go on with nothing else.
fn json_style() -> Value {
    json!({"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false})
}

/// What a constraint may take. The figures are for one text.
pub(crate) fn limits() -> ParserLimits {
    ParserLimits {
        // Some 20 ms, of which most schemas need less than one.
        initial_lexer_fuel: 1_000_000,
        // Some 15 ms a token.
        step_lexer_fuel: 200_000,
        // Some 3 ms a token.
        step_max_items: 50_000,
        max_items_in_row: 2000,
        // Some 2 KiB each.
        max_lexer_states: 10_000,
        // Some 20 bytes each.
        max_grammar_size: 200_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

/// Compiles a constraint.
///
/// # Errors
/// [`ConstraintError`] says where and why it cannot be used.
pub(crate) fn compile(factory: &ParserFactory, constraint: &Constraint) -> Result<Matcher, ConstraintError> {
    let grammar = grammar(constraint)?;
    let refused = |fault: String| ConstraintError::Refused { kind: constraint.kind(), fault };
    let parser = on_large_stack(|| factory.create_parser(grammar).map_err(|error| format!("{error:#}")));
    let parser = parser.map_err(|fault| refused(fault.to_string()))?.map_err(|fault| refused(told(&fault)))?;
    check_reversible(&parser)?;
    let mut matcher = Matcher::new(Ok(parser));
    // What no text can fulfil shows at its first token.
    match matcher.compute_mask_or_eos() {
        Ok(_) => Ok(matcher),
        Err(error) => Err(refused(match error.to_string() {
            fault if fault.starts_with(&StopReason::NoExtensionBias.to_string()) => "no text fulfils it".to_owned(),
            fault => told(&fault),
        })),
    }
}

fn grammar(constraint: &Constraint) -> Result<TopLevelGrammar, ConstraintError> {
    let words = constraint.words();
    match constraint.kind() {
        ConstraintKind::JsonSchema => Ok(TopLevelGrammar::from_json_schema(schema(words)?)),
        ConstraintKind::Regex => Ok(TopLevelGrammar::from_regex(words)),
        ConstraintKind::Grammar => Ok(TopLevelGrammar::from_lark(words.to_owned())),
    }
}

/// Reads a schema, and says how JSON is to be written where it does not.
fn schema(words: &str) -> Result<Value, ConstraintError> {
    let schema = serde_json::from_str(words).map_err(|fault| ConstraintError::Json { fault: fault.to_string() })?;
    Ok(match schema {
        Value::Object(fields) => with_style(fields),
        // It allows everything, as the schema without rules does.
        Value::Bool(true) => with_style(Map::new()),
        other => other,
    })
}

/// A schema that says how JSON is to be written.
pub(crate) fn with_style(mut schema: Map<String, Value>) -> Value {
    schema.entry("x-guidance").or_insert_with(json_style);
    Value::Object(schema)
}

/// Tokens must be taken back for trees to be followed along all their paths.
fn check_reversible(parser: &TokenParser) -> Result<(), ConstraintError> {
    match parser.parser.grammar().lexer_spec().can_rollback() {
        true => Ok(()),
        false => Err(ConstraintError::NotReversible),
    }
}

/// Does something where the stack is large. What is never touched of it takes no memory.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("constraint".to_owned()).stack_size(STACK_BYTES);
        let worker = worker.spawn_scoped(scope, work)?;
        worker.join().map_err(|_| io::Error::other("the parser panicked"))
    })
}

/// The parser's words in a form to be told: without traces, on one line, and not too many.
fn told(fault: &str) -> String {
    let fault = fault.split("<backtrace>").next().unwrap_or_default().replace("<non-verbose/>", "");
    let words: Vec<&str> = fault.split_whitespace().collect();
    let whole = words.join(" ");
    match whole.char_indices().nth(FAULT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}
