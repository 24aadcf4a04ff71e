//! What is asked, what must be answered, and how long that takes while nothing fails.

use std::time::Duration;

use espalier_client::Client;
use espalier_tests::{Extent, Question, Said, questions};

/// The targets.
pub(crate) const TARGETS: [&str; 2] = ["small", "medium"];

/// What each is asked.
const EXTENT: Extent = Extent { prompts: 4, prompt_tokens: usize::MAX, tokens: 192 };

/// How often each question is asked without faults: what the median of these takes is usual.
const CALM_TURNS: usize = 3;

/// A question, and what an answer usually takes.
pub(crate) struct Timed {
    pub(crate) question: Question,
    pub(crate) usual: Duration,
}

/// All questions, asked while nothing fails.
pub(crate) async fn ask_calmly(client: &Client) -> Vec<Timed> {
    let mut timed = Vec::new();
    for target in TARGETS {
        for question in questions(client, target, EXTENT).await {
            timed.push(Timed { usual: usual(client, &question).await, question });
        }
    }
    timed
}

async fn usual(client: &Client, question: &Question) -> Duration {
    let mut took = Vec::new();
    for _ in 0..CALM_TURNS {
        let answer = client.clone().generate(question.request.clone(), |_| {}).await.unwrap();
        assert_eq!(Said::from(&answer), question.right, "drafting changes the text");
        took.push(answer.elapsed);
    }
    took.sort_unstable();
    took[CALM_TURNS / 2]
}
