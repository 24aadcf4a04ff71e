//! Learns a curve from noisy durations at few sizes.
//!
//! The cost of `n` nodes is believed to be `shape(n) * (factor + own(n))`: how fast the machine is
//! (its load), and how each size differs from the shape that was expected. A Kalman filter keeps
//! these parts with their uncertainty, so one measurement moves the cost of every size as far as it
//! says something about it. Each part drifts back to what was believed at first, a size's own the
//! soonest: one that was unlucky once, and is avoided since, gets another chance.

use std::time::Duration;

use super::Curve;
use super::robust::{FADE, HICCUP, LEAST_MS};

/// Sizes whose cost is tracked.
const SIZES: [usize; POINTS] = [0, 1, 2, 3, 4, 6, 8, 11, 15, 19, 23, 31, 47, 63, 127, 255];
const POINTS: usize = 16;

/// Most nodes of a step that is learnt from: more are a prompt's, not a tree's.
pub(super) const NODES_MAX: usize = SIZES[POINTS - 1] + 1;

/// The parts in their order: the factor, and each size's own.
const PARTS: usize = POINTS + 1;
type Parts = [f64; PARTS];
const FACTOR: usize = 0;
const OWN: usize = 1;

/// Uncertainty of the factor, and of a size's own part where the shape was guessed, as a share of it; and of a size's own
/// part where the shape was measured.
const GUESSED_SPREAD: f64 = 1.0;
const MEASURED_SPREAD: f64 = 0.1;

/// How fast sizes become strangers: those of twice the size share a third of their own part.
const STRANGENESS: f64 = 1.5;

/// Share of its way back that each part drifts with every measurement.
const FACTOR_DRIFT: f64 = 5e-4;
const OWN_DRIFT: f64 = 3e-3;

/// Jitter of a measurement, as a share of it.
const JITTER: f64 = 0.15;

/// Two hiccups in a row are a change, which takes this share of the certainty away.
const UPSET: f64 = 0.2;

/// A running fit of one cost; old measurements fade.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    prior: Curve,
    /// Whether `prior` was measured: its milliseconds are meant, not only their proportions.
    measured: bool,
    /// The believed cost of each of [`SIZES`].
    shape: [f64; POINTS],
    parts: Parts,
    /// Covariance of the parts, and what it was before anything was measured.
    covariance: Box<[Parts; PARTS]>,
    believed: Box<[Parts; PARTS]>,
    /// Measurements so far, as far as that matters.
    count: u32,
    /// Mean of the last measurements.
    mean_ms: f64,
    /// Whether the last measurement was far from what was expected.
    upset: bool,
}

impl Fit {
    /// Believes the proportions of `prior`, until measurements say otherwise.
    pub(super) fn new(prior: &Curve) -> Self {
        Self::from(prior, false)
    }

    /// Believes the milliseconds of `prior`.
    pub(super) fn measured(prior: &Curve) -> Self {
        Self::from(prior, true)
    }

    fn from(prior: &Curve, measured: bool) -> Self {
        let mut fit = Self {
            prior: *prior,
            measured,
            shape: SIZES.map(|nodes| prior.at(nodes).max(LEAST_MS)),
            parts: [0.0; PARTS],
            covariance: Box::new([[0.0; PARTS]; PARTS]),
            believed: Box::new([[0.0; PARTS]; PARTS]),
            count: 0,
            mean_ms: prior.at(1),
            upset: false,
        };
        fit.parts[FACTOR] = 1.0;
        fit
    }

    /// The mean of the last measurements, of whatever sizes.
    pub(super) fn mean_ms(&self) -> f64 {
        self.mean_ms
    }

    /// Lets the mean drift towards what was believed at first: nothing was measured lately, maybe because an unlucky mean
    /// spoke against it.
    pub(super) fn rest(&mut self) {
        if self.measured {
            self.mean_ms += (self.prior.at(1) - self.mean_ms) * FADE;
        }
    }

    /// The cost as it stands.
    pub(super) fn curve(&self) -> Curve {
        if self.count == 0 {
            return self.prior;
        }
        let cost = |(index, nodes)| (nodes, self.cost(&self.effects_at(index)));
        let mut points: Vec<(usize, f64)> = SIZES.into_iter().enumerate().map(cost).collect();
        smooth(&mut points);
        Curve::through(points).unwrap_or(self.prior)
    }

    /// A step of `nodes` nodes took this long.
    pub(super) fn add(&mut self, nodes: usize, took: Duration) {
        let ms = (took.as_secs_f64() * 1e3).max(LEAST_MS);
        let sizes = Interpolation::of(nodes);
        if self.count == 0 {
            self.start(ms, &sizes);
        }
        let effects = self.effects(&sizes);
        let expected = self.cost(&effects);
        self.count = self.count.saturating_add(1);
        self.drift();
        self.correct(&effects, ms - expected, (JITTER * expected).powi(2));
    }

    /// Takes the first measurement as the machine's speed where only proportions are believed.
    fn start(&mut self, ms: f64, sizes: &Interpolation) {
        if !self.measured {
            let speed = ms / self.cost(&self.effects(sizes));
            self.shape = self.shape.map(|ms| (ms * speed).max(LEAST_MS));
            self.mean_ms = ms;
        }
        for i in 0..PARTS {
            self.believed[i] = std::array::from_fn(|j| self.prior_covariance(i, j));
        }
        self.covariance = self.believed.clone();
    }

    /// Every part a little back to what was believed at first, its certainty too.
    fn drift(&mut self) {
        let keep: Parts = std::array::from_fn(|part| match part {
            FACTOR => 1.0 - FACTOR_DRIFT,
            _ => 1.0 - OWN_DRIFT,
        });
        self.parts[FACTOR] -= 1.0;
        for (part, keep) in self.parts.iter_mut().zip(keep) {
            *part *= keep;
        }
        self.parts[FACTOR] += 1.0;
        for i in 0..PARTS {
            for j in 0..PARTS {
                let kept = keep[i] * keep[j];
                self.covariance[i][j] = kept * self.covariance[i][j] + (1.0 - kept) * self.believed[i][j];
            }
        }
    }

    /// Gives this share of the certainty up.
    fn loosen(&mut self, share: f64) {
        for i in 0..PARTS {
            for j in 0..PARTS {
                self.covariance[i][j] += share * (self.believed[i][j] - self.covariance[i][j]);
            }
        }
    }

    /// Covariance of two parts before anything is measured.
    fn prior_covariance(&self, i: usize, j: usize) -> f64 {
        let own = if self.measured { MEASURED_SPREAD } else { GUESSED_SPREAD };
        match (i.min(j), i.max(j)) {
            (FACTOR, FACTOR) => GUESSED_SPREAD.powi(2),
            (OWN.., _) => own.powi(2) * kinship(SIZES[i - OWN], SIZES[j - OWN]),
            _ => 0.0,
        }
    }

    /// Moves the parts towards a measurement that deviates by `deviation` and jitters by `noise`.
    fn correct(&mut self, effects: &Parts, deviation: f64, noise: f64) {
        let mut shared = self.shared(effects);
        let usual = (dot(&shared, effects) + noise).sqrt();
        let far = deviation.abs() > HICCUP * usual;
        if far && self.upset {
            self.loosen(UPSET);
            shared = self.shared(effects);
        }
        self.upset = far;
        let total = dot(&shared, effects) + noise;
        let cut = HICCUP * total.sqrt();
        let deviation = deviation.clamp(-cut, cut);
        let expected = self.cost(effects);
        for i in 0..PARTS {
            self.parts[i] += shared[i] / total * deviation;
            for j in 0..PARTS {
                self.covariance[i][j] -= shared[i] * shared[j] / total;
            }
        }
        let ms = (expected + deviation).max(LEAST_MS);
        self.mean_ms += (ms - self.mean_ms) * FADE;
    }

    /// Covariance of each part with the cost of these effects.
    fn shared(&self, effects: &Parts) -> Parts {
        self.covariance.each_ref().map(|row| dot(row, effects))
    }

    fn cost(&self, effects: &Parts) -> f64 {
        dot(&self.parts, effects).max(LEAST_MS)
    }

    fn effects_at(&self, index: usize) -> Parts {
        self.effects(&Interpolation { above: index, share: 1.0 })
    }

    /// What each part counts in the cost of a size.
    fn effects(&self, sizes: &Interpolation) -> Parts {
        let mut effects = [0.0; PARTS];
        for (index, share) in sizes.shares() {
            effects[FACTOR] += share * self.shape[index];
            effects[OWN + index] = share * self.shape[index];
        }
        effects
    }
}

/// Where a number of nodes lies among [`SIZES`].
struct Interpolation {
    above: usize,
    /// How much of the way from the size below to the one above.
    share: f64,
}

impl Interpolation {
    fn of(nodes: usize) -> Self {
        let above = SIZES.partition_point(|&size| size < nodes).clamp(1, POINTS - 1);
        let (from, to) = (SIZES[above - 1] as f64, SIZES[above] as f64);
        Self { above, share: ((nodes as f64 - from) / (to - from)).min(1.0) }
    }

    fn shares(&self) -> [(usize, f64); 2] {
        [(self.above.saturating_sub(1), 1.0 - self.share), (self.above, self.share)]
    }
}

/// Lets neighbouring costs that would fall share their mean.
fn smooth(points: &mut [(usize, f64)]) {
    let mut levels: Vec<(f64, usize)> = Vec::with_capacity(points.len());
    for &(_, ms) in points.iter() {
        let (mut sum, mut count) = (ms, 1);
        while let Some((below, more)) = levels.pop_if(|level| level.0 / level.1 as f64 > sum / count as f64) {
            (sum, count) = (sum + below, count + more);
        }
        levels.push((sum, count));
    }
    let smoothed = levels.into_iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / count as f64, count));
    points.iter_mut().zip(smoothed).for_each(|(point, ms)| point.1 = ms);
}

fn dot(a: &Parts, b: &Parts) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// How much of their own two sizes share: 1 for the same, falling with their ratio.
fn kinship(a: usize, b: usize) -> f64 {
    let (less, more) = (a.min(b) as f64 + 2.0, a.max(b) as f64 + 2.0);
    libm::pow(less / more, STRANGENESS)
}
