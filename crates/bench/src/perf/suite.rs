//! What is measured, by which commands, and how their JSON is read.

use serde::Serialize;
use serde_json::Value;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::TokensPerSecond => "tokens/s",
        }
    }

    pub(super) fn digits(self) -> usize {
        match self {
            Self::Milliseconds => 3,
            Self::TokensPerSecond => 0,
        }
    }

    /// How many times as fast as the base the new build is: of times the shorter one, of rates the greater one is
    /// faster.
    pub(super) fn speed_ratio(self, base: f64, new: f64) -> f64 {
        match self {
            Self::Milliseconds => base / new,
            Self::TokensPerSecond => new / base,
        }
    }
}

/// A figure of one build in one turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) value: f64,
}

/// A command and what to make of it.
pub(super) struct Suite {
    pub(super) name: &'static str,
    args: &'static [&'static str],
    /// The most prompts that it asks; none where it asks nothing.
    prompts: Option<&'static str>,
    pub(super) read: fn(&[Value]) -> Vec<Figure>,
}

impl Suite {
    pub(super) fn args(&self, prompts: &str) -> Vec<String> {
        let asked = self.prompts.iter().flat_map(|limit| ["--prompts", prompts, "--limit", limit]);
        self.args.iter().copied().chain(asked).chain(["--json"]).map(str::to_owned).collect()
    }
}

/// What is measured. All is named, so that another build's defaults change nothing. One turn of both builds takes about
/// a minute on two idle cores.
pub(super) const SUITES: [Suite; 4] = [
    Suite { name: "kernels", args: &["bench", "kernels", "--targets", "medium"], prompts: None, read: kernels },
    Suite { name: "medium", args: &MEDIUM, prompts: Some("4"), read: answers },
    Suite { name: "small", args: &SMALL, prompts: Some("4"), read: answers },
    Suite { name: "load", args: &LOAD, prompts: Some("24"), read: load },
];

/// A policy under which every drafter drafts, whatever it costs.
const ALWAYS: &str = "constant,k=5";

#[rustfmt::skip]
const MEDIUM: [&str; 10] = [
    "bench", "policies", "--target", "medium", "--drafter", "sorted,medium-edd,medium-early-exit,small",
    "--policies", "expected-gain;constant,k=5", "--max-tokens", "64",
];

#[rustfmt::skip]
const SMALL: [&str; 10] = [
    "bench", "policies", "--target", "small", "--drafter", "sorted", "--policies", "expected-gain",
    "--max-tokens", "64",
];

#[rustfmt::skip]
const LOAD: [&str; 14] = [
    "bench", "load", "--targets", "medium", "--drafter", "sorted", "--concurrency", "1,4,16", "--requests", "32",
    "--repeats", "1", "--max-tokens", "32",
];

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn figure(name: String, unit: Unit, value: Option<f64>) -> Option<Figure> {
    let value = value.filter(|value| value.is_finite() && *value > 0.0)?;
    Some(Figure { name, unit, value })
}

/// Milliseconds of a pass over one sequence, and of a pass over several.
fn kernels(lines: &[Value]) -> Vec<Figure> {
    lines.iter().flat_map(|model| [passes(model, "passes"), passes(model, "together")].concat()).collect()
}

fn passes(model: &Value, key: &str) -> Vec<Figure> {
    let read = |pass: &Value| {
        let sequences = pass["sequences"].as_u64().unwrap_or(1);
        let rows = pass["rows"].as_u64()?;
        let name = format!("weights {}, {sequences} x {rows} rows", text(model, "weights"));
        figure(name, Unit::Milliseconds, pass["ms"].as_f64())
    };
    model[key].as_array().into_iter().flatten().filter_map(read).collect()
}

/// Tokens a second of each arm, after the first token of each answer; and under [`ALWAYS`] milliseconds that its
/// drafter takes for a node.
fn answers(lines: &[Value]) -> Vec<Figure> {
    let read = |line: &Value| {
        let (drafter, policy) = (text(line, "drafter"), text(line, "policy"));
        if policy == ALWAYS {
            let ms = 1e3 * line["draft_seconds"].as_f64()? / line["drafted"].as_f64()?;
            return figure(format!("{drafter} drafts a node"), Unit::Milliseconds, Some(ms));
        }
        figure(format!("{drafter}, {policy}"), Unit::TokensPerSecond, line["tokens_per_second"].as_f64())
    };
    lines.iter().filter_map(read).collect()
}

/// Tokens a second, and the median time to the first token, of each arm at each number of requests at once.
fn load(lines: &[Value]) -> Vec<Figure> {
    let read = |line: &Value| {
        let arm = if text(line, "arm") == "plain" { "plain" } else { text(line, "drafter") };
        let name = format!("{arm}, {} at once", line["concurrency"].as_u64().unwrap_or(0));
        let first = line["first_token_ms"]["p50"].as_f64();
        [
            figure(name.clone(), Unit::TokensPerSecond, line["tokens_per_second"].as_f64()),
            figure(format!("{name}, first token"), Unit::Milliseconds, first),
        ]
    };
    lines.iter().flat_map(read).flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(figures: &[Figure]) -> Vec<(&str, &str, f64)> {
        figures.iter().map(|figure| (figure.name.as_str(), figure.unit.name(), figure.value)).collect()
    }

    #[test]
    fn kernels_are_read_by_rows_and_sequences() {
        let model = json!({
            "weights": "f32", "passes": [{"rows": 8, "ms": 1.5}], "together": [{"sequences": 8, "rows": 3, "ms": 2.0}],
        });
        let found = kernels(&[json!({"threads": 2}), model]);
        assert_eq!(told(&found), [("weights f32, 1 x 8 rows", "ms", 1.5), ("weights f32, 8 x 3 rows", "ms", 2.0)]);
    }

    #[test]
    fn answers_are_read_by_arm_and_drafters_by_what_a_node_takes() {
        let plain = json!({"drafter": "none", "policy": "-", "tokens_per_second": 900.0});
        let arm = |policy: &str| {
            let rate = 1800.0;
            json!({"drafter": "d", "policy": policy, "tokens_per_second": rate, "drafted": 200, "draft_seconds": 0.1})
        };
        let skipped = json!({"drafter": "x", "policy": "p", "skipped": "why"});
        let found = answers(&[plain, arm("p"), arm(ALWAYS), skipped]);
        let expected = [("none, -", "tokens/s", 900.0), ("d, p", "tokens/s", 1800.0), ("d drafts a node", "ms", 0.5)];
        assert_eq!(told(&found), expected);
        assert!(MEDIUM.iter().any(|arg| arg.split(';').any(|policy| policy == ALWAYS)));
    }

    #[test]
    fn load_is_read_by_arm_and_level() {
        let first = json!({"p50": 12.0});
        let line = json!({
            "arm": "shared", "drafter": "d", "concurrency": 4, "tokens_per_second": 2000.0, "first_token_ms": first,
        });
        let expected = [("d, 4 at once", "tokens/s", 2000.0), ("d, 4 at once, first token", "ms", 12.0)];
        assert_eq!(told(&load(&[line])), expected);
    }

    #[test]
    fn speeds_not_times_are_compared() {
        assert_eq!(Unit::Milliseconds.speed_ratio(2.0, 1.0), 2.0);
        assert_eq!(Unit::TokensPerSecond.speed_ratio(2.0, 1.0), 0.5);
    }
}
