#![allow(clippy::unwrap_used)]

use super::*;

const GOOD: &str = r#"{
    "targets": [{
        "name": "t", "curve": [[1, 10.0]], "prompt": {"fixed": 9}, "answer": {"lognormal": {"median": 99, "sigma": 1, "max": 900}},
        "acceptance": {"measured": {"by_depth": [0.7, 0.5]}}
    }],
    "drafters": [{"name": "d", "curve": [[1, 1.0]], "serves": ["t"]}],
    "load": {"open": {"seconds": 10}}
}"#;

fn refusal(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    Scenario::parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn what_is_not_said_is_as_the_services_have_it() {
    let scenario = Scenario::parse(GOOD).unwrap();
    let target = &scenario.targets[0];
    assert_eq!((target.slots, target.tree_nodes, target.policy.as_str()), (64, 363, "expected-gain"));
    assert_eq!((scenario.gateways.requests, scenario.gateways.queued), (256, 256));
    assert_eq!((scenario.verifiers_in_all(), scenario.drafters_in_all()), (1, 1));
    let written = serde_json::to_string(&scenario).unwrap();
    assert_eq!(Scenario::parse(&written).unwrap(), scenario, "what is written can be read");
}

#[test]
fn what_is_wrong_is_told_with_its_field_what_was_found_and_the_limit() {
    let told = [
        (r#"[[1, 10.0]]"#, "[[1, -2]]", "`targets[0].curve[0][1]` is -2; it must be 0.0001 to 1000000"),
        (r#"[[1, 10.0]]"#, "[]", "`targets[0].curve` is empty; it must name one at least"),
        (r#"{"fixed": 9}"#, r#"{"fixed": 0}"#, "`targets[0].prompt` is 0; it must be 1 to 1048576"),
        (r#""seconds": 10"#, r#""seconds": 0"#, "`load.open.seconds` is 0; it must be 0.001 to 1000000"),
        (r#"["t"]"#, r#"["x"]"#, "`drafters[0].serves` is `x`, which no target is called"),
        ("[0.7, 0.5]", "[1.5]", "`targets[0].acceptance.measured.by_depth` is 1.5; it must be 0 to 1"),
        (r#""name": "d""#, r#""name": "d", "slots": 0"#, "`drafters[0].slots` is 0; it must be 1 to 65536"),
    ];
    for (from, to, expected) in told {
        assert_eq!(refusal(from, to), expected);
    }
    assert!(
        refusal(r#""name": "t""#, r#""name": "t", "policy": "guess""#).starts_with("`targets[0].policy` is `guess`: ")
    );
    assert!(refusal(r#""name": "t""#, r#""nome": "t""#).contains("unknown field `nome`"));
}

#[test]
fn a_closed_loop_must_have_an_end() {
    let refusal = refusal(r#"{"open": {"seconds": 10}}"#, r#"{"closed": {"clients": 3}}"#);
    assert!(refusal.starts_with("`load.closed.seconds` is inf"), "{refusal}");
}
