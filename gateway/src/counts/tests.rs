use std::sync::Arc;
use std::time::Duration;

use espalier_metrics::{Snapshot, TextFormat};
use espalier_proto::{
    Completion, Fault, FaultKind, GenerationEvent, Party, RoundCost, RoundReport, SpeculationSummary,
};
use espalier_speculation::FinishReason;
use tokio::time::advance;

use super::*;
use crate::admission::{Reason, Refusal};
use crate::error::{GatewayError, RequestError};

fn round(verified: usize, accepted: usize) -> RoundReport {
    let tokens = vec![7; accepted + 1];
    let [draft, verify, wait] = [1, 2, 3].map(Duration::from_millis);
    let cost = RoundCost { drafted: verified, verified, depth: verified, draft, verify, wait };
    RoundReport { round: 0, tokens, logprobs: Vec::new(), accepted, cost, tree: None }
}

fn completion(completion_tokens: usize) -> Result<GenerationEvent, Fault> {
    Ok(GenerationEvent::Finished(Box::new(Completion {
        reason: FinishReason::Stop,
        prompt_tokens: 10,
        completion_tokens,
        speculation: SpeculationSummary::default(),
        text: String::new(),
        seed: 0,
        stop_string: None,
    })))
}

/// What was counted, as lines of text without those that say what they are.
fn told(counts: &Counts) -> Vec<String> {
    let mut snapshot = Snapshot::default();
    let Counts { outcomes, failovers, latencies, speculation, .. } = counts;
    outcomes.tell(&mut snapshot);
    failovers.tell(&mut snapshot);
    latencies.tell(&mut snapshot);
    speculation.tell(&mut snapshot);
    let text = snapshot.text(TextFormat::Prometheus).to_string();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn assert_told(counts: &Counts, lines: &[&str]) {
    let told = told(counts);
    for line in lines {
        assert!(told.iter().any(|found| found == line), "{line} is not in\n{}", told.join("\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_counted_from_when_it_comes_in_to_its_last_token() {
    let counts = Arc::new(Counts::default());
    let mut request = counts.request();
    advance(Duration::from_millis(300)).await;
    request.let_in("medium");
    request.round(&round(4, 2), "sorted");
    advance(Duration::from_millis(700)).await;
    request.round(&round(0, 0), "sorted");
    request.round(&round(2, 1), "sorted");
    request.tells(&completion(6));
    drop(request);
    let of = r#"gen_ai_operation_name="text_completion",gen_ai_provider_name="espalier",gen_ai_request_model="medium""#;
    let latencies = [
        format!("gen_ai_server_time_to_first_token_seconds_sum{{{of}}} 0.3"),
        format!("gen_ai_server_request_duration_seconds_sum{{{of}}} 1.0"),
        // Of the three tokens that came after the first three.
        format!("gen_ai_server_time_per_output_token_seconds_count{{{of}}} 1"),
        format!("gen_ai_server_time_per_output_token_seconds_sum{{{of}}} {:?}", 0.7 / 3.0),
        format!("gen_ai_client_token_usage_sum{{{of},gen_ai_token_type=\"input\"}} 10.0"),
        format!("gen_ai_client_token_usage_sum{{{of},gen_ai_token_type=\"output\"}} 6.0"),
    ];
    assert_told(&counts, &latencies.each_ref().map(String::as_str));
    assert_told(
        &counts,
        &[
            r#"espalier_requests_total{target="medium",end="stop"} 1"#,
            r#"espalier_requests_total{target="medium",end="abandoned"} 0"#,
            r#"espalier_rounds_total{target="medium",drafter="sorted"} 3"#,
            r#"espalier_spec_decode_drafts_total{target="medium",drafter="sorted"} 2"#,
            r#"espalier_spec_decode_draft_tokens_total{target="medium",drafter="sorted"} 6"#,
            r#"espalier_spec_decode_accepted_tokens_total{target="medium",drafter="sorted"} 3"#,
            r#"espalier_spec_decode_accepted_tokens_per_pos_total{target="medium",drafter="sorted",position="0"} 2"#,
            r#"espalier_spec_decode_accepted_tokens_per_pos_total{target="medium",drafter="sorted",position="1"} 1"#,
            r#"espalier_tokens_total{target="medium",drafter="sorted"} 6"#,
            r#"espalier_round_time_seconds_total{target="medium",drafter="sorted",part="verify"} 0.006"#,
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_over_counts_each_of_its_drafters() {
    let counts = Arc::new(Counts::default());
    let mut request = counts.request();
    request.let_in("medium");
    request.round(&round(4, 2), "sorted");
    request.fails_over(Party::Drafter);
    request.round(&round(3, 0), "ngram");
    request.moves();
    request.tells(&Err(Fault::new(Party::Verifier, FaultKind::Gone, "lost")));
    assert_told(
        &counts,
        &[
            r#"espalier_spec_decode_drafts_total{target="medium",drafter="sorted"} 1"#,
            r#"espalier_spec_decode_drafts_total{target="medium",drafter="ngram"} 1"#,
            r#"espalier_failovers_total{party="drafter"} 1"#,
            r#"espalier_failovers_total{party="moved"} 1"#,
            r#"espalier_requests_total{target="medium",end="failed"} 1"#,
        ],
    );
    let failed = told(&counts).into_iter().find(|line| line.contains(r#"error_type="unavailable"} 1"#));
    assert!(failed.is_some());
}

#[tokio::test]
async fn who_is_not_let_in_is_counted_by_why() {
    let counts = Arc::new(Counts::default());
    let full = Refusal { reason: Reason::Full { running: 1, queued: 1 }, retry_after: None };
    counts.request().turned_away(&GatewayError::Refused(full), Some("medium"));
    counts.request().turned_away(&GatewayError::Request(RequestError::NoTokens), None);
    drop(counts.request());
    assert_told(
        &counts,
        &[
            r#"espalier_refusals_total{reason="queue_full"} 1"#,
            r#"espalier_refusals_total{reason="invalid"} 1"#,
            r#"espalier_requests_total{target="medium",end="refused"} 1"#,
            r#"espalier_requests_total{end="invalid"} 1"#,
            r#"espalier_requests_total{end="abandoned"} 1"#,
        ],
    );
    let sum = counts.ended();
    assert_eq!((sum.refused, sum.invalid, sum.abandoned), (1, 1, 1));
}
