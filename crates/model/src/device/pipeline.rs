//! A pass through stages, each a pass of its own over some of the layers.
//!
//! The stream of rows is where the last step was done. Before a step of another stage it goes there, through the host's
//! memory, in f32 as it is: so each row has the bits that it has on one device. Stages wait for each other.

use std::ops::Range;

use crate::error::Result;
use crate::pass::{Answer, Keys, Pass, Results};
use crate::placed::Placed;

/// A pass at work.
pub(super) struct PipelinePass<'a> {
    /// In the order of layers; at least one.
    stages: Vec<StagePass<'a>>,
    /// The stage that has the stream; none has it while it is on the host alone.
    at: Option<usize>,
    /// The stream on the host, as it was when it was last there: (rows, hidden).
    states: Vec<f32>,
}

/// What a stage does of it.
pub(super) struct StagePass<'a> {
    /// Layers of the model that the stage has.
    pub(super) layers: Range<usize>,
    pub(super) pass: Box<dyn Pass + 'a>,
    /// Whether it knows where the rows stand.
    pub(super) is_placed: bool,
}

impl<'a> PipelinePass<'a> {
    /// A pass of stages in the order of their layers, none of which has done anything.
    pub(super) fn new(stages: Vec<StagePass<'a>>) -> Self {
        Self { stages, at: None, states: Vec::new() }
    }

    /// The pass of a stage, which gets the stream if it has not got it.
    fn bring(&mut self, to: usize) -> Result<&mut StagePass<'a>> {
        if self.at != Some(to) {
            if let Some(from) = self.at {
                let states = self.stages[from].pass.states()?;
                self.states.clear();
                self.states.extend_from_slice(states);
            }
            self.stages[to].pass.load(&self.states)?;
            self.at = Some(to);
        }
        Ok(&mut self.stages[to])
    }

    /// The pass of the stage that has a layer, with the stream and told where its rows stand; and the number of the layer
    /// there.
    fn bring_to_layer(&mut self, index: usize, placed: &[Placed]) -> Result<(&mut dyn Pass, usize)> {
        let to = self.stages.partition_point(|stage| stage.layers.end <= index);
        let StagePass { layers, pass, is_placed } = self.bring(to)?;
        if !*is_placed {
            pass.place(placed)?;
            *is_placed = true;
        }
        Ok((&mut **pass, index - layers.start))
    }

    fn last(&self) -> usize {
        self.stages.len() - 1
    }
}

impl Pass for PipelinePass<'_> {
    fn embed(&mut self, tokens: &[u32]) -> Result<()> {
        self.at = Some(0);
        self.stages[0].pass.embed(tokens)
    }

    fn load(&mut self, states: &[f32]) -> Result<()> {
        self.at = None;
        self.states.clear();
        self.states.extend_from_slice(states);
        Ok(())
    }

    fn keep(&mut self, rows: &[usize]) -> Result<()> {
        self.bring(self.at.unwrap_or(0))?.pass.keep(rows)
    }

    fn place(&mut self, _: &[Placed]) -> Result<()> {
        // A stage is told with its first layer, if it runs any.
        self.stages.iter_mut().for_each(|stage| stage.is_placed = false);
        Ok(())
    }

    fn layer(&mut self, index: usize, placed: &[Placed]) -> Result<()> {
        let (pass, index) = self.bring_to_layer(index, placed)?;
        pass.layer(index, placed)
    }

    fn keys_and_values(&mut self, index: usize, keys: Keys, placed: &[Placed]) -> Result<()> {
        let (pass, index) = self.bring_to_layer(index, placed)?;
        pass.keys_and_values(index, keys, placed)
    }

    fn tap(&mut self, tap: usize) -> Result<()> {
        let states = self.states()?.to_vec();
        self.results().taps[tap] = states;
        Ok(())
    }

    fn states(&mut self) -> Result<&[f32]> {
        match self.at {
            Some(at) => self.stages[at].pass.states(),
            None => Ok(&self.states),
        }
    }

    fn answer(&mut self, answers: &[Answer]) -> Result<()> {
        if answers.is_empty() {
            return Ok(());
        }
        self.bring(self.last())?.pass.answer(answers)
    }

    fn results(&mut self) -> &mut Results {
        let last = self.last();
        self.stages[last].pass.results()
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.stages.into_iter().try_for_each(|stage| stage.pass.finish())
    }
}
