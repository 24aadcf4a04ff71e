//! What becomes of those who are served by a model that cannot be used any more.

use std::sync::Arc;

use espalier_model::{DeviceKind, LoadOptions, Parallel};
use espalier_proto::{Credit, Submission, VerifierEvent};
use tokio::sync::mpsc;

use super::super::Engine;
use super::super::command::REPLIES_MAX;
use super::{Bench, decoder, open, text};
use crate::error::VerifierError;

#[tokio::test]
async fn a_model_that_is_lost_sends_its_sequences_elsewhere_and_says_why() {
    for stages in ["1", "2"] {
        a_lost_model_of_stages(stages).await;
    }
}

async fn a_lost_model_of_stages(stages: &str) {
    let Bench { mut loaded, .. } = Bench::new(32);
    // It cannot reach keys and values on another device.
    let parallel = Parallel::pipeline(stages.parse().unwrap());
    let options = LoadOptions { device: DeviceKind::Candle, parallel, ..LoadOptions::default() };
    loaded.decoder = Arc::new(decoder(&options));
    let engine = Engine::start(loaded, 4).unwrap();
    assert_eq!(engine.fault(), None);
    let (sender, mut replies) = mpsc::channel(REPLIES_MAX);
    let opening = open(1, &text(5), 3);
    let slot = engine.admit(&opening.sequence.id).unwrap();
    let mut sequence = engine.open(opening, slot, None, sender).unwrap();
    assert!(matches!(replies.recv().await.unwrap().unwrap(), VerifierEvent::Opened { .. }));
    let submitted = sequence.submit(Submission::Credit(Credit { round: 0, tokens: 1, states_later: false }), || false);
    // The pass that reads the prompt may have failed before.
    assert!(matches!(submitted, Ok(()) | Err(VerifierError::Stopped)), "{submitted:?}");
    assert_eq!(replies.recv().await.unwrap().unwrap_err(), VerifierError::Stopped);
    engine.stopped().await;
    let sentence = "a cache has its keys and values on another device than the model";
    assert_eq!(engine.fault().unwrap(), format!("rank 0 of {stages} on device candle failed: {sentence}"));
}
