//! The learning rate over the steps.

use std::f64::consts::PI;

use crate::recipe::OptimiserOptions;

/// A rise from 0 over the warm-up, then half a cosine down to the final rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Schedule {
    peak: f64,
    last: f64,
    warmup: usize,
    steps: usize,
}

impl Schedule {
    /// The schedule of a training of so many steps.
    pub(crate) fn new(options: &OptimiserOptions, steps: usize) -> Self {
        let warmup = (options.warmup_share * steps as f64).ceil() as usize;
        let peak = options.learning_rate;
        Self { peak, last: peak * options.final_share, warmup, steps }
    }

    /// The rate of a step, from 1.
    pub(crate) fn rate(&self, step: usize) -> f64 {
        if step <= self.warmup {
            return self.peak * step as f64 / self.warmup as f64;
        }
        let way = (step - self.warmup) as f64 / (self.steps - self.warmup).max(1) as f64;
        self.last + (self.peak - self.last) * 0.5 * (1.0 + libm::cos(PI * way.min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls() {
        let options =
            OptimiserOptions { learning_rate: 1.0, final_share: 0.1, warmup_share: 0.1, ..OptimiserOptions::default() };
        let schedule = Schedule::new(&options, 100);
        let rates = [1, 5, 10, 55, 100].map(|step| (schedule.rate(step) * 1000.0).round() / 1000.0);
        assert_eq!(rates, [0.1, 0.5, 1.0, 0.55, 0.1]);
        assert!((1..100).all(|step| (schedule.rate(step) < schedule.rate(step + 1)) == (step < 10)));
    }

    #[test]
    fn one_step_without_warm_up_is_the_last() {
        let options = OptimiserOptions { warmup_share: 0.0, ..OptimiserOptions::default() };
        let schedule = Schedule::new(&options, 1);
        assert_eq!(schedule.rate(1), options.learning_rate * options.final_share);
    }
}
