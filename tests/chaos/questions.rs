//! What is asked, and what must be answered.

use std::time::Duration;

use espalier_client::{Answer, Client};
use espalier_proto::GenerationRequest;
use espalier_speculation::StopStrings;
use espalier_tests::{Said, prompts, request, sampling};

/// The targets.
pub(crate) const TARGETS: [&str; 2] = ["small", "medium"];

/// Prompts of each target.
const PROMPTS: usize = 4;

const TOKENS: usize = 192;

/// How often each question is asked without faults: what the median of these takes is usual.
const CALM_TURNS: usize = 3;

/// A question and its only right answer.
pub(crate) struct Question {
    pub(crate) request: GenerationRequest,
    pub(crate) right: Said,
    /// What an answer usually takes.
    pub(crate) usual: Duration,
}

/// Greedy and seeded, every other with a stop string, all with logprobs; answered by plain decoding.
pub(crate) async fn ask_calmly(client: &Client) -> Vec<Question> {
    let mut questions = Vec::new();
    for target in TARGETS {
        for (index, (prompt, _)) in prompts(target).into_iter().take(PROMPTS).enumerate() {
            for temperature in [0.0, 0.8] {
                let mut asked = request(target, &prompt, TOKENS, sampling(temperature, 7 + index as u64));
                asked.logprobs = Some(1);
                if index % 2 == 1 {
                    asked.stop_strings = stop(&plain(client, &asked).await.text());
                }
                questions.push(question(client, asked).await);
            }
        }
    }
    questions
}

async fn question(client: &Client, request: GenerationRequest) -> Question {
    let right = Said::from(&plain(client, &request).await);
    let mut took = Vec::new();
    for _ in 0..CALM_TURNS {
        let answer = client.clone().generate(request.clone(), |_| {}).await.unwrap();
        assert_eq!(Said::from(&answer), right, "drafting changes the text");
        took.push(answer.elapsed);
    }
    took.sort_unstable();
    Question { request, right, usual: took[CALM_TURNS / 2] }
}

async fn plain(client: &Client, request: &GenerationRequest) -> Answer {
    client.clone().generate(GenerationRequest { speculate: false, ..request.clone() }, |_| {}).await.unwrap()
}

/// A few characters behind two thirds of a text.
fn stop(text: &str) -> StopStrings {
    let skipped = text.chars().count() * 2 / 3;
    StopStrings::new(vec![text.chars().skip(skipped).take(6).collect()]).unwrap()
}
