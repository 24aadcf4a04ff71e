//! What may follow.

use espalier_speculation::{ConstraintKind, Restriction};

use crate::support::{decode, drawn, follow};

#[test]
fn texts_that_are_drawn_from_what_is_allowed_are_what_was_asked_for() {
    for (kind, words) in [
        (
            ConstraintKind::JsonSchema,
            r#"{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":0,"maximum":150}},"required":["name","age"],"additionalProperties":false}"#,
        ),
        (ConstraintKind::Regex, "[a-f]{3,5}-[0-9]{2}"),
        (ConstraintKind::Grammar, "start: \"answer: \" NUMBER (\" + \" NUMBER)*\nNUMBER: /[0-9]{1,3}/"),
    ] {
        for seed in 0..5 {
            let mut f = follow(kind, words);
            println!("forced {:?}", decode(&f.forced(&[], 100)));
            let (text, ended) = drawn(&mut f, seed, 200);
            println!("{kind} {ended} {:?}", decode(&text));
        }
    }
}
