//! The progress of a training on the screen.

use std::time::Duration;

use espalier_command::report;
use espalier_trainer::{Entry, Observer, Plan, Speed, Validation};
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};

/// A bar with loss, speed and time left, and a line for every evaluation.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::no_length();
        let style = ProgressStyle::with_template("{wide_bar:.cyan/blue} {pos}/{len}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// Says something above the bar; on the error stream, which the result does not share.
    pub(super) fn say(&self, text: &str) {
        self.0.suspend(|| anstream::eprintln!("{text}"));
    }
}

impl Observer for Bar {
    fn began(&mut self, plan: &Plan) {
        self.0.set_length(plan.steps as u64);
        self.0.set_position(plan.done as u64);
        let numbers = [plan.parameters, plan.tokens, plan.validation_tokens].map(|n| HumanCount(n as u64));
        let [parameters, tokens, held_out] = numbers;
        self.say(&format!("training {parameters} parameters on {tokens} tokens; {held_out} tokens validate"));
        if plan.done > 0 {
            self.say(&format!("going on after step {}", plan.done));
        }
    }

    fn stepped(&mut self, entry: &Entry, speed: Speed) {
        let left = HumanDuration(Duration::from_secs_f64(speed.seconds_left.clamp(0.0, 1e9)));
        let message = format!("loss {:.3}  {:.0} tok/s  {left} left", entry.loss, speed.tokens_per_second);
        self.0.set_message(message);
        self.0.set_position(entry.step as u64);
    }

    fn validated(&mut self, step: usize, validation: &Validation, best: bool) {
        let exits = validation.exits.iter().map(|exit| format!("{} {:.1} %", exit.name, exit.top1 * 100.0));
        let exits = exits.collect::<Vec<_>>().join(", ");
        let mark = if best { "" } else { " (no better)" };
        let line = format!("step {step}: validation loss {:.4}{mark}; top-1: {exits}", validation.loss);
        self.say(&report::styled(report::FAINT, line));
    }

    fn saved(&mut self, _: usize) {}
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
