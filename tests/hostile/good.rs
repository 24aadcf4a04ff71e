//! The client that behaves well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use espalier_client::Client;
use espalier_proto::GenerationRequest;
use espalier_tests::{answer, prompts, request, sampling};
use tokio::task::JoinHandle;

use crate::services::TARGET;

const QUESTIONS: usize = 4;

const TOKENS: usize = 48;

/// One question after the other, with speculation; each answer is held against plain decoding.
#[derive(Clone)]
pub(crate) struct Good {
    client: Client,
    questions: Vec<Question>,
}

#[derive(Clone)]
struct Question {
    asked: GenerationRequest,
    right: String,
}

/// What came of asking.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    pub(crate) answers: usize,
    pub(crate) wrong: Vec<String>,
    pub(crate) slowest: Duration,
    pub(crate) drafted: u64,
    tokens: usize,
    span: Duration,
}

impl Heard {
    pub(crate) fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.span.as_secs_f64()
    }
}

/// It asks until it is stopped.
pub(crate) struct Asking {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<Heard>,
}

impl Asking {
    pub(crate) async fn stop(self) -> Heard {
        self.stop.store(true, Ordering::SeqCst);
        self.asking.await.unwrap()
    }
}

impl Good {
    /// Asks each question once without speculation.
    pub(crate) async fn new(gateway: &str) -> Self {
        let client = Client::new(gateway).unwrap().named("good").unwrap();
        let mut questions = Vec::new();
        for (index, (prompt, _)) in prompts(TARGET).into_iter().take(QUESTIONS).enumerate() {
            let sampling = sampling([0.0, 0.8][index % 2], index as u64);
            let asked = request(TARGET, &prompt, TOKENS, sampling);
            let plain = GenerationRequest { speculate: false, ..asked.clone() };
            questions.push(Question { asked, right: answer(&client, plain).await.text() });
        }
        Self { client, questions }
    }

    /// Asks for a while.
    pub(crate) async fn ask_for(&self, span: Duration) -> Heard {
        let begun = Instant::now();
        self.ask_while(|| begun.elapsed() < span).await
    }

    /// Asks on beside what else is done.
    pub(crate) fn go_on(self) -> Asking {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let asking = tokio::spawn(async move { self.ask_while(|| !stopped.load(Ordering::SeqCst)).await });
        Asking { stop, asking }
    }

    async fn ask_while(&self, goes_on: impl Fn() -> bool) -> Heard {
        let (begun, mut heard) = (Instant::now(), Heard::default());
        for question in self.questions.iter().cycle().take_while(|_| goes_on()) {
            self.ask(question, &mut heard).await;
        }
        heard.span = begun.elapsed();
        heard
    }

    async fn ask(&self, question: &Question, heard: &mut Heard) {
        let begun = Instant::now();
        match self.client.clone().generate(question.asked.clone(), |_| {}).await {
            Ok(answer) => {
                heard.tokens += answer.tokens.len();
                heard.drafted += answer.completion.speculation.accepted;
                let said = answer.text();
                if said != question.right {
                    heard.wrong.push(format!("{said:?} where {:?} is right", question.right));
                }
            }
            Err(error) => heard.wrong.push(error.to_string()),
        }
        heard.answers += 1;
        heard.slowest = heard.slowest.max(begun.elapsed());
    }
}
