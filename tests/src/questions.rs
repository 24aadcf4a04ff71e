//! Questions with their only right answers, and clients that do not give up.

use std::time::Duration;

use espalier_client::{Answer, Client, ClientError};
use espalier_proto::{Fault, FaultKind, GeneratedToken, GenerationRequest};
use espalier_speculation::{FinishReason, Penalties, Sampling, Shaping, StopStrings};
use tokio::time::{Instant, sleep};

use crate::{prompts, request, sampling};

/// What makes a text depend on which of its tokens are the prompt's, and on all that was said before.
const PENALTIES: Penalties = Penalties { repetition: 1.1, presence: 0.4, frequency: 0.2 };

/// How long a client asks again without coming any further.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause before a request is sent again that no gateway has let in.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// All of an answer that must not differ, whoever drafted and whatever failed: tokens, text, logprobs, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    ids: Vec<u32>,
    text: String,
    logprobs: Vec<Option<f64>>,
    reason: FinishReason,
    stop_string: Option<String>,
}

impl From<&Answer> for Said {
    fn from(answer: &Answer) -> Self {
        Self {
            ids: answer.ids(),
            text: answer.text(),
            logprobs: answer.tokens.iter().map(|token| token.logprob).collect(),
            reason: answer.completion.reason,
            stop_string: answer.completion.stop_string.clone(),
        }
    }
}

/// A question and its only right answer.
#[derive(Debug, Clone)]
pub struct Question {
    /// What is asked.
    pub request: GenerationRequest,
    /// What plain decoding says.
    pub right: Said,
}

/// How many questions there are of a target, and how large they are.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Prompts, each asked greedily and with a seed.
    pub prompts: usize,
    /// The most tokens of a prompt, of which the last are taken.
    pub prompt_tokens: usize,
    /// The most tokens of an answer.
    pub tokens: usize,
}

/// Greedy and seeded, those with a seed with penalties, every other prompt with a stop string, all with logprobs;
/// answered by plain decoding.
pub async fn questions(client: &Client, target: &str, extent: Extent) -> Vec<Question> {
    let mut questions = Vec::new();
    for (index, (prompt, _)) in prompts(target).into_iter().take(extent.prompts).enumerate() {
        let prompt = &prompt[prompt.len().saturating_sub(extent.prompt_tokens)..];
        for penalties in [None, Some(PENALTIES)] {
            let mut request = request(target, prompt, extent.tokens, how(penalties, index));
            request.logprobs = Some(1);
            if index % 2 == 1 {
                request.stop_strings = stop(&plain(client, &request).await.text());
            }
            let right = Said::from(&plain(client, &request).await);
            questions.push(Question { request, right });
        }
    }
    questions
}

/// Greedily, or with penalties and a seed of the prompt's.
fn how(penalties: Option<Penalties>, prompt: usize) -> Sampling {
    let Some(penalties) = penalties else { return sampling(0.0, 0) };
    let shaping = Shaping::new(penalties, []).unwrap();
    sampling(0.8, 7 + prompt as u64).with_shaping(shaping)
}

async fn plain(client: &Client, request: &GenerationRequest) -> Answer {
    client.clone().generate(GenerationRequest { speculate: false, ..request.clone() }, |_| {}).await.unwrap()
}

/// A few characters behind two thirds of a text.
fn stop(text: &str) -> StopStrings {
    let skipped = text.chars().count() * 2 / 3;
    StopStrings::new(vec![text.chars().skip(skipped).take(6).collect()]).unwrap()
}

/// What becomes of a question on the way to its answer.
pub trait Watch {
    /// Tokens have come.
    fn hears(&mut self, _new: &[GeneratedToken]) {}
    /// No gateway has let it in, so it will be asked again.
    fn is_refused(&mut self, why: &Fault);
}

/// The answer of whatever gateway lets a request in, each time by a connection of its own; what was let in, the client goes on with by itself.
///
/// # Errors
/// What ended the last try.
pub async fn persist(
    connect: impl Fn() -> Client,
    asked: &GenerationRequest,
    watch: &mut impl Watch,
) -> Result<Answer, ClientError> {
    let begun = Instant::now();
    loop {
        let mut client = connect().resuming(PATIENCE);
        match client.generate(asked.clone(), |new| watch.hears(new)).await {
            Err(ClientError::Fault(fault))
                if matches!(fault.kind, FaultKind::Gone | FaultKind::Overloaded) && begun.elapsed() < PATIENCE =>
            {
                watch.is_refused(&fault);
                sleep(fault.retry_after.unwrap_or(AGAIN_AFTER)).await;
            }
            answered => return answered,
        }
    }
}
