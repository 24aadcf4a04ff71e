//! Learns a curve from noisy durations at few sizes.
//!
//! A Kalman filter over the cost at [`SIZES`]. What is believed before measuring is how costs
//! move together: all by the same time (the network), all by the same factor (the load), and
//! neighbours by a little of their own (the shape). So one measurement moves the costs of all
//! sizes, as far as it says something about them, and old ones fade as those beliefs return.

use std::time::Duration;

use super::Curve;

/// Sizes at which the cost is tracked.
const SIZES: [usize; POINTS] = [0, 1, 2, 3, 4, 6, 8, 11, 15, 19, 23, 31, 47, 63, 127, 255];
const POINTS: usize = 16;

/// How much costs may differ from what is believed, as shares of them: the part common to all
/// sizes (of the least cost), the common factor, and each size's own (of their own cost).
const COMMON: f64 = 2.0;
const FACTOR: f64 = 0.4;
const OWN: f64 = 0.3;

/// How fast sizes become strangers: those of twice the size share a third of their own part.
const STRANGENESS: f64 = 1.5;

/// Jitter of a measurement, as a share of it.
const JITTER: f64 = 0.15;

/// Share of the original uncertainty that returns with each measurement: about the last
/// ten or twenty decide on common changes.
const RETURN: f64 = 2e-4;

/// Share of its weight that a measurement loses in the mean when a new one arrives.
const FADE: f64 = 0.08;

/// A measurement counts as at most this many times what was expected: a hiccup of the machine
/// must not decide the next trees, while a lasting change is followed within some rounds.
const OUTLIER_MAX: f64 = 2.0;

/// A measurement counts as at least this: no step is free, whatever a coarse clock says.
const LEAST_MS: f64 = 1e-3;

/// A running fit of one cost; old measurements fade.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    prior: Curve,
    /// Whether `prior` was measured: its milliseconds are meant, not only their proportions.
    absolute: bool,
    /// Measurements so far, as far as that matters.
    count: u32,
    /// Mean of the last measurements.
    mean_ms: f64,
    /// Expected cost of each of [`SIZES`], and its covariance.
    ms: [f64; POINTS],
    covariance: Box<[[f64; POINTS]; POINTS]>,
}

impl Fit {
    /// Believes the proportions of `prior`, until measurements say otherwise.
    pub(super) fn new(prior: &Curve) -> Self {
        let ms = SIZES.map(|nodes| prior.at(nodes).max(LEAST_MS));
        let covariance = Box::new([[0.0; POINTS]; POINTS]);
        let mean_ms = prior.at(1);
        Self { prior: *prior, absolute: false, count: 0, mean_ms, ms, covariance }
    }

    /// Believes the milliseconds of `prior`.
    pub(super) fn measured(prior: &Curve) -> Self {
        Self { absolute: true, ..Self::new(prior) }
    }

    /// The mean of the last measurements, of whatever sizes.
    pub(super) fn mean_ms(&self) -> f64 {
        self.mean_ms
    }

    /// The cost as it stands; sizes whose costs would fall share their mean, the more certain
    /// counting more.
    pub(super) fn curve(&self) -> Curve {
        if self.count == 0 {
            return self.prior;
        }
        let mut levels: Vec<Level> = Vec::with_capacity(POINTS);
        for (index, &ms) in self.ms.iter().enumerate() {
            let certainty = 1.0 / self.covariance[index][index].max(f64::MIN_POSITIVE);
            let mut level = Level { ms, certainty, points: 1 };
            while let Some(before) = levels.pop_if(|before| before.ms > level.ms) {
                level = level.joined(&before);
            }
            levels.push(level);
        }
        let ms = levels.iter().flat_map(|level| std::iter::repeat_n(level.ms, level.points));
        Curve::through(SIZES.into_iter().zip(ms)).unwrap_or(self.prior)
    }

    /// A step of `nodes` nodes took this long.
    pub(super) fn add(&mut self, nodes: usize, took: Duration) {
        let mut ms = (took.as_secs_f64() * 1e3).max(LEAST_MS);
        let weights = weights(nodes);
        if self.count == 0 {
            self.start(ms / dot(&weights, &self.ms));
        }
        let expected = dot(&weights, &self.ms).max(LEAST_MS);
        if self.count > 0 {
            ms = ms.min(expected * OUTLIER_MAX);
        }
        self.count = self.count.saturating_add(1);
        self.mean_ms += (ms - self.mean_ms) * FADE.max(1.0 / f64::from(self.count));
        self.loosen(RETURN);
        self.correct(&weights, ms - expected, (JITTER * expected).powi(2));
    }

    /// Takes the first measurement as the machine's speed where only proportions are believed.
    fn start(&mut self, factor: f64) {
        if !self.absolute {
            self.ms = self.ms.map(|ms| (ms * factor).max(LEAST_MS));
        }
        self.loosen(1.0);
    }

    /// Gives this share of the certainty up for what was believed before.
    fn loosen(&mut self, share: f64) {
        let common = (COMMON * self.ms[0]).powi(2);
        for (i, row) in self.covariance.iter_mut().enumerate() {
            for (j, covariance) in row.iter_mut().enumerate() {
                let alike = FACTOR.powi(2) + OWN.powi(2) * kinship(SIZES[i], SIZES[j]);
                let believed = common + self.ms[i] * self.ms[j] * alike;
                *covariance += share * (believed - *covariance);
            }
        }
    }

    /// Moves the costs towards a measurement that deviates by `deviation` at `weights`.
    fn correct(&mut self, weights: &[f64; POINTS], deviation: f64, noise: f64) {
        let shared = self.covariance.each_ref().map(|row| dot(row, weights));
        let total = dot(&shared, weights) + noise;
        for i in 0..POINTS {
            self.ms[i] = (self.ms[i] + shared[i] / total * deviation).max(LEAST_MS);
            for j in 0..POINTS {
                self.covariance[i][j] -= shared[i] * shared[j] / total;
            }
        }
    }
}

/// Neighbouring sizes of one cost.
struct Level {
    ms: f64,
    certainty: f64,
    points: usize,
}

impl Level {
    fn joined(&self, other: &Self) -> Self {
        let certainty = self.certainty + other.certainty;
        let ms = (self.ms * self.certainty + other.ms * other.certainty) / certainty;
        Self { ms, certainty, points: self.points + other.points }
    }
}

/// What each of [`SIZES`] counts in the cost of `nodes` nodes, straight between them.
fn weights(nodes: usize) -> [f64; POINTS] {
    let mut weights = [0.0; POINTS];
    let above = SIZES.partition_point(|&size| size < nodes).clamp(1, POINTS - 1);
    let (from, to) = (SIZES[above - 1] as f64, SIZES[above] as f64);
    let share = ((nodes as f64 - from) / (to - from)).min(1.0);
    weights[above - 1] = 1.0 - share;
    weights[above] = share;
    weights
}

fn dot(a: &[f64; POINTS], b: &[f64; POINTS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// How much of their own two sizes share: 1 for the same, falling with their ratio.
fn kinship(a: usize, b: usize) -> f64 {
    let (less, more) = (a.min(b) as f64 + 2.0, a.max(b) as f64 + 2.0);
    libm::pow(less / more, STRANGENESS)
}
