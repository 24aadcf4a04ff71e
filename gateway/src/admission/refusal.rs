//! Why a request is not let in.

use std::time::Duration;

use thiserror::Error;

/// Why a request is not let in, and when to come again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// When a further try may find room; none where it would be too late anyway.
    pub retry_after: Option<Duration>,
}

/// What a request is refused for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// All slots are taken, and the queue is full.
    #[error("{running} requests are being served and {queued} wait, which are the limits")]
    Full {
        /// Requests that are being served.
        running: usize,
        /// Requests that wait.
        queued: usize,
    },
    /// There is room left in the queue, but not for this client.
    #[error("{waiting} requests of this client wait, as many as the queue has room for: {free}")]
    Share {
        /// Its requests that wait.
        waiting: usize,
        /// Slots left in the queue.
        free: usize,
    },
    /// The client has as many requests as one may have.
    #[error("{own} requests of this client are being served or wait, and one client may have {limit}")]
    Client {
        /// Its requests.
        own: usize,
        /// As many as it may have.
        limit: usize,
    },
    /// The client has asked as often as it may.
    #[error("this client has asked as often as it may, {limit} times a minute")]
    RequestRate {
        /// Requests a minute.
        limit: u32,
    },
    /// The client has used the tokens that it may use.
    #[error("this client has used all tokens that it may use, {limit} a minute")]
    TokenRate {
        /// Tokens a minute, of prompts and answers.
        limit: u32,
    },
    /// It would wait for longer than it may take.
    #[error("a slot is expected in {} ms, but the deadline is in {} ms", wait.as_millis(), remaining.as_millis())]
    Hopeless {
        /// How long it would wait, by what requests took lately.
        wait: Duration,
        /// How long until the deadline.
        remaining: Duration,
    },
    /// Its deadline is over.
    #[error("the request's deadline has passed")]
    Late,
}
