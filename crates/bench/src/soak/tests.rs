//! A small soak of a whole system.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{parsed, shipped};

#[tokio::test(flavor = "multi_thread")]
async fn of_sequences_that_are_cancelled_late_or_refused_nothing_is_left() {
    let fixed = ["--prompts", "p.jsonl", "--drafter", "small:2"];
    let flags = ["--sequences", "60", "--concurrency", "12", "--slots", "3", "--max-tokens", "12"];
    let args: Soak = parsed(&[&fixed[..], &flags].concat());
    let running = start(plan(&shipped(), &args).unwrap()).await.unwrap();
    let prompts = ["What is 2 + 3?", "How old is Ann?"].map(str::to_owned);
    let report = soak(&running, &prompts, &args).await.unwrap();
    running.stop().await.unwrap();
    // Other tests share the process, so its memory says nothing here.
    assert!(report.improper == 0 && report.is_free() && report.has_no_more_tasks(), "{report:?}");
    assert!(report.finished > 0 && report.cancelled > 0, "{report:?}");
    assert_eq!(report.finished + report.cancelled + report.late + report.refused, 60);
}
