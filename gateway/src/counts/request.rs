//! One request, from when it comes in to its end.

use std::sync::Arc;
use std::time::Duration;

use espalier_metrics::TraceId;
use espalier_proto::{Completion, Fault, FaultKind, GenerationEvent, Party, RoundCounts, RoundReport};
use espalier_service_kit::current_trace;
use espalier_speculation::FinishReason;
use tokio::time::Instant;

use super::Counts;
use super::latency::{OfTarget, Took, Used};
use super::outcomes::End;
use super::speculation::{OfPair, Pair};
use crate::error::GatewayError;

/// Counts the rounds of a request, how long it takes, and how it ends.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Arc<Counts>,
    came_in: Instant,
    trace: Option<TraceId>,
    /// What is counted for its target, once it is let in.
    target: Option<Target>,
    has_ended: bool,
}

/// What is counted for the target of a request.
#[derive(Debug)]
struct Target {
    name: String,
    latencies: Arc<OfTarget>,
    /// The rounds of whoever drafts.
    pair: Option<Arc<OfPair>>,
    first: Option<First>,
}

/// The first tokens of an answer.
#[derive(Debug, Clone, Copy)]
struct First {
    at: Instant,
    tokens: usize,
}

impl Counts {
    /// A request that came in.
    pub(crate) fn request(self: &Arc<Self>) -> Counted {
        Counted {
            counts: Arc::clone(self),
            came_in: Instant::now(),
            trace: current_trace(),
            target: None,
            has_ended: false,
        }
    }

    /// A request has got its slot, after so long.
    pub(crate) fn waited(&self, waited: Duration) {
        self.queue_time.add(waited.as_secs_f64());
    }
}

impl Counted {
    /// It was not let in; it is for this target, if there is one of the name that was given.
    pub(crate) fn turned_away(&mut self, why: &GatewayError, target: Option<&str>) {
        self.counts.outcomes.turn_away(why);
        self.end_for(target.unwrap_or_default(), End::turned_away(why));
    }

    /// It was let in, for this target.
    pub(crate) fn let_in(&mut self, target: &str) {
        let latencies = self.counts.latencies.of(target);
        self.target = Some(Target { name: target.to_owned(), latencies, pair: None, first: None });
    }

    /// A round was committed that `drafter` drafted for.
    pub(crate) fn round(&mut self, report: &RoundReport, drafter: &str) {
        let cost = &report.cost;
        let [drafted, verified, accepted, tokens] =
            [cost.drafted, cost.verified, report.accepted, report.tokens.len()].map(|count| count as u64);
        self.counts.rounds.add(&RoundCounts { rounds: 1, drafted, verified, accepted, tokens });
        let took = self.took();
        let Some(target) = &mut self.target else { return };
        if target.first.is_none() {
            target.first = Some(First { at: Instant::now(), tokens: report.tokens.len() });
            target.latencies.began(took);
        }
        let speculation = &self.counts.speculation;
        let pair = || speculation.of(Pair { target: target.name.clone(), drafter: drafter.to_owned() });
        let known = target.pair.take().filter(|pair| pair.is_of(drafter));
        target.pair.insert(known.unwrap_or_else(pair)).add(report);
    }

    /// It is opened again elsewhere, as `party` was lost.
    pub(crate) fn fails_over(&self, party: Party) {
        self.counts.failovers.lost(party);
    }

    /// It is opened again elsewhere, as where it was drains.
    pub(crate) fn moves(&self) {
        self.counts.failovers.moved();
    }

    /// The client is about to be told this.
    pub(crate) fn tells(&mut self, event: &Result<GenerationEvent, Fault>) {
        match event {
            Ok(GenerationEvent::Begun(_) | GenerationEvent::Tokens(_)) => {}
            Ok(GenerationEvent::Finished(completion)) => self.finished(completion),
            Err(fault) => self.failed(fault),
        }
    }

    fn finished(&mut self, completion: &Completion) {
        if let Some(target) = &self.target {
            let seconds_per_token =
                target.first.and_then(|first| first.seconds_per_further(completion.completion_tokens));
            let Completion { prompt_tokens, completion_tokens, .. } = *completion;
            target.latencies.finished(self.took(), &Used { prompt_tokens, completion_tokens, seconds_per_token });
        }
        self.end(if completion.reason == FinishReason::Stop { End::Stop } else { End::Length });
    }

    fn failed(&mut self, fault: &Fault) {
        if let Some(target) = &self.target {
            target.latencies.failed(fault.kind, self.took());
        }
        self.end(if fault.kind == FaultKind::Cancelled { End::Abandoned } else { End::Failed });
    }

    /// What it has taken so far.
    fn took(&self) -> Took {
        Took { seconds: self.came_in.elapsed().as_secs_f64(), trace: self.trace }
    }

    fn end(&mut self, end: End) {
        let name = self.target.as_ref().map(|target| target.name.clone());
        self.end_for(&name.unwrap_or_default(), end);
    }

    fn end_for(&mut self, target: &str, end: End) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.counts.outcomes.end(target, end);
        }
    }
}

impl First {
    /// Seconds for each token of an answer of so many that came after the first ones; none where none did.
    fn seconds_per_further(self, tokens: usize) -> Option<f64> {
        let further = tokens.checked_sub(self.tokens).filter(|further| *further > 0)?;
        Some(self.at.elapsed().as_secs_f64() / further as f64)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.end(End::Abandoned);
    }
}
