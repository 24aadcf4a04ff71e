//! Plain and speculative decoding of the same requests, in turns.

use std::time::Duration;

use espalier_client::{Answer, Client, ClientError};
use espalier_proto::{GenerationRequest, SpeculationSummary};
use serde::Serialize;

use crate::pace::Pace;
use crate::statistics::median;

/// What a comparison found, over all requests.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The target.
    pub target: String,
    /// Who drafted.
    pub drafter: String,
    /// How trees were grown.
    pub policy: String,
    /// Requests that were answered both ways.
    pub prompts: usize,
    /// Those of them whose texts differ.
    pub different: usize,
    /// Tokens of the speculative answers.
    pub tokens: usize,
    /// Rounds of the speculative answers.
    pub rounds: u64,
    /// Nodes that were drafted.
    pub drafted: u64,
    /// Nodes that were sent to the target.
    pub verified: u64,
    /// Nodes that were accepted.
    pub accepted: u64,
    /// Committed tokens per round.
    pub tau: f64,
    /// Of plain decoding: the median over requests, after the first tokens.
    pub plain_tokens_per_second: f64,
    /// Of speculative decoding: the same.
    pub speculative_tokens_per_second: f64,
    /// Median over requests of one divided by the other.
    pub speedup: f64,
    /// The share of drafting in the time of the speculative rounds.
    pub draft_share: f64,
    /// The share of verification in it.
    pub verify_share: f64,
    /// The share of waiting in it.
    pub wait_share: f64,
    /// What the parts of a round took.
    #[serde(skip)]
    pub costs: Costs,
}

/// What the parts of a round took on average, next to a step of plain decoding.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// One level of a tree; none where nothing was drafted.
    pub draft_level_ms: Option<f64>,
    /// One forward pass of the target over a tree.
    pub verification_ms: f64,
    /// One token of plain decoding.
    pub plain_step_ms: f64,
}

impl Costs {
    fn of(pairs: &[Pair]) -> Self {
        let ms = |f: fn(&SpeculationSummary) -> Duration| 1e3 * seconds(pairs, f);
        let count = |f: fn(&SpeculationSummary) -> u64| counted(pairs, f) as f64;
        let levels = count(|s| s.depth);
        let plain: Pace = pairs.iter().map(|pair| Pace::of(&pair.plain)).sum();
        Self {
            draft_level_ms: (levels > 0.0).then(|| ms(|s| s.draft) / levels),
            verification_ms: ms(|s| s.verify) / count(|s| s.rounds),
            plain_step_ms: 1e3 * plain.seconds / plain.tokens as f64,
        }
    }
}

/// One request, answered both ways.
#[derive(Debug, Clone)]
struct Pair {
    plain: Answer,
    speculative: Answer,
}

impl Pair {
    fn is_identical(&self) -> bool {
        self.plain.ids() == self.speculative.ids() && self.plain.text() == self.speculative.text()
    }

    fn speedup(&self) -> Option<f64> {
        Some(self.speculative.decoded_per_second()? / self.plain.decoded_per_second()?)
    }

    fn speculation(&self) -> &SpeculationSummary {
        &self.speculative.completion.speculation
    }
}

impl Comparison {
    /// Whether every text is the one of plain decoding.
    pub fn identical(&self) -> bool {
        self.different == 0
    }

    /// The figures of some pairs of answers by one target.
    fn of(target: &str, pairs: &[Pair]) -> Self {
        let names = pairs.last().map(Pair::speculation);
        let counted = |f| counted(pairs, f);
        let (rounds, tokens) = (counted(|s| s.rounds), pairs.iter().map(|pair| pair.speculative.tokens.len()).sum());
        let middle = |f: fn(&Pair) -> Option<f64>| median(pairs.iter().filter_map(f)).unwrap_or(f64::NAN);
        let [draft_share, verify_share, wait_share] = shares(pairs);
        Self {
            target: target.to_owned(),
            drafter: names.map_or_else(String::new, |names| names.drafter.clone()),
            policy: names.map_or_else(String::new, |names| names.policy.clone()),
            prompts: pairs.len(),
            different: pairs.iter().filter(|pair| !pair.is_identical()).count(),
            tokens,
            rounds,
            drafted: counted(|s| s.drafted),
            verified: counted(|s| s.verified),
            accepted: counted(|s| s.accepted),
            tau: tokens as f64 / rounds as f64,
            plain_tokens_per_second: middle(|pair| pair.plain.decoded_per_second()),
            speculative_tokens_per_second: middle(|pair| pair.speculative.decoded_per_second()),
            speedup: middle(Pair::speedup),
            draft_share,
            verify_share,
            wait_share,
            costs: Costs::of(pairs),
        }
    }
}

fn counted(pairs: &[Pair], count: fn(&SpeculationSummary) -> u64) -> u64 {
    pairs.iter().map(|pair| count(pair.speculation())).sum()
}

fn seconds(pairs: &[Pair], time: fn(&SpeculationSummary) -> Duration) -> f64 {
    pairs.iter().map(|pair| time(pair.speculation()).as_secs_f64()).sum()
}

/// The shares of drafting, verification and waiting in the time of all rounds.
fn shares(pairs: &[Pair]) -> [f64; 3] {
    let spent = [seconds(pairs, |s| s.draft), seconds(pairs, |s| s.verify), seconds(pairs, |s| s.wait)];
    spent.map(|time| time / spent.iter().sum::<f64>())
}

/// Answers each request plainly and speculatively, in turns; `done` hears of every pair. Requests are drawn one by one, so
/// an iterator that ends early ends the comparison.
///
/// # Errors
/// The first request that is refused or fails.
pub async fn compare(
    client: &mut Client,
    requests: impl IntoIterator<Item = GenerationRequest>,
    mut done: impl FnMut(),
) -> Result<Comparison, ClientError> {
    let (mut pairs, mut target) = (Vec::new(), String::new());
    for request in requests {
        // Which goes first changes from request to request: neither has the warmer machine.
        pairs.push(answer(client, &request, pairs.len() % 2 == 0).await?);
        target = request.target;
        done();
    }
    Ok(Comparison::of(&target, &pairs))
}

async fn answer(client: &mut Client, request: &GenerationRequest, plain_first: bool) -> Result<Pair, ClientError> {
    let without = GenerationRequest { speculate: false, drafter: None, ..request.clone() };
    if plain_first {
        let plain = client.generate(without, |_| {}).await?;
        return Ok(Pair { plain, speculative: client.generate(request.clone(), |_| {}).await? });
    }
    let speculative = client.generate(request.clone(), |_| {}).await?;
    Ok(Pair { plain: client.generate(without, |_| {}).await?, speculative })
}
