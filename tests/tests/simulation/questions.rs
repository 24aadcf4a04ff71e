//! What is asked, and what must be answered: as plain decoding answers it where nothing fails.

use std::sync::OnceLock;

use espalier_tests::{Extent, Question, client, questions, start};
use tokio::runtime::Runtime;

/// The target.
pub(crate) const TARGET: &str = "small";

/// What it is asked.
const EXTENT: Extent = Extent { prompts: 3, prompt_tokens: 24, tokens: 24 };

/// The questions of all worlds; answered once, by a system on this machine's own network and clock.
pub(crate) fn shared() -> &'static [Question] {
    static SHARED: OnceLock<Vec<Question>> = OnceLock::new();
    SHARED.get_or_init(|| Runtime::new().unwrap().block_on(answered()))
}

async fn answered() -> Vec<Question> {
    let system = start(&[TARGET], Some(1), 1).await;
    let questions = questions(&client(&system), TARGET, EXTENT).await;
    system.stop().await.unwrap();
    questions
}
