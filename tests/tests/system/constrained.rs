//! Texts that are held to a schema, a regular expression or a grammar: valid, and the same whoever drafts.

use espalier_client::{Answer, ClientError};
use espalier_local::System;
use espalier_proto::{FaultKind, GenerationRequest, Party};
use espalier_speculation::{Acceptance, Constraint, ConstraintKind, FinishReason, Penalties, Sampling, Shaping};
use espalier_tests::{answer, client, prompts, request, sampling, start};
use serde_json::Value;

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "answer": {"type": "string", "maxLength": 24},
        "legs": {"type": "integer", "minimum": 0, "maximum": 400},
        "sure": {"type": "boolean"},
        "animals": {"type": "array", "items": {"enum": ["dog", "cat", "goldfish"]}, "minItems": 1, "maxItems": 3}
    },
    "required": ["answer", "legs", "sure", "animals"],
    "additionalProperties": false
}"#;

const REGEX: &str = "The answer is -?[0-9]{1,4}(\\.[0-9]{2})? (apples|pears|dogs)\\.";

const GRAMMAR: &str = r#"
start: "sum: " sum
sum: product ((" + " | " - ") product)~0..3
product: NUMBER | "(" NUMBER " * " NUMBER ")"
NUMBER: /[1-9][0-9]{0,2}/
"#;

fn constraints() -> [Constraint; 3] {
    let kinds = [ConstraintKind::JsonSchema, ConstraintKind::Regex, ConstraintKind::Grammar];
    let mut words = [SCHEMA, REGEX, GRAMMAR].into_iter();
    kinds.map(|kind| Constraint::new(kind, words.next().unwrap()).unwrap())
}

/// Whether a whole text is what a constraint asks for.
fn check(constraint: &Constraint, text: &str) {
    let fits = match constraint.kind() {
        ConstraintKind::JsonSchema => {
            let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let animals = value["animals"].as_array().unwrap();
            value["answer"].as_str().unwrap().chars().count() <= 24
                && (0..=400).contains(&value["legs"].as_i64().unwrap())
                && value["sure"].is_boolean()
                && (1..=3).contains(&animals.len())
                && animals.iter().all(|animal| ["dog", "cat", "goldfish"].contains(&animal.as_str().unwrap()))
                && value.as_object().unwrap().len() == 4
        }
        ConstraintKind::Regex => text.starts_with("The answer is ") && text.ends_with('.'),
        ConstraintKind::Grammar => text.strip_prefix("sum: ").is_some_and(|sum| {
            sum.replace(['+', '-', '*', '(', ')'], " ").split_whitespace().all(|number| number.parse::<u32>().is_ok())
        }),
    };
    assert!(fits, "{text}");
}

async fn plain_and_drafted(system: &System, request: GenerationRequest, policies: &[&str]) -> Answer {
    let client = client(system);
    let plain = answer(&client, GenerationRequest { speculate: false, ..request.clone() }).await;
    let ngram = GenerationRequest { drafter: Some("ngram".to_owned()), ..request.clone() };
    let by_policy =
        policies.iter().map(|policy| GenerationRequest { policy: Some((*policy).to_owned()), ..request.clone() });
    for asked in by_policy.chain([ngram]) {
        let drafted = answer(&client, asked).await;
        let what = &drafted.completion.speculation;
        assert_eq!((drafted.ids(), drafted.text()), (plain.ids(), plain.text()), "{what:?}");
        assert_eq!(drafted.completion.reason, plain.completion.reason, "{what:?}");
        println!("{} tokens, {} {}: tau {:?}", drafted.tokens.len(), what.drafter, what.policy, what.tau);
    }
    plain
}

#[tokio::test]
async fn constrained_texts_are_valid_and_those_of_plain_decoding() {
    let system = start(&["small", "medium"], Some(3), 2).await;
    let penalties = Penalties { repetition: 1.2, presence: 0.5, ..Penalties::NONE };
    let shaped = Sampling::new(1.2, 40, 0.9, 5).unwrap().with_shaping(Shaping::new(penalties, [(17, 5.0)]).unwrap());
    for target in ["small", "medium"] {
        for (i, (prompt, _)) in prompts(target).into_iter().take(2).enumerate() {
            for constraint in constraints() {
                for sampling in [sampling(0.0, 0), sampling(0.8, i as u64), shaped.clone()] {
                    let asked = request(target, &prompt, 120, sampling);
                    let asked = GenerationRequest { constraint: Some(constraint.clone()), ..asked };
                    let policies = ["constant,k=5,gate=off", "eagle2,gate=off", "expected-gain"];
                    let plain = plain_and_drafted(&system, asked, &policies).await;
                    assert_eq!(plain.completion.reason, FinishReason::Stop, "{}", plain.text());
                    println!("{}", plain.text());
                    check(&constraint, &plain.text());
                }
            }
        }
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_accepted_by_rejection_is_valid_too() {
    let system = start(&["small"], Some(3), 2).await;
    let (prompt, _) = prompts("small").remove(0);
    for constraint in constraints() {
        for drafter in [None, Some("ngram".to_owned())] {
            let sampling = sampling(0.9, 3).with_acceptance(Acceptance::Rejection);
            let asked = GenerationRequest {
                constraint: Some(constraint.clone()),
                drafter,
                ..request("small", &prompt, 120, sampling)
            };
            let drawn = answer(&client(&system), asked).await;
            assert_eq!(drawn.completion.reason, FinishReason::Stop);
            check(&constraint, &drawn.text());
        }
    }
    system.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_broke_goes_on_where_its_constraint_was() {
    let system = start(&["small"], Some(3), 2).await;
    let (client, (prompt, _)) = (client(&system), prompts("small").remove(0));
    let [schema, ..] = constraints();
    let asked = GenerationRequest { constraint: Some(schema), ..request("small", &prompt, 120, sampling(0.8, 4)) };
    let whole = answer(&client, asked.clone()).await;
    for cut in [1, whole.tokens.len() / 2, whole.tokens.len() - 1] {
        let (known, rest) = (whole.ids()[..cut].to_vec(), whole.ids()[cut..].to_vec());
        let resumed = answer(&client, GenerationRequest { generated: known, ..asked.clone() }).await;
        assert_eq!(resumed.ids(), rest);
    }
    let broken = GenerationRequest { generated: vec![whole.ids()[0], whole.ids()[0]], ..asked };
    let refusal = client.clone().generate(broken, |_| {}).await.unwrap_err();
    let ClientError::Fault(fault) = refusal else { panic!("{refusal}") };
    assert_eq!((fault.party, fault.kind, fault.in_constraint), (Party::Client, FaultKind::BadInput, true));
    assert!(fault.message.contains("at place 1 of what was generated is not allowed by the json_schema"), "{fault}");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_kept_to_is_refused() {
    let system = start(&["small"], Some(3), 2).await;
    let (client, (prompt, _)) = (client(&system), prompts("small").remove(0));
    for (kind, words, told) in [
        (ConstraintKind::JsonSchema, "{", "json_schema is no JSON: EOF while parsing an object at line 1 column 1"),
        (ConstraintKind::JsonSchema, r#"{"type": "objekt"}"#, "json_schema cannot be used: Invalid type: objekt"),
        (ConstraintKind::Grammar, "start: y", "grammar cannot be used: at 1(8): unknown name: \"y\""),
    ] {
        let constraint = Constraint::new(kind, words).unwrap();
        let asked =
            GenerationRequest { constraint: Some(constraint), ..request("small", &prompt, 9, sampling(0.0, 0)) };
        let refusal = client.clone().generate(asked, |_| {}).await.unwrap_err();
        let ClientError::Fault(fault) = refusal else { panic!("{refusal}") };
        assert_eq!((fault.party, fault.kind, fault.in_constraint), (Party::Client, FaultKind::BadInput, true));
        assert!(fault.message.starts_with(told), "{fault}");
    }
    system.stop().await.unwrap();
}
