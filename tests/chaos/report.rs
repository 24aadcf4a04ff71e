//! What was survived.

use std::time::Duration;

use serde_json::json;

use crate::storm::{Faults, Outcome};

/// What became of all requests.
pub(crate) struct Report {
    answers: usize,
    wrong: Vec<String>,
    resumed: usize,
    opened_again: usize,
    /// The latency that faults added, shortest first.
    added: Vec<Duration>,
    /// What faults may add to 99 of 100 answers, if that is limited.
    added_max: Option<Duration>,
    faults: Vec<(String, String, usize)>,
}

impl Report {
    /// From all outcomes.
    pub(crate) fn new(outcomes: &[Outcome], faults: &Faults, added_max: Option<Duration>) -> Self {
        let mut added: Vec<Duration> = outcomes.iter().map(|outcome| outcome.added).collect();
        added.sort_unstable();
        Self {
            answers: outcomes.len(),
            wrong: outcomes.iter().filter_map(|outcome| outcome.wrong.clone()).collect(),
            resumed: outcomes.iter().filter(|outcome| outcome.resumed > 0).count(),
            opened_again: outcomes.iter().filter(|outcome| outcome.failovers > 0).count(),
            added,
            added_max,
            faults: faults.iter().map(|((group, kind), &count)| (group.clone(), kind.to_string(), count)).collect(),
        }
    }

    /// Whether all were right, and few late.
    pub(crate) fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.added_max.is_none_or(|limit| self.added_at(99) <= limit)
    }

    fn added_at(&self, percent: usize) -> Duration {
        let index = (self.added.len() * percent).div_ceil(100).saturating_sub(1);
        self.added.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn print(&self, json: bool) {
        let seconds = |percent| self.added_at(percent).as_secs_f64();
        let right = self.answers - self.wrong.len();
        if json {
            let faults: Vec<_> = self
                .faults
                .iter()
                .map(|(group, kind, count)| json!({ "who": group, "what": kind, "times": count }))
                .collect();
            let report = json!({
                "answers": self.answers, "right": right, "wrong": self.wrong, "resumed": self.resumed,
                "opened_again": self.opened_again, "faults": faults,
                "added_s": { "p50": seconds(50), "p95": seconds(95), "p99": seconds(99), "max": seconds(100) },
            });
            println!("{report}");
            return;
        }
        println!("{right} of {} answers are right to the byte", self.answers);
        println!(
            "{} were gone on with by their clients, {} opened again by a gateway",
            self.resumed, self.opened_again
        );
        let [p50, p95, p99, most] = [50, 95, 99, 100].map(seconds);
        let limit = self.added_max.map_or(String::new(), |limit| format!(" (limit {:.2})", limit.as_secs_f64()));
        println!("added latency: median {p50:.2} s, p95 {p95:.2} s, p99 {p99:.2} s{limit}, most {most:.2} s");
        for (group, kind, count) in &self.faults {
            println!("{group:>10} {kind:<8} {count:>4} times");
        }
        for wrong in self.wrong.iter().take(5) {
            println!("wrong: {wrong}");
        }
    }
}
