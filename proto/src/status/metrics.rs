//! What a model does, as metrics: the same of verifiers and of drafters.

use std::time::Duration;

use espalier_metrics::Snapshot;
use espalier_metrics::catalogue::{
    ENGINE_TURN_AGE, KV_BLOCK_SIZE, KV_BLOCKS, MODEL_ROUNDS, MODEL_TOKENS, PASS_COST, PASS_DURATION, PASS_ROWS,
    PASS_SEQUENCES, PASSES, SEQUENCES_LIMIT, SEQUENCES_OPEN, TREES_WAITING,
};

use super::{KvMemory, PassCounters, RoundCounts, Slots};

/// A model at work.
#[derive(Debug, Clone, Copy)]
pub struct ModelAtWork<'a> {
    /// What its service does: `verifier` or `drafter`.
    pub role: &'static str,
    /// Its name.
    pub model: &'a str,
    /// Slots for sequences.
    pub sequences: Slots,
    /// Trees that wait for it.
    pub trees_waiting: usize,
    /// Its passes.
    pub passes: &'a PassCounters,
    /// Rounds with it.
    pub rounds: RoundCounts,
    /// Its memory for keys and values.
    pub kv: KvMemory,
    /// How long its thread has been at its present turn.
    pub turn_age: Duration,
}

impl ModelAtWork<'_> {
    /// Tells all of that.
    pub fn tell(&self, to: &mut Snapshot) {
        let Self { role, model, sequences, passes, kv, .. } = *self;
        let labels = [role, model];
        let counts = passes.read();
        to.tell(&SEQUENCES_OPEN, &labels, sequences.open);
        to.tell(&SEQUENCES_LIMIT, &labels, sequences.max);
        to.tell(&TREES_WAITING, &labels, self.trees_waiting);
        to.tell(&PASSES, &labels, counts.passes);
        to.tell(&PASS_SEQUENCES, &labels, counts.sequences);
        to.tell(&PASS_ROWS, &labels, &passes.rows_of_pass);
        to.tell(&PASS_DURATION, &labels, &passes.seconds_of_pass);
        to.tell(&MODEL_ROUNDS, &labels, self.rounds.rounds);
        to.tell(&MODEL_TOKENS, &labels, self.rounds.tokens);
        to.tell(&ENGINE_TURN_AGE, &labels, self.turn_age.as_secs_f64());
        to.tell(&KV_BLOCK_SIZE, &labels, kv.block_bytes);
        // Promises may rest on blocks that linger.
        let free = kv.blocks.saturating_sub(kv.held + kv.lingering);
        for (state, blocks) in
            [("held", kv.held), ("promised", kv.promised), ("lingering", kv.lingering), ("free", free)]
        {
            to.tell(&KV_BLOCKS, &[role, model, state], blocks);
        }
    }

    /// Tells what passes of so many rows take while nothing else runs.
    pub fn tell_costs(&self, costs: impl IntoIterator<Item = (usize, Duration)>, to: &mut Snapshot) {
        for (rows, time) in costs {
            to.tell(&PASS_COST, &[self.role, self.model, &rows.to_string()], time.as_secs_f64());
        }
    }
}
