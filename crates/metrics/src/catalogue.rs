//! Every metric of every service: its name, here and nowhere else. `docs/telemetry.md` has the same list for people.
//!
//! Names that begin with `gen_ai` are those of OpenTelemetry's conventions for generative AI.

use crate::metric::Kind::{Counter, Gauge, Histogram};
use crate::metric::Metric;
use crate::metric::Unit::{Bytes, Ratio, Seconds, Things};

/// From a millisecond to minutes: requests, and their parts.
const REQUEST_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0];

/// From 0.1 ms to seconds: tokens, and passes.
const PASS_SECONDS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Tokens of a prompt or an answer.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
];

/// Rows of a pass.
const ROWS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

const MODEL: &[&str] = &["role", "model"];
const PAIR: &[&str] = &["target", "drafter"];
const GEN_AI: &[&str] = &["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"];

macro_rules! catalogue {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $kind:expr, $unit:expr, $labels:expr, $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`: ", $help, ".")]
            pub static $id: Metric = Metric { name: $name, kind: $kind, unit: $unit, labels: $labels, help: $help };
        )*

        /// All of them.
        pub static ALL: &[&Metric] = &[$(&$id),*];
    };
}

catalogue! {
    // What each process tells.
    BUILD_INFO = "espalier.build_info", Gauge, Things("build"), &["program", "version"], "1; which program this is, of which version";
    READY = "espalier.ready", Gauge, Things("service"), &["component"],
        "1 if this service of the process takes calls, 0 while it loads or drains";
    RESIDENT_MEMORY = "process.resident_memory", Gauge, Bytes, &[], "Memory of the process that is resident";

    // Requests, as clients see them.
    REQUEST_DURATION = "gen_ai.server.request.duration", Histogram(REQUEST_SECONDS), Seconds,
        &["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"],
        "Time from when a request came in to its last token or its failure; `error.type` is absent if it did not fail";
    TIME_TO_FIRST_TOKEN = "gen_ai.server.time_to_first_token", Histogram(REQUEST_SECONDS), Seconds, GEN_AI,
        "Time from when a request came in to its first token";
    TIME_PER_OUTPUT_TOKEN = "gen_ai.server.time_per_output_token", Histogram(PASS_SECONDS), Seconds, GEN_AI,
        "Time after the first token, over the tokens that came in it, of a request that did not fail";
    TOKEN_USAGE = "gen_ai.client.token.usage", Histogram(TOKENS), Things("token"),
        &["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.token.type"],
        "Tokens of prompts (`input`) and of answers (`output`) of requests that did not fail";
    REQUESTS = "espalier.requests", Counter, Things("request"), &["target", "end"],
        "Requests that are over: `stop`, `length`, `failed`, `abandoned`, `refused` or `invalid`; without a target where none \
         is known by the name that was given";
    REFUSALS = "espalier.refusals", Counter, Things("request"), &["reason"], "Requests that were not let in";
    REQUESTS_RUNNING = "espalier.requests.running", Gauge, Things("request"), &[], "Requests that are being served";
    REQUESTS_QUEUED = "espalier.requests.queued", Gauge, Things("request"), &[], "Requests that wait for a slot";
    REQUESTS_LIMIT = "espalier.requests.limit", Gauge, Things("request"), &[], "Requests that may be served at once";
    QUEUE_TIME = "espalier.request.queue_time", Histogram(REQUEST_SECONDS), Seconds, &[],
        "Time that requests waited for a slot";

    // Speculation, as the gateway sees it.
    DRAFTS = "espalier.spec_decode.drafts", Counter, Things("tree"), PAIR, "Trees that were verified";
    DRAFT_TOKENS = "espalier.spec_decode.draft_tokens", Counter, Things("token"), PAIR, "Nodes of trees that were verified";
    ACCEPTED_TOKENS = "espalier.spec_decode.accepted_tokens", Counter, Things("token"), PAIR,
        "Draft tokens that were committed";
    ACCEPTED_TOKENS_PER_POSITION = "espalier.spec_decode.accepted_tokens_per_pos", Counter, Things("token"),
        &["target", "drafter", "position"], "The same by depth of the node, from 0 on";
    ROUNDS = "espalier.rounds", Counter, Things("round"), PAIR, "Rounds, those without a tree included";
    TOKENS_COMMITTED = "espalier.tokens", Counter, Things("token"), PAIR, "Tokens committed";
    ROUND_TIME = "espalier.round.time", Counter, Seconds, &["target", "drafter", "part"],
        "Time of rounds spent on growing trees (`draft`), in passes of the target (`verify`), and on all else (`wait`)";
    FAILOVERS = "espalier.failovers", Counter, Things("failover"), &["party"],
        "Sequences that were opened again elsewhere, by who was lost, or `moved` where a service drained";
    SERVICE_UP = "espalier.service_up", Gauge, Things("service"), &["role", "name", "url"],
        "1 if the gateway sends sequences there, 0 if it is down or drains";
    ACCEPTANCE_COLLAPSED = "espalier.acceptance_collapsed", Gauge, Things("pair"), PAIR,
        "1 while far fewer draft tokens are accepted than before";

    // Models at work.
    SEQUENCES_OPEN = "espalier.sequences.open", Gauge, Things("sequence"), MODEL, "Sequences that are open";
    SEQUENCES_LIMIT = "espalier.sequences.limit", Gauge, Things("sequence"), MODEL, "Sequences that may be open at once";
    TREES_WAITING = "espalier.trees.waiting", Gauge, Things("tree"), MODEL,
        "Trees that wait for the model: to be verified, or to be grown";
    PASSES = "espalier.passes", Counter, Things("pass"), MODEL,
        "Forward passes; of a drafter levels of trees, and pieces of prompts";
    PASS_ROWS = "espalier.pass.rows", Histogram(ROWS), Things("row"), MODEL, "Rows of passes";
    PASS_DURATION = "espalier.pass.duration", Histogram(PASS_SECONDS), Seconds, MODEL, "Time of passes";
    PASS_SEQUENCES = "espalier.pass.sequences", Counter, Things("sequence"), MODEL,
        "Sequences that had rows in a pass, summed over passes";
    PASS_SEQUENCES_MISSED = "espalier.pass.sequences_missed", Counter, Things("sequence"), &["model"],
        "Sequences of a verifier past their prompt that had none, summed over passes";
    MODEL_ROUNDS = "espalier.model.rounds", Counter, Things("round"), MODEL, "Rounds that were decided, or drafted for";
    MODEL_TOKENS = "espalier.model.tokens", Counter, Things("token"), MODEL, "Tokens that these committed";
    KV_BLOCKS = "espalier.kv.blocks", Gauge, Things("block"), &["role", "model", "state"],
        "Blocks of memory for keys and values: `held` by sequences, `promised` to them, `lingering` with a prefix that may be \
         wanted again, or `free`";
    KV_BLOCK_SIZE = "espalier.kv.block_size", Gauge, Bytes, MODEL, "Bytes of a block";
    ENGINE_TURN_AGE = "espalier.engine.turn_age", Gauge, Seconds, MODEL,
        "How long the model's thread has been at its present turn, 0 if it has nothing to do";
    PASS_COST = "espalier.pass.cost", Gauge, Seconds, &["role", "model", "rows"],
        "What a pass of so many rows takes while nothing else runs, as measured at the start";

    // What a drafter has learned.
    GATE_DRAFTING = "espalier.gate.drafting", Gauge, Things("gate"), &["drafter", "target", "verifier"],
        "The share of a verifier's gates that draft, in place of resting";
    GATE_SPEEDUP = "espalier.gate.speedup", Gauge, Ratio, &["drafter", "target", "verifier"],
        "What drafting makes of plain decoding at the present load, as the gate believes: tokens a second, over those without";
    LEVEL_COST = "espalier.cost.level", Gauge, Seconds, &["drafter", "target"],
        "What a level of a tree takes, as lately grown";
    VERIFICATION_COST = "espalier.cost.verification", Gauge, Seconds, &["drafter", "target", "rows"],
        "What a verification of so many rows takes, ways and queues included, as measured lately";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_of_the_form_that_both_systems_take() {
        let names: BTreeSet<String> = ALL.iter().map(|metric| metric.prometheus_name()).collect();
        assert_eq!(names.len(), ALL.len());
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        for metric in ALL {
            assert!(metric.prometheus_name().chars().all(plain), "{}", metric.name);
            assert!(metric.labels.iter().all(|label| label.replace('.', "_").chars().all(plain)), "{}", metric.name);
            assert!(!metric.labels.contains(&"le") && !metric.help.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn bounds_of_buckets_grow() {
        for metric in ALL {
            if let Histogram(bounds) = metric.kind {
                assert!(bounds.is_sorted_by(|low, high| low < high), "{}", metric.name);
            }
        }
    }
}
