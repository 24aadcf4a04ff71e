//! Clients that ask one thing after another, until there is nothing left to ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use espalier_client::{Client, ClientError};
use espalier_local::LocalError;
use espalier_proto::GenerationRequest;
use indicatif::ProgressBar;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::ending::Ending;
use super::fate::Fate;
use crate::error::BenchError;

/// Names that clients go by.
const NAMES: usize = 4;

/// The longest pause of a client that was refused.
const HINT_MAX: Duration = Duration::from_millis(500);

/// A request, and the tokens that have to come.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) request: GenerationRequest,
    pub(super) expected: Vec<u32>,
}

/// What is asked, over and over, and of whom.
pub(super) struct Asking {
    pub(super) client: Client,
    pub(super) questions: Vec<Question>,
    pub(super) sequences: usize,
    /// Within what time sequences are cut off.
    pub(super) span: Duration,
    pub(super) seed: u64,
    pub(super) bar: ProgressBar,
}

impl Asking {
    /// What becomes of the sequence of index `i`.
    async fn ask(&self, client: &Client, i: usize) -> Option<(Fate, Ending)> {
        let Question { request, expected } = self.questions.get(i % self.questions.len().max(1))?;
        let fate = Fate::of(i, self.span, self.seed);
        let mut client = match fate {
            Fate::Due(within) => client.clone().within(within),
            Fate::Patient | Fate::Cancelled(_) => client.clone(),
        };
        let begun = Instant::now();
        let call = client.generate(request.clone(), |_| {});
        let called = match fate {
            Fate::Cancelled(after) => timeout(after, call).await.ok(),
            Fate::Patient | Fate::Due(_) => Some(call.await),
        };
        self.bar.inc(1);
        Some((fate, Ending::new(called, expected, begun.elapsed())))
    }

    /// One client: asks for the next sequence until there is none.
    async fn over_and_over(&self, client: &Client, next: &AtomicUsize) -> Vec<(Fate, Ending)> {
        let mut endings = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= self.sequences {
                return endings;
            }
            let Some((fate, ending)) = self.ask(client, i).await else { return endings };
            if let Ending::Refused { hint: Some(hint), .. } = ending {
                sleep(hint.min(HINT_MAX)).await;
            }
            endings.push((fate, ending));
        }
    }
}

/// All sequences, by so many clients, each asking again as soon as it is done, or as long after a refusal as it was told.
pub(super) async fn all(asking: Arc<Asking>, clients: usize) -> Result<Vec<(Fate, Ending)>, BenchError> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut working = JoinSet::new();
    for number in 0..clients {
        let client = named(&asking.client, number)?;
        let (asking, next) = (Arc::clone(&asking), Arc::clone(&next));
        working.spawn(async move { asking.over_and_over(&client, &next).await });
    }
    let mut endings = Vec::with_capacity(asking.sequences);
    while let Some(done) = working.join_next().await {
        endings.extend(done.map_err(LocalError::from)?);
    }
    asking.bar.finish_and_clear();
    Ok(endings)
}

fn named(client: &Client, number: usize) -> Result<Client, ClientError> {
    client.clone().named(&format!("soak-{}", number % NAMES))
}
