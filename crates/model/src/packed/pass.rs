//! A pass on the CPU, over packed weights.

use parking_lot::Mutex;

use super::heads::Heads;
use super::layer_pass::{LayerPass, RowsInLayer, Stored, copy};
use super::sharing::shares_rows;
use super::{Layer, Packed};
use crate::disjoint::Disjoint;
use crate::error::{ModelError, Result};
use crate::kernels::Kernels;
use crate::kv_cache::LayerCache;
use crate::linear::Compute;
use crate::model_info::ModelInfo;
use crate::pass::{Answer, Keys, Pass, Results, sized};
use crate::placed::Placed;
use crate::team::Turn;
use crate::workspace::{Buffers, PerThread, Workspace};

/// A pass at work.
pub(crate) struct PackedPass<'a> {
    info: &'a ModelInfo,
    model: &'a Packed,
    team: Turn<'a>,
    kernels: &'static Kernels,
    /// The residual stream (rows, hidden).
    x: &'a mut Vec<f32>,
    buffers: &'a mut Buffers,
    results: &'a mut Results,
    /// Where the rows stand that each thread takes through layers by itself; none if all threads share all rows.
    rows_of_threads: Vec<Vec<Placed>>,
    per_thread: &'a mut Vec<PerThread>,
}

/// What the sequences of some rows have cached in a layer.
fn caches(placed: &[Placed], layer: usize) -> Vec<LayerCache> {
    placed.iter().map(|placed| placed.layer(layer)).collect()
}

impl Pass for PackedPass<'_> {
    fn embed(&mut self, tokens: &[u32]) -> Result<()> {
        let hidden = self.info.config.hidden;
        let x = &mut *self.x;
        sized(x, tokens.len() * hidden);
        tokens.iter().try_for_each(|token| self.info.check_token(*token))?;
        tokens.iter().zip(x.chunks_exact_mut(hidden)).for_each(|(token, x)| self.model.embed(*token, x));
        Ok(())
    }

    fn load(&mut self, states: &[f32]) -> Result<()> {
        self.x.clear();
        self.x.extend_from_slice(states);
        Ok(())
    }

    fn keep(&mut self, rows: &[usize]) -> Result<()> {
        let hidden = self.info.config.hidden;
        let x = &mut *self.x;
        for (to, &from) in rows.iter().enumerate() {
            x.copy_within(from * hidden..(from + 1) * hidden, to * hidden);
        }
        x.truncate(rows.len() * hidden);
        Ok(())
    }

    fn place(&mut self, placed: &[Placed]) -> Result<()> {
        if placed.iter().any(|placed| placed.blocks.are_on_devices()) {
            return Err(ModelError::CacheElsewhere);
        }
        let positions = &mut self.buffers.positions;
        positions.clear();
        positions.extend(placed.iter().flat_map(Placed::positions));
        self.share_out(placed);
        Ok(())
    }

    fn layer(&mut self, index: usize, placed: &[Placed]) -> Result<()> {
        self.team.give_way();
        let layer = &self.model.layers[index];
        if self.rows_of_threads.is_empty() {
            self.layer_by_outputs(layer, RowsInLayer { caches: &caches(placed, index), placed });
        } else {
            self.layer_by_rows(layer, index);
        }
        Ok(())
    }

    fn keys_and_values(&mut self, index: usize, keys: Keys, placed: &[Placed]) -> Result<()> {
        let layer = &self.model.layers[index];
        let (by, index) = match (keys, &layer.states) {
            (Keys::OfStates, Some(by)) => (by, self.info.cache_layers() - 1),
            _ => (&layer.input, index),
        };
        let mut all = self.all();
        all.project(by, Heads::KeysAndValues);
        all.store(layer, by, Heads::KeysAndValues, RowsInLayer { caches: &caches(placed, index), placed });
        Ok(())
    }

    fn tap(&mut self, tap: usize) -> Result<()> {
        self.results.taps[tap].clone_from(self.x);
        Ok(())
    }

    fn states(&mut self) -> Result<&[f32]> {
        Ok(self.x)
    }

    fn answer(&mut self, answers: &[Answer]) -> Result<()> {
        let model = self.model;
        self.all().normalise(&model.final_norm, &model.head.weight);
        self.head(answers);
        Ok(())
    }

    fn results(&mut self) -> &mut Results {
        self.results
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl PackedPass<'_> {
    /// A pass of `decoder` in the buffers of `work`, as soon as its team is free.
    pub(crate) fn new<'a>(info: &'a ModelInfo, model: &'a Packed, work: &'a mut Workspace) -> PackedPass<'a> {
        let Workspace { team, kernels, stream, buffers, results, waited, per_thread, .. } = work;
        let team = team.turn(waited);
        PackedPass { info, model, team, kernels, x: stream, buffers, results, rows_of_threads: Vec::new(), per_thread }
    }

    /// All rows, which all threads share.
    fn all(&mut self) -> LayerPass<'_> {
        let Self { info, kernels, team, x, buffers, .. } = self;
        LayerPass { info, kernels, pool: team, x, buffers }
    }

    /// Gives each thread rows of its own where that pays.
    fn share_out(&mut self, placed: &[Placed]) {
        let (rows, threads) = (self.rows(), self.team.threads());
        self.rows_of_threads.clear();
        if !self.model.layers.first().is_some_and(|layer| shares_rows(layer, self.kernels, rows, threads)) {
            return;
        }
        let of_thread = |thread| thread * rows / threads..(thread + 1) * rows / threads;
        let part = |rows| placed.iter().filter_map(|placed| placed.among(&rows)).collect();
        self.rows_of_threads.extend((0..threads).map(of_thread).map(part));
        self.per_thread.resize_with(threads, PerThread::default);
        for (PerThread { buffers, .. }, placed) in self.per_thread.iter_mut().zip(&self.rows_of_threads) {
            buffers.positions.clear();
            buffers.positions.extend(placed.iter().flat_map(Placed::positions));
        }
    }

    /// A layer whose outputs all threads share.
    fn layer_by_outputs(&mut self, layer: &Layer, rows: RowsInLayer<'_>) {
        let mut all = self.all();
        all.project(&layer.input, Heads::All);
        all.attend(layer, rows, Stored::Not);
        all.add_and_feed_forward(layer);
    }

    /// A layer through which each thread takes rows of its own. All keys and values are stored before any row attends.
    fn layer_by_rows(&mut self, layer: &Layer, index: usize) {
        let Self { info, kernels, team, x, rows_of_threads, per_thread, .. } = self;
        let caches: Vec<_> = rows_of_threads.iter().map(|placed| caches(placed, index)).collect();
        let (mut rest, mut own) = (&mut x[..], Vec::with_capacity(rows_of_threads.len()));
        for (placed, PerThread { pool, buffers }) in rows_of_threads.iter().zip(per_thread.iter_mut()) {
            let rows: usize = placed.iter().map(Placed::rows).sum();
            let (x, behind) = rest.split_at_mut(rows * info.config.hidden);
            own.push(Mutex::new(LayerPass { info, kernels, pool, x, buffers }));
            rest = behind;
        }
        let rows = |i: usize| RowsInLayer { caches: &caches[i], placed: &rows_of_threads[i] };
        team.run(own.len(), &|i| {
            let mut own = own[i].lock();
            own.project(&layer.input, Heads::All);
            own.store(layer, &layer.input, Heads::All, rows(i));
        });
        team.run(own.len(), &|i| {
            let mut own = own[i].lock();
            own.attend(layer, rows(i), Stored::All);
            own.add_and_feed_forward(layer);
        });
    }

    /// Rows of the residual stream.
    fn rows(&self) -> usize {
        self.x.len() / self.info.config.hidden
    }

    /// The head over the normalised rows: `answers[i]` is what is wanted of the `i`-th. All logits are told, as they are in
    /// memory anyway.
    fn head(&mut self, answers: &[Answer]) {
        if answers.is_empty() {
            return;
        }
        let (head, vocab, kernels) = (&self.model.head, self.info.config.vocab, self.kernels);
        let normed = &self.buffers.normed;
        let out = Disjoint::new(&mut self.results.logits);
        head.weight.forward(Compute { pool: &mut self.team, kernels }, normed, &|computed| {
            for (row, first, values) in computed.biased(kernels, head.bias.as_deref()).rows() {
                // SAFETY: each output is emitted once, and no two rows go to one place.
                copy(unsafe { out.slice(answers[row].place * vocab + first, values.len()) }, values);
            }
        });
    }
}
