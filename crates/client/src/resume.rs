//! What of an answer has come, and when the rest is asked for after its stream broke.

use std::time::Duration;

use espalier_proto::{Chunk, Completion, FaultKind, GeneratedToken, GenerationRequest, RoundTrace};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::error::ClientError;

/// The pause before the first further try; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// An answer, as far as it has come.
pub(crate) struct Heard {
    /// What is asked for next: all that has not come.
    pub(crate) request: GenerationRequest,
    /// When it was asked for first.
    pub(crate) begun: Instant,
    tokens: Vec<GeneratedToken>,
    rounds: Vec<RoundTrace>,
    /// When the first tokens came, and how many they were.
    first: Option<(Instant, usize)>,
    /// Whether a gateway has let the request in.
    was_let_in: bool,
    /// How long it may be asked for again without coming any further.
    patience: Duration,
    /// Since when it has not come any further, and the tries since then.
    stuck: Option<(Instant, u32)>,
    resumed: u32,
}

impl Heard {
    /// Nothing has come.
    pub(crate) fn new(request: GenerationRequest, patience: Duration) -> Self {
        Self {
            request,
            begun: Instant::now(),
            tokens: Vec::new(),
            rounds: Vec::new(),
            first: None,
            was_let_in: false,
            patience,
            stuck: None,
            resumed: 0,
        }
    }

    /// The gateway has told the seed, without which nobody could go on with the answer.
    pub(crate) fn begin(&mut self, seed: u64) {
        self.was_let_in = true;
        self.request.sampling = self.request.sampling.clone().with_seed(seed);
        self.request.seeded = true;
    }

    /// Tokens have come.
    pub(crate) fn push(&mut self, Chunk { tokens: new, round }: Chunk) {
        self.rounds.extend(round.map(|round| *round));
        self.request.generated.extend(new.iter().map(|token| token.id));
        self.tokens.extend(new);
        self.first.get_or_insert((Instant::now(), self.tokens.len()));
        self.stuck = None;
    }

    /// How long to wait before the rest is asked for; nothing if it must not be.
    pub(crate) fn pause_after(&mut self, error: &ClientError, now: Instant) -> Option<Duration> {
        let hint = match error {
            // Who has not begun may go elsewhere, and is told at once.
            _ if !self.was_let_in => return None,
            ClientError::Cut => None,
            ClientError::Fault(fault) if matches!(fault.kind, FaultKind::Gone | FaultKind::Overloaded) => {
                fault.retry_after
            }
            _ => return None,
        };
        let (since, tries) = self.stuck.unwrap_or((now, 0));
        if now.saturating_duration_since(since) >= self.patience {
            return None;
        }
        self.stuck = Some((since, tries + 1));
        self.resumed += 1;
        let doubled = PAUSE_MIN.saturating_mul(1 << tries.min(16));
        Some(hint.unwrap_or(doubled).min(PAUSE_MAX))
    }

    /// The whole answer.
    pub(crate) fn answer(self, completion: Completion) -> Answer {
        let decoding =
            self.first.map_or((Duration::ZERO, 0), |(at, seen)| (at.elapsed(), self.tokens.len().saturating_sub(seen)));
        let (tokens, rounds, elapsed, resumed) = (self.tokens, self.rounds, self.begun.elapsed(), self.resumed);
        Answer { tokens, rounds, completion, elapsed, resumed, decoding }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_proto::{Fault, Party, Prompt};
    use espalier_speculation::{Sampling, StopStrings};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);

    fn heard() -> Heard {
        let request = GenerationRequest {
            target: "toy".to_owned(),
            prompt: Prompt::Tokens(vec![1]),
            max_tokens: 9,
            sampling: Sampling::new(0.8, 0, 1.0, 0).unwrap(),
            seeded: false,
            stop_tokens: vec![],
            stop_strings: StopStrings::default(),
            logprobs: None,
            policy: None,
            drafter: None,
            speculate: true,
            generated: vec![],
            cut_to_context: false,
            rounds: false,
            constraint: None,
        };
        Heard::new(request, PATIENCE)
    }

    fn token(id: u32) -> GeneratedToken {
        GeneratedToken { id, text: String::new(), drafted: false, logprob: None, alternatives: vec![] }
    }

    fn chunk(tokens: Vec<GeneratedToken>) -> Chunk {
        Chunk { tokens, round: None }
    }

    fn fault(kind: FaultKind) -> ClientError {
        Fault::new(Party::Gateway, kind, "test").into()
    }

    #[test]
    fn the_rest_is_asked_for_with_the_seed_and_the_tokens_that_came() {
        let mut heard = heard();
        heard.begin(77);
        heard.push(chunk(vec![token(5), token(6)]));
        heard.push(chunk(vec![token(7)]));
        let request = &heard.request;
        assert_eq!((request.seeded, request.sampling.seed(), &*request.generated), (true, 77, &[5, 6, 7][..]));
    }

    #[test]
    fn who_comes_no_further_loses_patience_and_who_does_has_all_of_it_again() {
        let (mut heard, begun) = (heard(), Instant::now());
        heard.begin(0);
        let mut waited = Duration::ZERO;
        let mut tries = |heard: &mut Heard| {
            std::iter::from_fn(|| {
                let pause = heard.pause_after(&ClientError::Cut, begun + waited)?;
                waited += pause;
                Some(pause.as_millis())
            })
            .collect::<Vec<_>>()
        };
        let expected = [20, 40, 80, 160, 320, 640, 1000, 1000];
        assert_eq!(tries(&mut heard), expected);
        heard.push(chunk(vec![token(5)]));
        assert_eq!(tries(&mut heard), expected);
        assert_eq!(heard.resumed, 16);
    }

    #[test]
    fn only_what_may_pass_is_tried_again_and_only_by_who_was_let_in() {
        let (mut heard, now) = (heard(), Instant::now());
        let lost = [fault(FaultKind::Overloaded), fault(FaultKind::Gone), ClientError::Cut];
        assert!(lost.iter().all(|error| heard.pause_after(error, now).is_none()));
        heard.begin(0);
        assert!(lost.iter().all(|error| heard.pause_after(error, now).is_some()));
        for kind in [FaultKind::BadInput, FaultKind::Late, FaultKind::Internal] {
            assert_eq!(heard.pause_after(&fault(kind), now), None, "{kind:?}");
        }
    }
}
