//! What requests for the targets of an entry came to.

use std::time::Duration;

use espalier_speculation::{RoundRecord, Statistics};

use crate::request::Request;
use crate::scenario::Load;
use crate::time::{Time, ms, of_ms};

/// How a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its answer is complete.
    Finished,
    /// There was no room for it.
    Refused,
    /// What it lost could not be replaced.
    Failed,
}

/// When what happens counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Time,
    pub(crate) until: Option<Time>,
}

impl Window {
    /// That of a load: after its warm-up, and until nobody asks any more.
    pub(crate) fn of(load: &Load) -> Self {
        let until = load.seconds().map(|seconds| of_ms(1e3 * seconds));
        Self { from: of_ms(1e3 * load.warmup_seconds()), until }
    }

    fn holds(&self, at: Time) -> bool {
        at >= self.from && self.until.is_none_or(|until| at < until)
    }
}

/// Sums and samples.
#[derive(Debug)]
pub(crate) struct Tally {
    window: Window,
    pub(crate) asked: u64,
    pub(crate) finished: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) failovers: u64,
    /// Tokens that clients heard, in all and while it counts.
    pub(crate) tokens: u64,
    pub(crate) counted: u64,
    /// The same by the second.
    pub(crate) timeline: Vec<u64>,
    pub(crate) statistics: Statistics,
    pub(crate) drafted_rounds: u64,
    pub(crate) draft: Duration,
    /// In milliseconds, of requests that came while it counted.
    pub(crate) first_token: Vec<f32>,
    pub(crate) token: Vec<f32>,
    pub(crate) answer: Vec<f32>,
}

impl Tally {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            asked: 0,
            finished: 0,
            refused: 0,
            failed: 0,
            failovers: 0,
            tokens: 0,
            counted: 0,
            timeline: Vec::new(),
            statistics: Statistics::default(),
            drafted_rounds: 0,
            draft: Duration::ZERO,
            first_token: Vec::new(),
            token: Vec::new(),
            answer: Vec::new(),
        }
    }

    /// A round ended; growing its tree took so long.
    pub(crate) fn round(&mut self, record: &RoundRecord, drafted: bool, draft: Duration) {
        self.statistics.add(record);
        self.drafted_rounds += u64::from(drafted);
        self.draft += draft;
    }

    /// A client hears tokens.
    pub(crate) fn hear(&mut self, tokens: usize, at: Time) {
        self.tokens += tokens as u64;
        let second = at.as_secs() as usize;
        if self.timeline.len() <= second {
            self.timeline.resize(second + 1, 0);
        }
        self.timeline[second] += tokens as u64;
        if self.window.holds(at) {
            self.counted += tokens as u64;
        }
    }

    /// A request ended.
    pub(crate) fn end(&mut self, end: End, request: &Request, now: Time) {
        match end {
            End::Finished => self.finished += 1,
            End::Refused => self.refused += 1,
            End::Failed => self.failed += 1,
        }
        self.failovers += u64::from(request.route.failovers());
        if end == End::Finished && self.window.holds(request.asked) {
            self.sample(request, now);
        }
    }

    fn sample(&mut self, request: &Request, now: Time) {
        let heard = &request.heard;
        let Some(first) = heard.first else { return };
        self.first_token.push(ms(first - request.asked) as f32);
        self.answer.push(ms(now - request.asked) as f32);
        let later = heard.tokens - heard.first_tokens;
        if later > 0 {
            self.token.push((ms(heard.last - first) / later as f64) as f32);
        }
    }
}
