//! One pass of a sequence through the draft model: what is run, and what came of it.

use espalier_model::{BestOf, Logits, Output, Row};
use espalier_proto::HiddenStates;
use espalier_speculation::{Best, LogitsError};

/// Most positions of a first level that is a level's cost: more read a prompt, or what was committed while nothing was
/// drafted.
pub const LEVEL_ROWS_MAX: usize = 8;

/// What to run next.
pub(crate) struct Step {
    /// The target's hidden states of the next committed positions, to be read before the rows are run.
    pub(crate) states: Option<HiddenStates>,
    /// The rows: of committed tokens up to the root, then of draft nodes.
    pub(crate) rows: Vec<Row>,
    /// The draft nodes, in the order of their rows.
    pub(crate) nodes: Vec<usize>,
    /// Which of them want logits.
    pub(crate) logits: Logits,
    /// The best tokens of each row that wants logits, if they are enough.
    pub(crate) best: Option<BestOf>,
}

impl Step {
    /// Positions that it adds to the cache.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.states.as_ref().map_or(0, HiddenStates::rows)
    }

    /// The row that wants the `answer`-th logits.
    fn asking(&self, answer: usize) -> usize {
        match self.logits {
            Logits::Last(count) => self.rows.len().saturating_sub(count) + answer,
            Logits::All | Logits::None => answer,
        }
    }

    /// Rows of committed tokens.
    pub(crate) fn committed(&self) -> usize {
        self.rows.len() - self.nodes.len()
    }

    /// Whether its time says what a level costs.
    pub(crate) fn is_level(&self) -> bool {
        match self.logits {
            Logits::All => true,
            Logits::Last(_) => self.len() <= LEVEL_ROWS_MAX,
            Logits::None => false,
        }
    }
}

/// What the model said in a step.
pub(crate) struct Answers<'w> {
    pub(crate) step: &'w Step,
    /// Of the pass that the steps with rows shared; none if there was no such step.
    pub(crate) output: Option<&'w Output<'w>>,
    /// The step's number among them.
    pub(crate) segment: usize,
}

impl Answers<'_> {
    /// The logits of the `answer`-th row that wanted some.
    pub(super) fn logits(&self, answer: usize) -> &[f32] {
        self.output.map_or(&[], |output| output.logits(self.segment, answer))
    }

    /// The best tokens of the same row, if they were told in place of its logits.
    pub(super) fn best(&self, answer: usize) -> Option<Result<&Best, LogitsError>> {
        self.output?.best(self.segment, answer)
    }

    /// The residual stream where that row left the model. Only passes in which a sequence predicts record it.
    pub(super) fn state(&self, answer: usize) -> &[f32] {
        self.output.map_or(&[], |output| output.tap(0, self.segment, self.step.asking(answer)))
    }
}
