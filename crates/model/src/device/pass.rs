//! A pass on a device: its steps are handed to all ranks.

use super::answers::Answers;
use super::ranks::{AtWork, Ranks, Step};
use crate::error::Result;
use crate::model_info::ModelInfo;
use crate::pass::{Answer, Keys, Pass, Results};
use crate::placed::Placed;

/// A pass at work.
pub(crate) struct DevicePass<'a> {
    info: &'a ModelInfo,
    ranks: AtWork<'a>,
    results: &'a mut Results,
    /// The stream on the host, when it was asked for.
    states: Vec<f32>,
}

impl<'a> DevicePass<'a> {
    /// A pass of a model that `ranks` have, once no other pass is at work there.
    pub(crate) fn new(info: &'a ModelInfo, ranks: &'a Ranks, results: &'a mut Results) -> Self {
        Self { info, ranks: ranks.begin(), results, states: Vec::new() }
    }
}

impl Pass for DevicePass<'_> {
    fn embed(&mut self, tokens: &[u32]) -> Result<()> {
        tokens.iter().try_for_each(|token| self.info.check_token(*token))?;
        self.ranks.tell(&Step::Embed(tokens.into()))
    }

    fn load(&mut self, states: &[f32]) -> Result<()> {
        self.ranks.tell(&Step::Load(states.into()))
    }

    fn keep(&mut self, rows: &[usize]) -> Result<()> {
        self.ranks.tell(&Step::Keep(rows.iter().map(|row| *row as u32).collect()))
    }

    fn place(&mut self, placed: &[Placed]) -> Result<()> {
        self.ranks.tell(&Step::Place(placed.into()))
    }

    fn layer(&mut self, index: usize, _: &[Placed]) -> Result<()> {
        self.ranks.tell(&Step::Layer(index))
    }

    fn keys_and_values(&mut self, index: usize, keys: Keys, _: &[Placed]) -> Result<()> {
        self.ranks.tell(&Step::KeysAndValues(index, keys))
    }

    fn tap(&mut self, tap: usize) -> Result<()> {
        self.results.taps[tap] = self.ranks.ask(Step::States)?;
        Ok(())
    }

    fn states(&mut self) -> Result<&[f32]> {
        self.states = self.ranks.ask(Step::States)?;
        Ok(&self.states)
    }

    fn answer(&mut self, answers: &[Answer]) -> Result<()> {
        let vocab = self.info.config.vocab;
        if answers.is_empty() {
            return Ok(());
        }
        self.ranks.tell(&Step::Head)?;
        // Tensors have no operations for the hashes that noise is made of.
        let answers = Answers::new(answers, vocab, |answer| answer.noise.is_none());
        if !answers.whole.is_empty() {
            let logits = self.ranks.ask(|answer| Step::Logits(answers.whole.as_slice().into(), answer))?;
            answers.put_logits(&logits, vocab, self.results);
        }
        if !answers.best.rows.is_empty() {
            let said = self.ranks.ask(|answer| Step::Best(answers.best.clone(), answer))?;
            answers.put_best(&said, self.ranks.count(), self.results);
        }
        Ok(())
    }

    fn results(&mut self) -> &mut Results {
        self.results
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.ranks.end()
    }
}
