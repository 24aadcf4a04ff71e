//! Positions that a model of one layer knows by another model's hidden states (EDD, "Parallel Decoding via Effective Draft
//! Decoder", §3.1), not by their tokens, or by both.

use crate::decoder::{Decoder, Layer};
use crate::error::{ModelError, Result};
use crate::forward::check_rows;
use crate::kv_cache::{KvCache, LayerCache};
use crate::pass::{Pass, Placed, RowsInLayer, sized};
use crate::workspace::Workspace;

/// Hidden states of one sequence.
pub struct States<'a> {
    /// Its cache; the states are its next committed positions.
    pub cache: &'a mut KvCache,
    /// The tokens of these positions, which count where states stand beside tokens.
    pub tokens: &'a [u32],
    /// (rows, hidden): the target's residual stream after the tapped layer, one row for each position.
    pub states: &'a [f32],
}

impl Decoder {
    /// Commits positions by their hidden states: the layer stores keys and values of them, as if they were embeddings or,
    /// where it has maps of their own for states, beside those of the tokens; nothing else is computed. The tails of the
    /// caches are forgotten: what was drafted there is known by its states once it is committed.
    ///
    /// # Errors
    /// A model of more than one layer, states that are not a row for each token, a full context, too many rows; where
    /// states stand beside tokens, a token outside the vocabulary, or positions before these that are known by their
    /// tokens alone. Nothing is committed then.
    pub fn append_states(&self, work: &mut Workspace, sequences: &mut [States<'_>]) -> Result<()> {
        let [layer] = &self.layers[..] else {
            return Err(ModelError::NotOneLayer { layers: self.layers() });
        };
        sequences.iter().try_for_each(|sequence| sequence.check(self.config().hidden))?;
        check_rows(sequences.iter().map(|sequence| sequence.tokens.len()).sum())?;
        for States { cache, tokens, .. } in &mut *sequences {
            cache.keep_path(&[])?;
            cache.reserve(tokens.len())?;
        }
        let mut pass = Pass::new(self, work);
        let placed = pass.place(sequences)?;
        pass.read(layer, sequences, &placed)?;
        drop(pass);
        for (States { cache, .. }, placed) in sequences.iter_mut().zip(&placed) {
            placed.slots().for_each(|slot| cache.advance(slot, self.cache_layers(), &[]));
            cache.keep_path(&(0..placed.rows()).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

impl States<'_> {
    fn check(&self, hidden: usize) -> Result<()> {
        let (found, expected) = (self.states.len(), vec![self.tokens.len(), hidden]);
        if found == self.tokens.len() * hidden {
            return Ok(());
        }
        Err(ModelError::Shape { name: "a list of hidden states".to_owned(), expected, found: vec![found] })
    }
}

impl Pass<'_> {
    /// Gives each position a slot after those that are known in the same way.
    fn place(&mut self, sequences: &mut [States<'_>]) -> Result<Vec<Placed>> {
        let mut placed = Vec::with_capacity(sequences.len());
        let mut first_row = 0;
        for States { cache, tokens, .. } in sequences {
            let (first, known) = (cache.slots(), cache.whole());
            if known < first {
                return Err(ModelError::NoStates { position: known });
            }
            cache.append((0..tokens.len()).map(|row| (row.checked_sub(1), None)))?;
            placed.push(Placed::new(cache, first..cache.slots(), first_row));
            first_row += tokens.len();
        }
        self.rotations(&placed);
        Ok(placed)
    }

    /// Stores the keys and values of states, and those of tokens where states stand beside them.
    fn read(&mut self, layer: &Layer, sequences: &mut [States<'_>], placed: &[Placed]) -> Result<()> {
        let mut caches = |layer| -> Vec<LayerCache> { sequences.iter_mut().map(|s| s.cache.layer(layer)).collect() };
        let (of_tokens, of_states) = (caches(0), caches(self.decoder.cache_layers() - 1));
        let by = match &layer.states {
            None => &layer.input,
            Some(by) => {
                self.embed_all(sequences)?;
                self.keys_and_values(layer, &layer.input, RowsInLayer { caches: &of_tokens, placed });
                by
            }
        };
        self.buffers.x.clear();
        sequences.iter().for_each(|sequence| self.buffers.x.extend_from_slice(sequence.states));
        self.keys_and_values(layer, by, RowsInLayer { caches: &of_states, placed });
        Ok(())
    }

    /// Makes the embeddings of all tokens the residual stream.
    fn embed_all(&mut self, sequences: &[States<'_>]) -> Result<()> {
        let hidden = self.decoder.config().hidden;
        let tokens = sequences.iter().flat_map(|sequence| sequence.tokens);
        let x = &mut self.buffers.x;
        sized(x, tokens.clone().count() * hidden);
        tokens.zip(x.chunks_exact_mut(hidden)).try_for_each(|(&token, x)| self.decoder.embed(token, x))
    }
}
