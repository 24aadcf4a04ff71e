//! Positions that a model of one layer knows by another model's hidden states (EDD, "Parallel Decoding via Effective Draft
//! Decoder", §3.1), not by their tokens, or by both.

use crate::decoder::Decoder;
use crate::error::{ModelError, Result};
use crate::forward::check_rows;
use crate::kv_cache::KvCache;
use crate::pass::Keys;
use crate::placed::Placed;
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
        if self.layers() != 1 {
            return Err(ModelError::NotOneLayer { layers: self.layers() });
        }
        let beside_tokens = self.cache_layers() > self.layers();
        sequences.iter().try_for_each(|sequence| sequence.check(self.config().hidden))?;
        check_rows(sequences.iter().map(|sequence| sequence.tokens.len()).sum())?;
        for States { cache, tokens, .. } in &mut *sequences {
            cache.keep_path(&[])?;
            cache.reserve(tokens.len())?;
        }
        let placed = place(sequences)?;
        let mut pass = self.begin(work);
        pass.place(&placed)?;
        if beside_tokens {
            pass.embed(&sequences.iter().flat_map(|sequence| sequence.tokens).copied().collect::<Vec<_>>())?;
            pass.keys_and_values(0, Keys::OfTokens, &placed)?;
        }
        pass.load(&sequences.iter().flat_map(|sequence| sequence.states).copied().collect::<Vec<_>>())?;
        pass.keys_and_values(0, Keys::OfStates, &placed)?;
        pass.finish()?;
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

/// Gives each position a slot after those that are known in the same way.
fn place(sequences: &mut [States<'_>]) -> Result<Vec<Placed>> {
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
    Ok(placed)
}
