//! Tokens per second under several thresholds, prompt by prompt in turns.
//!
//! Each of the thresholds has a gateway of its own, whose profile it is, to the same drafter and the same verifier.

use espalier_bench::{Pace, order};
use espalier_client::{Answer, Client};
use espalier_command::{Answers, Decoding, Form, request};
use espalier_local::{Profiles, SideGateway, System};
use espalier_proto::GenerationRequest;
use espalier_speculation::ExitThresholds;

use crate::error::CliError;

/// Tokens of the answer with which a candidate warms up.
const WARM_UP_TOKENS: u32 = 16;

/// Who answers, and what.
pub(super) struct Bench<'a> {
    pub(super) system: &'a System,
    pub(super) target: String,
    pub(super) drafter: String,
    pub(super) decoding: Decoding,
    pub(super) prompts: Vec<String>,
    pub(super) repeats: usize,
}

/// What was measured of some thresholds.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) thresholds: ExitThresholds,
    pub(super) pace: Pace,
    /// Answers that differ from those under the other thresholds.
    pub(super) different: usize,
}

/// Some thresholds and the gateway to measure them through.
struct Arm {
    gateway: SideGateway,
    measured: Measured,
}

impl Bench<'_> {
    /// Answers of one measurement of all candidates.
    pub(super) fn answers(&self, candidates: usize) -> usize {
        self.prompts.len() * self.repeats * candidates
    }

    /// Has every prompt answered under all `candidates` in turns, in an order that changes from prompt to prompt;
    /// `answered` hears of each answer.
    pub(super) async fn measure(
        &self,
        candidates: &[ExitThresholds],
        answered: impl Fn(),
    ) -> Result<Vec<Measured>, CliError> {
        let mut arms = Vec::with_capacity(candidates.len());
        for thresholds in candidates {
            arms.push(self.arm(thresholds).await?);
        }
        let turns = self.prompts.len() * self.repeats;
        for turn in 0..turns {
            let Some(prompt) = self.prompts.get(turn % self.prompts.len()) else { continue };
            let mut first: Option<Vec<u32>> = None;
            for index in order(arms.len(), turn, turns) {
                let Some(arm) = arms.get_mut(index) else { continue };
                let answer = self.answer(&arm.gateway, prompt, &self.decoding).await?;
                let first = first.get_or_insert_with(|| answer.ids());
                arm.measured.different += usize::from(*first != answer.ids());
                arm.measured.pace = [arm.measured.pace, Pace::of(&answer)].into_iter().sum();
                answered();
            }
        }
        Ok(arms.into_iter().map(|arm| arm.measured).collect())
    }

    async fn arm(&self, thresholds: &ExitThresholds) -> Result<Arm, CliError> {
        let mut profiles = Profiles::default();
        profiles.set(&self.target, &self.drafter, thresholds.clone());
        let gateway = self.system.side_gateway(profiles).await?;
        if let Some(prompt) = self.prompts.first() {
            let answers = self.decoding.answers;
            let answers = Answers { max_tokens: WARM_UP_TOKENS.min(answers.max_tokens), ..answers };
            let short = Decoding { answers, ..self.decoding.clone() };
            self.answer(&gateway, prompt, &short).await?;
        }
        let measured = Measured { thresholds: thresholds.clone(), pace: Pace::default(), different: 0 };
        Ok(Arm { gateway, measured })
    }

    async fn answer(&self, gateway: &SideGateway, prompt: &str, decoding: &Decoding) -> Result<Answer, CliError> {
        let request = request(&self.target, prompt, Form::Chat, decoding)?;
        let request = GenerationRequest { drafter: Some(self.drafter.clone()), ..request };
        let answer = Client::new(gateway.url())?.generate(request, |_| {}).await?;
        if answer.completion.speculation.drafter != self.drafter {
            return Err(CliError::DrafterLost { drafter: self.drafter.clone() });
        }
        Ok(answer)
    }
}
