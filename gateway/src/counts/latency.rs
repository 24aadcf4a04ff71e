//! How long requests took, by target, as the conventions for generative AI have it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use espalier_metrics::catalogue::{REQUEST_DURATION, TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN, TOKEN_USAGE};
use espalier_metrics::{Exemplar, Histogram, Snapshot, TraceId};
use espalier_proto::FaultKind;
use parking_lot::Mutex;

/// What the conventions call what is done here, and who does it.
const OPERATION: &str = "text_completion";
const PROVIDER: &str = "espalier";

/// The times of requests, by target.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<BTreeMap<String, Arc<OfTarget>>>);

/// The times of a target's requests.
#[derive(Debug)]
pub(super) struct OfTarget {
    finished: Histogram,
    failed: Mutex<BTreeMap<&'static str, Histogram>>,
    first_token: Histogram,
    output_token: Histogram,
    input: Histogram,
    output: Histogram,
}

/// What a request that is over took, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Took {
    pub(super) seconds: f64,
    /// The trace that it belongs to.
    pub(super) trace: Option<TraceId>,
}

/// What a request that did not fail used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Used {
    pub(super) prompt_tokens: usize,
    pub(super) completion_tokens: usize,
    /// For each token after the first ones; none where there were no others.
    pub(super) seconds_per_token: Option<f64>,
}

impl Latencies {
    /// Those of a target. There are no more names than targets were heard of.
    pub(super) fn of(&self, target: &str) -> Arc<OfTarget> {
        let mut targets = self.0.lock();
        if let Some(known) = targets.get(target) {
            return Arc::clone(known);
        }
        Arc::clone(targets.entry(target.to_owned()).or_default())
    }

    pub(super) fn tell(&self, to: &mut Snapshot) {
        // Told without the lock, so that requests do not wait.
        let targets = self.0.lock().clone();
        targets.iter().for_each(|(target, times)| times.tell(target, to));
    }
}

impl Default for OfTarget {
    fn default() -> Self {
        Self {
            finished: Histogram::of(&REQUEST_DURATION),
            failed: Mutex::default(),
            first_token: Histogram::of(&TIME_TO_FIRST_TOKEN),
            output_token: Histogram::of(&TIME_PER_OUTPUT_TOKEN),
            input: Histogram::of(&TOKEN_USAGE),
            output: Histogram::of(&TOKEN_USAGE),
        }
    }
}

impl OfTarget {
    /// Its first token has come.
    pub(super) fn began(&self, took: Took) {
        add(&self.first_token, took);
    }

    /// It has ended.
    pub(super) fn finished(&self, took: Took, used: &Used) {
        add(&self.finished, took);
        self.input.add(used.prompt_tokens as f64);
        self.output.add(used.completion_tokens as f64);
        if let Some(seconds) = used.seconds_per_token {
            add(&self.output_token, Took { seconds, ..took });
        }
    }

    /// It has failed.
    pub(super) fn failed(&self, kind: FaultKind, took: Took) {
        let mut failed = self.failed.lock();
        add(failed.entry(error_type(kind)).or_insert_with(|| Histogram::of(&REQUEST_DURATION)), took);
    }

    fn tell(&self, target: &str, to: &mut Snapshot) {
        let labels = [OPERATION, PROVIDER, target];
        let with = |last| [OPERATION, PROVIDER, target, last];
        to.tell(&REQUEST_DURATION, &with(""), &self.finished);
        for (error, times) in &*self.failed.lock() {
            to.tell(&REQUEST_DURATION, &with(error), times);
        }
        to.tell(&TIME_TO_FIRST_TOKEN, &labels, &self.first_token);
        to.tell(&TIME_PER_OUTPUT_TOKEN, &labels, &self.output_token);
        to.tell(&TOKEN_USAGE, &with("input"), &self.input);
        to.tell(&TOKEN_USAGE, &with("output"), &self.output);
    }
}

fn add(times: &Histogram, Took { seconds, trace }: Took) {
    match trace {
        Some(trace) => times.add_of_trace(Exemplar { value: seconds, at: SystemTime::now(), trace }),
        None => times.add(seconds),
    }
}

/// The word for what sort of failure it was: that of the status that clients see.
fn error_type(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::BadInput => "invalid_argument",
        FaultKind::Unauthenticated => "unauthenticated",
        FaultKind::PermissionDenied => "permission_denied",
        FaultKind::Overloaded => "resource_exhausted",
        FaultKind::LostSequence => "failed_precondition",
        FaultKind::Gone => "unavailable",
        FaultKind::Late => "deadline_exceeded",
        FaultKind::Cancelled => "cancelled",
        FaultKind::Internal => "internal",
    }
}
