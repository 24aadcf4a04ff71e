//! Hidden states that come with outcomes.

use espalier_model::{Asked, Checkpoint, Decoder, LoadOptions, Logits, Row, Segment, Workspace};
use espalier_proto::{Fault, FaultKind, HiddenStates, Open, Tap};
use espalier_round::{Feedback, Plain, Proposed, Proposer, Sequence};
use espalier_speculation::Token;
use tonic::transport::Channel;

use crate::support::*;

/// Passes on what another proposes, and keeps the hidden states that come back.
struct Reading<'a, P> {
    proposer: P,
    read: &'a mut HiddenStates,
}

impl<P: Proposer> Proposer for Reading<'_, P> {
    async fn propose(&mut self, sequence: &Sequence) -> Result<Proposed, Fault> {
        self.proposer.propose(sequence).await
    }

    async fn observe(&mut self, feedback: &Feedback<'_>) -> Result<(), Fault> {
        self.read.append(feedback.outcome.states.clone().unwrap()).unwrap();
        self.proposer.observe(feedback).await
    }
}

/// Where the tests read hidden states.
const TAP: Tap = Tap { layer: 5, width: 256 };

/// The hidden states that come with a text, and the text.
async fn states_of(channel: &Channel, open: Open, proposer: impl Proposer) -> (HiddenStates, Vec<Token>) {
    let mut read = HiddenStates::new(0, TAP.width);
    let reading = Reading { proposer, read: &mut read };
    let (text, _) = text_of(channel, Open { tap: Some(TAP), ..open }, reading).await;
    (read, text)
}

/// The model's hidden states of these tokens.
fn states_alone(tokens: &[Token]) -> HiddenStates {
    let decoder = Decoder::load(&Checkpoint::open(model()).unwrap(), &LoadOptions::default()).unwrap();
    let (mut work, mut cache, rows) = (Workspace::new(1), decoder.new_cache(), Row::chain(tokens, 0));
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::None }];
    let output = decoder.forward(&mut work, &mut segments, Asked { taps: &[TAP.layer], ..Asked::default() }).unwrap();
    let mut states = HiddenStates::new(0, TAP.width);
    (0..tokens.len()).for_each(|row| states.push(output.tap(0, 0, row)));
    states
}

#[tokio::test]
async fn the_hidden_states_of_every_position_come_once_whatever_is_proposed() {
    let channel = start(&[]).await;
    let Golden { prompt, answer } = golden(1).remove(0);
    let whole = [prompt.as_slice(), &answer].concat();
    // No state is known of the last token: nothing has run on it.
    let expected = (states_alone(&whole[..whole.len() - 1]), answer.clone());
    let asked = |id| open(id, &prompt, answer.len());
    assert_eq!(states_of(&channel, asked(1), Plain).await, expected);
    let (by_tree, without) = tokio::join!(
        states_of(&channel, asked(2), prophet(&prompt, &answer, 5)),
        text_of(&channel, asked(3), prophet(&prompt, &answer, 3)),
    );
    assert_eq!(by_tree, expected);
    assert_eq!(without.0, answer);
}

#[tokio::test]
async fn a_sequence_that_is_opened_again_brings_its_hidden_states_again() {
    let channel = start(&[]).await;
    let prompt = long_prompt(700);
    let first = opened(&channel, open(1, &prompt, 4)).await.unwrap();
    let mut second = opened(&channel, Open { tap: Some(TAP), ..open(1, &prompt, 4) }).await.unwrap();
    assert_eq!(second.reused_prefix().await, Ok(0));
    drop((first, second));
    let (states, text) = states_of(&channel, open(1, &prompt, 4), ngram()).await;
    assert_eq!(states, states_alone(&[&prompt, &text[..3]].concat()));
}

#[tokio::test]
async fn hidden_states_that_the_model_does_not_have_are_refused() {
    let channel = start(&[]).await;
    for (tap, reason) in [
        (Tap { layer: 9, width: 256 }, "hidden_states.layer is 9, beyond the limit of 8"),
        (Tap { layer: 5, width: 384 }, "hidden states are 384 wide where 256 were expected"),
    ] {
        let fault = opened(&channel, Open { tap: Some(tap), ..open(1, &[1, 3], 5) }).await.unwrap_err();
        assert_eq!((fault.message.as_str(), fault.kind), (reason, FaultKind::BadInput));
    }
}
