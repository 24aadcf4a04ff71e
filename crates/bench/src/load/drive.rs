//! Sends the requests of one turn and waits for what becomes of them.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use espalier_client::Client;
use espalier_local::LocalError;
use espalier_proto::GenerationRequest;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::outcome::{Outcome, Text};
use crate::error::BenchError;

/// The longest pause of a client that was refused before it asks for something else.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A request of an arm, and the text that has to come.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) request: GenerationRequest,
    pub(super) expected: Text,
}

/// What is asked in a turn, over and over, and of whom.
pub(super) struct Asking {
    pub(super) client: Client,
    pub(super) questions: Vec<Question>,
    /// The place of the turn's first question.
    pub(super) first: usize,
    /// How many requests there are to be.
    pub(super) requests: usize,
    /// The longest that one may take.
    pub(super) deadline: Duration,
    /// Hears of every outcome.
    pub(super) heard: Box<dyn Fn() + Send + Sync>,
}

impl Asking {
    /// Sends the turn's request of index `i`, which arrived at `arrived`; `begins` hears of every token.
    async fn ask(&self, i: usize, arrived: Instant, mut begins: impl FnMut()) -> Option<Outcome> {
        let question = self.questions.get((self.first + i) % self.questions.len().max(1))?;
        let begun = Instant::now();
        let late = begun.saturating_duration_since(arrived);
        let mut client = self.client.clone();
        let answered = timeout(self.deadline, client.generate(question.request.clone(), |_| begins())).await;
        let took = begun.elapsed();
        let outcome = answered.map_or(Outcome::Late, |result| Outcome::new(result, late, took, &question.expected));
        (self.heard)();
        Some(outcome)
    }

    /// One client: sends the turn's next request until there is none; `begun` is let go with its first token.
    async fn over_and_over(&self, next: &AtomicUsize, begun: oneshot::Sender<Infallible>) -> Vec<Outcome> {
        let (mut begun, mut outcomes) = (Some(begun), Vec::new());
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= self.requests {
                return outcomes;
            }
            let outcome = self.ask(i, Instant::now(), || drop(begun.take())).await;
            drop(begun.take());
            if let Some(Outcome::Refused { hint, .. }) = outcome {
                sleep(hint.unwrap_or(REFUSED_PAUSE_MAX).min(REFUSED_PAUSE_MAX)).await;
            }
            outcomes.extend(outcome);
        }
    }
}

/// Clients of which each asks again as soon as it has its answer, or as long after a refusal as it was told.
///
/// They begin one after the other, each when the one before has its first token: clients that began together would stay
/// together, and all prompts come in one burst after another, as they do not in a system that runs for long.
pub(super) async fn closed(asking: Arc<Asking>, clients: usize) -> Result<Vec<Outcome>, BenchError> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut working = JoinSet::new();
    let mut before = None;
    for _ in 0..clients {
        let (asking, next) = (Arc::clone(&asking), Arc::clone(&next));
        let (begun, after) = oneshot::channel::<Infallible>();
        let before = before.replace(after);
        working.spawn(async move {
            if let Some(before) = before {
                // It tells by letting go.
                let _ = before.await;
            }
            asking.over_and_over(&next, begun).await
        });
    }
    all(working).await
}

/// Requests that arrive so long after the beginning, whatever becomes of those before them.
pub(super) async fn open(asking: Arc<Asking>, arrivals: Vec<Duration>) -> Result<Vec<Outcome>, BenchError> {
    let begun = Instant::now();
    let mut working = JoinSet::new();
    for (i, after) in arrivals.into_iter().take(asking.requests).enumerate() {
        let arrived = begun + after;
        sleep_until(arrived.into()).await;
        let asking = Arc::clone(&asking);
        working.spawn(async move { asking.ask(i, arrived, || {}).await.into_iter().collect() });
    }
    all(working).await
}

async fn all(mut working: JoinSet<Vec<Outcome>>) -> Result<Vec<Outcome>, BenchError> {
    let mut outcomes = Vec::new();
    while let Some(done) = working.join_next().await {
        outcomes.extend(done.map_err(LocalError::from)?);
    }
    Ok(outcomes)
}
