//! What may follow, and what must.

use std::collections::BTreeSet;

use espalier_constraint::{COMPILED_MAX, Constraints};
use espalier_speculation::{Constraint, ConstraintKind, Restriction, RestrictionFault, Token};
use proptest::prelude::*;

use crate::support::{END, allowed, compile, decode, drawn, encode, follow, tokenizer};

use ConstraintKind::{Grammar, JsonSchema, Regex};

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name", "age"],
    "additionalProperties": false
}"#;

const SUM: &str = "start: \"sum: \" NUMBER (\" + \" NUMBER)~0..3\nNUMBER: /[0-9]{1,3}/";

#[test]
fn texts_that_are_drawn_from_what_is_allowed_are_json_of_the_schema() {
    for seed in 0..40 {
        let (text, ended) = drawn(&mut follow(JsonSchema, SCHEMA), seed, 200);
        let text = decode(&text);
        assert!(ended, "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value["name"].as_str().unwrap().chars().count() <= 8, "{text}");
        assert!((0..=150).contains(&value["age"].as_i64().unwrap()), "{text}");
        let names: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(names, ["name", "age"], "in the order of the schema");
        assert!(text.starts_with("{\"name\": \"") && !text.contains('\n'), "{text}");
    }
}

#[test]
fn texts_of_a_regular_expression_match_as_a_whole() {
    let texts: BTreeSet<String> =
        (0..60).map(|seed| decode(&drawn(&mut follow(Regex, "(yes|no)!?"), seed, 9).0)).collect();
    let all = ["no", "no!", "yes", "yes!"].map(str::to_owned);
    assert_eq!(texts, BTreeSet::from(all));
}

#[test]
fn texts_of_a_grammar_are_derived_from_start() {
    for seed in 0..20 {
        let (text, ended) = drawn(&mut follow(Grammar, SUM), seed, 60);
        let text = decode(&text);
        let numbers: Vec<&str> = text.strip_prefix("sum: ").unwrap().split(" + ").collect();
        assert!(ended && (1..=4).contains(&numbers.len()), "{text}");
        assert!(numbers.iter().all(|number| number.parse::<u32>().is_ok_and(|number| number < 1000)), "{text}");
    }
}

#[test]
fn a_text_ends_where_it_may_and_where_nothing_else_may_follow_it_must() {
    let mut follower = follow(Regex, "ab?");
    let [a, b] = ["a", "b"].map(|text| encode(text)[0]);
    assert!(!allowed(&mut follower, &[]).contains(&END), "an empty text is none");
    assert_eq!(allowed(&mut follower, &[a]), [END, b]);
    assert_eq!(allowed(&mut follower, &[a, b]), [END]);
    assert_eq!(follower.forced(&[a, b], 9), [END]);
    assert!(follower.forced(&[a], 9).is_empty(), "there is a choice");
}

#[test]
fn what_else_ends_a_text_is_allowed_where_it_may_end_and_nowhere_else() {
    let [a, b, c] = ["a", "b", "c"].map(|text| encode(text)[0]);
    let mut follower = compile(Regex, "ac?b*").unwrap().follow(&[], &[END, b, c]).unwrap();
    assert_eq!(allowed(&mut follower, &[]), [a]);
    assert_eq!(allowed(&mut follower, &[a]), [END, b, c]);
    let nothing = compile(Regex, "bc").unwrap().follow(&[], &[END, b]).unwrap().restrict(&[], &mut [0.0; 4096]);
    assert_eq!(nothing, Err(RestrictionFault::Nothing));
}

#[test]
fn behind_the_end_everything_is_allowed_as_it_is_cut_off() {
    let mut follower = follow(Regex, "a");
    let a = encode("a")[0];
    assert_eq!(allowed(&mut follower, &[a, END, 77]).len(), crate::support::ROWS);
    follower.push(&[a, END]);
    assert_eq!(allowed(&mut follower, &[]).len(), crate::support::ROWS);
}

#[test]
fn forced_bytes_are_said_in_the_longest_tokens_that_hold_no_others() {
    let mut follower = follow(JsonSchema, SCHEMA);
    let forced = follower.forced(&[], 100);
    // What is between the quotes is free, so no token goes beyond the first of them.
    assert_eq!(decode(&forced), "{\"name\": \"");
    for (i, &token) in forced.iter().enumerate() {
        assert_eq!(allowed(&mut follower, &forced[..i]), [token]);
    }
    assert_eq!(follower.forced(&[], 2), forced[..2]);
    assert!(follower.forced(&forced, 100).is_empty());
    let free = [&forced[..], &encode("Ann\"")].concat();
    assert_eq!(decode(&follower.forced(&free, 100)), ", \"age\": ");
}

#[test]
fn what_is_forced_may_go_on_for_ever() {
    let mut follower = follow(Regex, "b?a{1000}{1000}{1000}");
    let a = encode("a")[0];
    assert_eq!(follower.forced(&[a], 40).len(), 40);
}

#[test]
fn a_text_goes_on_where_it_was() {
    let (text, _) = drawn(&mut follow(JsonSchema, SCHEMA), 3, 200);
    let compiled = compile(JsonSchema, SCHEMA).unwrap();
    for cut in 0..text.len() {
        let mut resumed = compiled.follow(&text[..cut], &[END]).unwrap();
        let mut pushed = follow(JsonSchema, SCHEMA);
        text[..cut].iter().for_each(|&token| pushed.push(&[token]));
        assert_eq!(allowed(&mut resumed, &[]), allowed(&mut pushed, &[]), "{cut}");
    }
}

#[test]
fn what_others_committed_against_the_constraint_is_a_fault_from_then_on() {
    let mut follower = follow(Regex, "ab");
    let b = encode("b")[0];
    follower.push(&[b]);
    let broken = Err(RestrictionFault::Broken { token: b });
    assert_eq!(follower.restrict(&[], &mut [0.0; 4096]), broken);
    assert!(!follower.allows(&[], b) && follower.forced(&[], 9).is_empty());
}

#[test]
fn the_constraints_used_last_are_kept() {
    let constraints = Constraints::new(tokenizer());
    let constraint = |i: usize| Constraint::new(Regex, &format!("a{{{i}}}")).unwrap();
    let first = constraints.compile(&constraint(1)).unwrap();
    for i in 2..=COMPILED_MAX {
        constraints.compile(&constraint(i)).unwrap();
        assert!(std::sync::Arc::ptr_eq(&first, &constraints.compile(&constraint(1)).unwrap()));
    }
    (2..=1 + COMPILED_MAX).for_each(|i| drop(constraints.compile(&constraint(100 + i)).unwrap()));
    assert!(!std::sync::Arc::ptr_eq(&first, &constraints.compile(&constraint(1)).unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// As a tree asks: back and forth, to paths that are allowed and to others.
    #[test]
    fn what_may_follow_a_path_does_not_depend_on_what_was_asked_before(
        seed: u64, commits in 0_usize..6, asks in prop::collection::vec((0_usize..9, any::<u64>()), 1..8)
    ) {
        for (kind, words) in [(JsonSchema, SCHEMA), (Grammar, SUM), (Regex, "(a|bc?)*d[0-9]{2}")] {
            let (text, _) = drawn(&mut follow(kind, words), seed, commits);
            let mut follower = follow(kind, words);
            follower.push(&text);
            for &(length, seed) in &asks {
                let mut fresh = follow(kind, words);
                fresh.push(&text);
                let path: Vec<Token> = drawn(&mut fresh, seed, length).0;
                let mut alone = follow(kind, words);
                alone.push(&text);
                prop_assert_eq!(allowed(&mut follower, &path), allowed(&mut alone, &path));
                prop_assert_eq!(follower.forced(&path, 5), alone.forced(&path, 5));
                let strange = (seed % 4096) as Token;
                let may = allowed(&mut alone, &path).contains(&strange);
                prop_assert_eq!(follower.allows(&path, strange), may);
            }
        }
    }
}
