//! Who looks on while a model is trained.

use crate::output::{Entry, Validation};

/// What lies ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Steps in all.
    pub steps: usize,
    /// Steps already done, above 0 in a resumed run.
    pub done: usize,
    /// Numbers that are trained.
    pub parameters: usize,
    /// Tokens to learn from.
    pub tokens: usize,
    /// Tokens to validate with.
    pub validation_tokens: usize,
}

/// How fast it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Tokens learned from in a second, evaluations and checkpoints included, since this run began or was resumed.
    pub tokens_per_second: f64,
    /// Seconds to the last step at this speed.
    pub seconds_left: f64,
}

/// Is told what happens, as it happens. Nothing it does changes the result.
pub trait Observer: Send {
    /// The run begins, or goes on.
    fn began(&mut self, plan: &Plan);
    /// A step is done.
    fn stepped(&mut self, entry: &Entry, speed: Speed);
    /// The validation texts were asked after a step; `best` if never before with a lower loss.
    fn validated(&mut self, step: usize, validation: &Validation, best: bool);
    /// A checkpoint was written after a step.
    fn saved(&mut self, step: usize);
}

/// Looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blind;

impl Observer for Blind {
    fn began(&mut self, _: &Plan) {}
    fn stepped(&mut self, _: &Entry, _: Speed) {}
    fn validated(&mut self, _: usize, _: &Validation, _: bool) {}
    fn saved(&mut self, _: usize) {}
}
