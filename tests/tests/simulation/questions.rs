//! What is asked, and what must be answered: as plain decoding answers it where nothing fails.

use std::sync::OnceLock;

use espalier_client::{Answer, Client};
use espalier_proto::GenerationRequest;
use espalier_speculation::StopStrings;
use espalier_tests::{Said, client, prompts, request, sampling, start};

/// The target.
pub(crate) const TARGET: &str = "small";

/// Prompts, each asked greedily and with a seed.
const PROMPTS: usize = 3;

/// Tokens of a prompt: its last ones.
const PROMPT: usize = 24;

/// Tokens of an answer at the most.
const TOKENS: usize = 24;

/// A question and its only right answer.
pub(crate) struct Question {
    pub(crate) request: GenerationRequest,
    pub(crate) right: Said,
}

/// All questions.
pub(crate) struct Questions(pub(crate) Vec<Question>);

impl Questions {
    /// Those that all worlds are asked; answered once, by a system on this machine's own network and clock.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Questions> = OnceLock::new();
        SHARED.get_or_init(|| tokio::runtime::Runtime::new().unwrap().block_on(answered()))
    }
}

/// Greedy and seeded, every other with a stop string, all with logprobs.
async fn answered() -> Questions {
    let system = start(&[TARGET], Some(1), 1).await;
    let client = client(&system);
    let mut questions = Vec::new();
    for (index, (prompt, _)) in prompts(TARGET).into_iter().take(PROMPTS).enumerate() {
        for temperature in [0.0, 0.8] {
            let mut request =
                request(TARGET, &prompt[prompt.len() - PROMPT..], TOKENS, sampling(temperature, 7 + index as u64));
            request.logprobs = Some(1);
            if index % 2 == 1 {
                request.stop_strings = stop(&plain(&client, &request).await.text());
            }
            let right = Said::from(&plain(&client, &request).await);
            questions.push(Question { request, right });
        }
    }
    system.stop().await.unwrap();
    Questions(questions)
}

async fn plain(client: &Client, request: &GenerationRequest) -> Answer {
    client.clone().generate(GenerationRequest { speculate: false, ..request.clone() }, |_| {}).await.unwrap()
}

/// A few characters behind two thirds of a text.
fn stop(text: &str) -> StopStrings {
    let skipped = text.chars().count() * 2 / 3;
    StopStrings::new(vec![text.chars().skip(skipped).take(3).collect()]).unwrap()
}
