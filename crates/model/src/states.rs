//! Positions that a model of one layer knows by another model's hidden states (EDD, "Parallel Decoding via Effective Draft
//! Decoder", §3.1), not by their tokens.

use crate::decoder::Decoder;
use crate::error::{ModelError, Result};
use crate::forward::{Workspace, check_rows};
use crate::kv_cache::{KvCache, LayerCache};
use crate::pass::{Pass, Placed};

/// Hidden states of one sequence.
pub struct States<'a> {
    /// Its cache; the states are its next committed positions.
    pub cache: &'a mut KvCache,
    /// (rows, hidden): the target's residual stream after the tapped layer, one row for each position.
    pub states: &'a [f32],
}

impl Decoder {
    /// Commits positions by their hidden states: the layer reads them as if they were embeddings and stores their keys and
    /// values; nothing else is computed. The tails of the caches are forgotten: what was drafted there is known by its
    /// states once it is committed.
    ///
    /// # Errors
    /// A model of more than one layer, states that are not whole rows, a full context, or too many rows. Nothing is
    /// committed then.
    pub fn append_states(&self, work: &mut Workspace, sequences: &mut [States<'_>]) -> Result<()> {
        let hidden = self.config().hidden;
        let [layer] = &self.layers[..] else {
            return Err(ModelError::NotOneLayer { layers: self.layers() });
        };
        sequences.iter().try_for_each(|sequence| check_whole(sequence.states.len(), hidden))?;
        check_rows(sequences.iter().map(|sequence| sequence.states.len() / hidden).sum())?;
        for States { cache, states } in &mut *sequences {
            cache.keep_path(&[])?;
            cache.reserve(states.len() / hidden)?;
        }
        let mut pass = Pass::new(self, work);
        let placed = pass.take(sequences)?;
        pass.rotations(&placed);
        let caches: Vec<LayerCache> = sequences.iter_mut().map(|sequence| sequence.cache.layer(0)).collect();
        pass.keys_and_values(layer, &caches, &placed);
        drop(caches);
        for (States { cache, .. }, placed) in sequences.iter_mut().zip(&placed) {
            placed.slots().for_each(|slot| cache.advance(slot, 1, &[]));
            cache.keep_path(&(0..placed.rows()).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

fn check_whole(found: usize, hidden: usize) -> Result<()> {
    if found.is_multiple_of(hidden) {
        return Ok(());
    }
    let expected = vec![found / hidden, hidden];
    Err(ModelError::Shape { name: "a list of hidden states".to_owned(), expected, found: vec![found] })
}

impl Pass<'_> {
    /// Makes the states the residual stream and gives each a slot.
    fn take(&mut self, sequences: &mut [States<'_>]) -> Result<Vec<Placed>> {
        let hidden = self.decoder.config().hidden;
        let x = &mut self.buffers.x;
        x.clear();
        let mut placed = Vec::with_capacity(sequences.len());
        for States { cache, states } in sequences {
            let first = cache.slots();
            cache.append((0..states.len() / hidden).map(|row| (row.checked_sub(1), None)))?;
            placed.push(Placed::new(cache, first..cache.slots(), x.len() / hidden));
            x.extend_from_slice(states);
        }
        Ok(placed)
    }
}
