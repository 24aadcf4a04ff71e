//! A pass on a device: its steps are handed to all ranks.

use std::sync::Arc;
use std::time::Instant;

use super::best::{BEST_MAX, BestOfRows, NO_TOKEN};
use super::placement::Placement;
use super::ranks::{AtWork, Ranks, Step};
use crate::error::Result;
use crate::model_info::ModelInfo;
use crate::pass::{Answer, Keys, Pass, Results};
use crate::placed::Placed;
use crate::rows::BestOf;
use crate::workspace::Workspace;

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
    pub(crate) fn new(info: &'a ModelInfo, ranks: &'a Ranks, work: &'a mut Workspace) -> Self {
        let asked = Instant::now();
        let ranks = ranks.begin();
        work.waited = asked.elapsed();
        Self { info, ranks, results: &mut work.results, states: Vec::new() }
    }
}

impl DevicePass<'_> {
    /// All logits of rows, to where they go among the results.
    fn all_logits(&mut self, rows: Vec<u32>, places: &[usize]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let vocab = self.info.config.vocab;
        let logits = self.ranks.ask(|answer| Step::Logits(rows.into(), answer))?;
        for (logits, place) in logits.chunks_exact(vocab).zip(places) {
            self.results.logits[place * vocab..][..vocab].copy_from_slice(logits);
        }
        Ok(())
    }

    /// The best tokens of rows, to where they go among the results.
    fn best(&mut self, wanted: BestOfRows, places: &[usize]) -> Result<()> {
        if wanted.rows.is_empty() {
            return Ok(());
        }
        let wanted = Arc::new(wanted);
        let said = self.ranks.ask(|answer| Step::Best(wanted.clone(), answer))?;
        for (best, place) in wanted.heard(&said, self.ranks.count()).into_iter().zip(places) {
            self.results.best[*place] = Some(best);
        }
        Ok(())
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
        self.ranks.tell(&Step::Place(Arc::new(Placement::new(placed, self.info.rotations.table()))))
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
        // Tokens of larger vocabularies cannot be told in f32.
        let best = |answer: &Answer| answer.best.filter(|best| best.count <= BEST_MAX && vocab < NO_TOKEN as usize);
        if !answers.is_empty() {
            self.ranks.tell(&Step::Head)?;
        }
        let rows = || (0..).zip(answers);
        let (whole, places): (Vec<u32>, Vec<usize>) =
            rows().filter(|(_, answer)| best(answer).is_none()).map(|(row, answer)| (row, answer.place)).unzip();
        self.all_logits(whole, &places)?;
        let some = rows().filter_map(|(row, answer)| Some((row, answer.place, best(answer)?)));
        let (mut places, mut wanted) = (Vec::new(), BestOfRows { rows: Vec::new(), vocabs: Vec::new(), count: 1 });
        for (row, place, BestOf { count, vocab: counted }) in some {
            places.push(place);
            wanted.rows.push(row);
            wanted.vocabs.push(counted.min(vocab));
            wanted.count = wanted.count.max(count);
        }
        self.best(wanted, &places)
    }

    fn results(&mut self) -> &mut Results {
        self.results
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.ranks.end()
    }
}
