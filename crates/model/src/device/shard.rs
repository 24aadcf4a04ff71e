//! Which part of a model a rank has.
//!
//! Heads, the feed-forward's inner width and the vocabulary are cut; the residual stream is whole on every rank. What goes
//! into attention and the feed-forward is cut by outputs, what comes out of them by inputs, so that the ranks' results are
//! parts of a sum (Shoeybi et al., "Megatron-LM", section 3).

use std::ops::Range;

use candle_core::Tensor;

use crate::config::ModelConfig;
use crate::error::{ModelError, Result};
use crate::raw_model::RawLinear;

/// One of several ranks that share a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) rank: usize,
    /// At least one.
    pub(crate) ranks: usize,
}

/// A rank's part of a linear map.
pub(super) struct LinearPart<'a> {
    pub(super) map: &'a RawLinear,
    pub(super) outputs: Range<usize>,
    pub(super) inputs: Range<usize>,
    has_bias: bool,
}

impl LinearPart<'_> {
    /// The bias of its outputs, if it is this rank's to add.
    ///
    /// # Errors
    /// There are fewer.
    pub(super) fn bias(&self) -> Result<Option<Tensor>> {
        let bias = self.map.bias.as_ref().filter(|_| self.has_bias);
        Ok(bias.map(|bias| bias.narrow(0, self.outputs.start, self.outputs.len())).transpose()?)
    }
}

impl Shard {
    /// All shards of a model.
    ///
    /// # Errors
    /// Heads that do not divide among so many.
    pub(crate) fn all(config: &ModelConfig, ranks: usize) -> Result<Vec<Self>> {
        let ModelConfig { heads, kv_heads, .. } = *config;
        if !divides(config, ranks) {
            let possible = (1..=heads).filter(|ranks| divides(config, *ranks)).collect();
            return Err(ModelError::Ranks { ranks, heads, kv_heads, possible });
        }
        Ok((0..ranks).map(|rank| Self { rank, ranks }).collect())
    }

    /// Query heads.
    pub(crate) fn heads(self, config: &ModelConfig) -> Range<usize> {
        self.even(config.heads)
    }

    /// Key and value heads: where there are fewer than ranks, several ranks have the same.
    pub(crate) fn kv_heads(self, config: &ModelConfig) -> Range<usize> {
        match config.kv_heads {
            heads if heads < self.ranks => {
                let head = self.rank * heads / self.ranks;
                head..head + 1
            }
            heads => self.even(heads),
        }
    }

    /// What the queries of its heads are among those of all heads, side by side.
    pub(super) fn query_dims(self, config: &ModelConfig) -> Range<usize> {
        dims(self.heads(config), config)
    }

    /// What its keys are among all heads' keys, and its values among their values.
    pub(super) fn kv_dims(self, config: &ModelConfig) -> Range<usize> {
        dims(self.kv_heads(config), config)
    }

    /// Inner units of the feed-forward: all ranks have about as many.
    pub(crate) fn inner(self, config: &ModelConfig) -> Range<usize> {
        self.even(config.ffn)
    }

    /// Tokens: as many on every rank, but for the last ones.
    pub(crate) fn tokens(self, config: &ModelConfig) -> Range<usize> {
        let each = self.tokens_each(config);
        let from = |rank: usize| (rank * each).min(config.vocab);
        from(self.rank)..from(self.rank + 1)
    }

    /// Most tokens that a rank has.
    pub(crate) fn tokens_each(self, config: &ModelConfig) -> usize {
        config.vocab.div_ceil(self.ranks)
    }

    /// Some outputs of a map.
    pub(super) fn with_outputs(self, map: &RawLinear, outputs: Range<usize>) -> LinearPart<'_> {
        LinearPart { map, outputs, inputs: 0..map.weight.inputs(), has_bias: true }
    }

    /// What some inputs of a map add to all its outputs; the bias of such a sum is the first rank's.
    pub(super) fn with_inputs(self, map: &RawLinear, inputs: Range<usize>) -> LinearPart<'_> {
        LinearPart { map, outputs: 0..map.weight.outputs(), inputs, has_bias: self.is_first() }
    }

    /// Its part of a model as if it were one, but for the stream, which is whole.
    pub(super) fn config(self, config: &ModelConfig) -> ModelConfig {
        ModelConfig {
            heads: self.heads(config).len(),
            kv_heads: self.kv_heads(config).len(),
            ffn: self.inner(config).len(),
            vocab: self.tokens(config).len(),
            ..config.clone()
        }
    }

    /// Whether it has what only one rank may add to a sum.
    pub(crate) fn is_first(self) -> bool {
        self.rank == 0
    }

    fn even(self, count: usize) -> Range<usize> {
        self.rank * count / self.ranks..(self.rank + 1) * count / self.ranks
    }
}

/// What some heads are in all heads side by side.
fn dims(heads: Range<usize>, config: &ModelConfig) -> Range<usize> {
    heads.start * config.head_dim..heads.end * config.head_dim
}

/// Whether so many ranks can share the heads of a model: as many of each kind on every rank, and queries where their keys
/// are.
pub(crate) fn divides(config: &ModelConfig, ranks: usize) -> bool {
    let ModelConfig { heads, kv_heads, .. } = *config;
    let shared = |many: usize, few: usize| few > 0 && many.is_multiple_of(few);
    ranks > 0 && shared(heads, ranks) && (shared(kv_heads, ranks) || shared(ranks, kv_heads))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn config(heads: usize, kv_heads: usize) -> ModelConfig {
        let config = format!(
            r#"{{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 96, "intermediate_size": 250,
                "vocab_size": 301, "head_dim": 16, "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}}}"#
        );
        ModelConfig::parse(&config, None).unwrap()
    }

    #[test]
    fn ranks_have_all_of_a_model_between_them() {
        for (heads, kv_heads, ranks) in [(6, 2, 1), (6, 2, 2), (12, 4, 4), (8, 8, 8), (32, 8, 4)] {
            let config = config(heads, kv_heads);
            let shards = Shard::all(&config, ranks).unwrap();
            let end = |part: fn(Shard, &ModelConfig) -> Range<usize>| {
                shards.iter().fold(0, |end, shard| {
                    let part = part(*shard, &config);
                    assert_eq!(part.start, end);
                    part.end
                })
            };
            let ends = [Shard::heads, Shard::kv_heads, Shard::inner, Shard::tokens].map(end);
            assert_eq!(ends, [heads, kv_heads, 250, 301]);
        }
    }

    #[test]
    fn queries_are_where_their_keys_are() {
        for (heads, kv_heads, ranks) in [(8, 2, 4), (8, 2, 8), (12, 4, 2), (16, 1, 4), (8, 8, 4)] {
            let config = config(heads, kv_heads);
            for shard in Shard::all(&config, ranks).unwrap() {
                let (queries, keys) = (shard.heads(&config), shard.kv_heads(&config));
                let key_of = |query: usize| query * kv_heads / heads;
                assert_eq!(keys, key_of(queries.start)..key_of(queries.end - 1) + 1, "{shard:?}");
                assert_eq!(queries.len() % keys.len(), 0);
            }
        }
    }

    #[test]
    fn heads_that_do_not_divide_are_refused_with_what_would() {
        let refusal = |ranks| Shard::all(&config(6, 2), ranks).unwrap_err().to_string();
        assert_eq!(
            refusal(4),
            "6 heads with 2 of keys and values cannot be shared by 4 ranks; [1, 2, 6] ranks can share them, and \
             --pipeline-parallel splits layers instead"
        );
        assert!(refusal(3).contains("by 3 ranks") && refusal(0).contains("by 0 ranks"));
    }
}
