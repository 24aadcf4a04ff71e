//! A pass, as the list of work that its steps come to. Nothing is done before something is to be told.

use std::mem::take;

use parking_lot::MutexGuard;

use super::model::{FusedModel, FusedRank, Key};
use super::sheet::{Rows, Sheet, Standing};
use super::work::{Stream, Work, bucketed};
use crate::device::answers::{Answers, Near};
use crate::device::best::BestOfRows;
use crate::error::{ModelError, Result};
use crate::kv_cache::{BlockTable, Move};
use crate::pass::{Answer, Keys, Pass, Results};
use crate::placed::Placed;

/// A pass at work.
pub(in crate::device) struct FusedPass<'a> {
    model: MutexGuard<'a, FusedModel>,
    results: &'a mut Results,
    /// The stream on the host, when it was asked for.
    states: Vec<f32>,
    work: Vec<Work>,
    sheet: Sheet,
    stream: Stream,
    /// Rows of the stream, fillers not among them.
    rows: usize,
    /// Moves of rows that are part of the work, and not done yet: those of each rank.
    moves: Vec<(BlockTable, Vec<Vec<Move>>)>,
}

impl<'a> FusedPass<'a> {
    /// A pass of a model that no other pass has.
    pub(in crate::device) fn new(model: MutexGuard<'a, FusedModel>, results: &'a mut Results) -> Self {
        Self {
            model,
            results,
            states: Vec::new(),
            work: Vec::new(),
            sheet: Sheet::default(),
            stream: Stream::default(),
            rows: 0,
            moves: Vec::new(),
        }
    }

    /// Sequences of one memory, whose rows are moved first where that is yet to be done.
    fn rows<'p>(&mut self, placed: &'p [Placed]) -> Result<Rows<'p>> {
        let Some(Placed { blocks, .. }) = placed.first() else { return Ok(Rows { placed, memory_at: 0 }) };
        let addresses = |rank: &FusedRank| {
            let memory = blocks.addresses(rank.place.rank, |tensor| rank.machine.address(tensor))?;
            memory.ok_or(ModelError::CacheElsewhere)
        };
        let of_ranks = self.model.ranks.iter().map(addresses).collect::<Result<Vec<_>>>()?;
        let memory_at = self.sheet.list_addresses(&of_ranks);
        // All ranks have the same to move.
        let moves: Vec<_> = self.model.ranks.iter().map(|rank| blocks.take_moves(rank.place.rank)).collect();
        if let Some(first) = moves.first().filter(|moves| !moves.is_empty()) {
            let (at, count) = self.sheet.moves(memory_at, first);
            self.work.push(Work::Move { count, at });
            self.moves.push((blocks.clone(), moves));
        }
        Ok(Rows { placed, memory_at })
    }

    /// The logits of some of the rows that the head ran over: (rows, vocab).
    fn logits(&mut self, rows: &[u32]) -> Result<Vec<f32>> {
        let is_all = rows.len() == self.rows;
        if !is_all {
            let count = bucketed(rows.len());
            let at = self.sheet.write(rows.iter().copied(), count - rows.len());
            self.work.push(Work::Gather { rows: count, at });
        }
        self.do_all()?;
        self.model.tell(rows.len(), |FusedRank { buffers, info, .. }| {
            let from = if is_all { &buffers.logits } else { &buffers.gathered };
            (from.address, info.config.vocab)
        })
    }

    /// What is to be said of the best tokens of some rows.
    fn best(&mut self, wanted: &BestOfRows) -> Result<Vec<f32>> {
        let (rows, count) = (bucketed(wanted.rows.len()), wanted.count);
        let at = self.sheet.wanted(wanted, rows);
        self.work.push(Work::Decide { rows, count, at });
        self.do_all()?;
        self.model.tell(wanted.rows.len(), |rank| (rank.buffers.said.address, 3 + 2 * count))
    }

    /// Decides on rows of which all logits are needed for that.
    fn settle(&mut self, near: &[Near]) -> Result<()> {
        if near.is_empty() {
            return Ok(());
        }
        let logits = self.logits(&near.iter().map(|near| near.row).collect::<Vec<_>>())?;
        let rows = logits.chunks_exact(self.model.info.config.vocab);
        near.iter().zip(rows).for_each(|(near, logits)| near.settle(logits, self.results));
        Ok(())
    }

    /// The stream: (rows, hidden).
    fn stream(&mut self) -> Result<Vec<f32>> {
        self.do_all()?;
        let (stream, rows) = (self.stream, self.rows);
        self.model.tell_stream(stream, rows)
    }

    /// Does the work so far.
    fn do_all(&mut self) -> Result<()> {
        if self.work.is_empty() {
            return Ok(());
        }
        self.work.push(Work::Settle);
        let key = Key { stream: self.stream, work: take(&mut self.work) };
        self.stream = self.model.run(key, &self.sheet)?;
        self.moves.clear();
        Ok(())
    }
}

impl Drop for FusedPass<'_> {
    fn drop(&mut self) {
        // The next pass does what this one could not.
        for (blocks, moves) in self.moves.drain(..).rev() {
            self.model.ranks.iter().zip(moves).for_each(|(rank, moves)| blocks.put_back(rank.place.rank, moves));
        }
    }
}

impl Pass for FusedPass<'_> {
    fn embed(&mut self, tokens: &[u32]) -> Result<()> {
        tokens.iter().try_for_each(|token| self.model.info.check_token(*token))?;
        self.rows = tokens.len();
        let rows = bucketed(self.rows);
        let at = self.sheet.write(tokens.iter().copied(), rows - self.rows);
        self.work.push(Work::Embed { rows, at });
        Ok(())
    }

    fn load(&mut self, states: &[f32]) -> Result<()> {
        let hidden = self.model.info.config.hidden;
        self.rows = states.len() / hidden;
        let rows = bucketed(self.rows);
        let at = self.sheet.write(states.iter().map(|state| state.to_bits()), (rows - self.rows) * hidden);
        self.sheet.write(0..rows as u32, 0);
        self.work.push(Work::Load { rows, at });
        Ok(())
    }

    fn keep(&mut self, rows: &[usize]) -> Result<()> {
        self.rows = rows.len();
        let count = bucketed(self.rows);
        let at = self.sheet.write(rows.iter().map(|row| *row as u32), count - self.rows);
        self.work.push(Work::Keep { rows: count, at });
        Ok(())
    }

    fn place(&mut self, placed: &[Placed]) -> Result<()> {
        let same = |one: &Placed, other: &Placed| one.blocks.shares_memory(&other.blocks);
        let groups = placed.chunk_by(same).map(|placed| self.rows(placed)).collect::<Result<Vec<_>>>()?;
        let info = &self.model.info;
        let standing = Standing { head_dim: info.config.head_dim, with_states: info.layers_of_states > 0 };
        let stand = self.sheet.place(&groups, standing);
        self.work.push(Work::Place(stand));
        Ok(())
    }

    fn layer(&mut self, index: usize, _: &[Placed]) -> Result<()> {
        self.work.push(Work::Layer(index));
        Ok(())
    }

    fn keys_and_values(&mut self, index: usize, keys: Keys, _: &[Placed]) -> Result<()> {
        self.work.push(Work::KeysAndValues { layer: index, of_states: keys == Keys::OfStates });
        Ok(())
    }

    fn tap(&mut self, tap: usize) -> Result<()> {
        self.results.taps[tap] = self.stream()?;
        Ok(())
    }

    fn states(&mut self) -> Result<&[f32]> {
        self.states = self.stream()?;
        Ok(&self.states)
    }

    fn answer(&mut self, answers: &[Answer]) -> Result<()> {
        let vocab = self.model.info.config.vocab;
        if answers.is_empty() {
            return Ok(());
        }
        self.work.push(Work::Head);
        let answers = Answers::new(answers, vocab, |_| true);
        if !answers.whole.is_empty() {
            let logits = self.logits(&answers.whole)?;
            answers.put_logits(&logits, vocab, self.results);
        }
        if !answers.best.rows.is_empty() {
            let said = self.best(&answers.best)?;
            let near = answers.put_best(&said, self.model.ranks.len(), self.results);
            self.settle(&near)?;
        }
        Ok(())
    }

    fn results(&mut self) -> &mut Results {
        self.results
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.work.is_empty() {
            return Ok(());
        }
        self.do_all()?;
        self.model.finish()
    }
}
