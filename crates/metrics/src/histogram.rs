//! Distributions that threads add to without waiting for each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::metric::{Kind, Metric};

/// A trace, by W3C's 16 bytes.
pub type TraceId = [u8; 16];

/// One value of many, and the trace in which it came about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The value.
    pub value: f64,
    /// When it was.
    pub at: SystemTime,
    /// The trace.
    pub trace: TraceId,
}

/// How many values there were up to each bound.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Between the bounds, and above the last one.
    counts: Box<[AtomicU64]>,
    /// The bits of a float.
    sum: AtomicU64,
    /// The last one of each bucket, of values that came about in a trace.
    exemplars: Mutex<Box<[Option<Exemplar>]>>,
}

/// What a [`Histogram`] has counted.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramCounts {
    /// The upper bounds of buckets but the last, which has none.
    pub bounds: &'static [f64],
    /// How many values each bucket has.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: f64,
    /// A value of each bucket, where there is one with a trace.
    pub exemplars: Vec<Option<Exemplar>>,
}

impl HistogramCounts {
    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Histogram {
    /// Without a value yet, with the bounds of a metric; one bucket if that is none of histograms.
    pub fn of(metric: &Metric) -> Self {
        let bounds = if let Kind::Histogram(bounds) = metric.kind { bounds } else { &[] };
        let buckets = bounds.len() + 1;
        Self {
            bounds,
            counts: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0.0_f64.to_bits()),
            exemplars: Mutex::new(vec![None; buckets].into()),
        }
    }

    /// One more value.
    pub fn add(&self, value: f64) {
        self.count(value);
    }

    /// One more value, which came about in a trace.
    pub fn add_of_trace(&self, exemplar: Exemplar) {
        let bucket = self.count(exemplar.value);
        self.exemplars.lock()[bucket] = Some(exemplar);
    }

    fn count(&self, value: f64) -> usize {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // It never refuses.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        bucket
    }

    /// What was counted so far; a value that is being added may be counted in part.
    pub fn read(&self) -> HistogramCounts {
        HistogramCounts {
            bounds: self.bounds,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: f64::from_bits(self.sum.load(Ordering::Relaxed)),
            exemplars: self.exemplars.lock().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::Unit;

    const METRIC: Metric =
        Metric { name: "x", kind: Kind::Histogram(&[1.0, 2.0]), unit: Unit::Ratio, labels: &[], help: "" };

    #[test]
    fn a_value_on_a_bound_is_below_it() {
        let histogram = Histogram::of(&METRIC);
        [0.5, 1.0, 1.5, 2.0, 9.0].into_iter().for_each(|value| histogram.add(value));
        let read = histogram.read();
        assert_eq!((read.counts.as_slice(), read.sum, read.count()), (&[2, 2, 1][..], 14.0, 5));
    }

    #[test]
    fn a_bucket_keeps_the_last_value_that_has_a_trace() {
        let histogram = Histogram::of(&METRIC);
        let exemplar = |value| Exemplar { value, at: SystemTime::UNIX_EPOCH, trace: [7; 16] };
        [1.25, 1.5].into_iter().for_each(|value| histogram.add_of_trace(exemplar(value)));
        histogram.add(1.75);
        assert_eq!(histogram.read().exemplars, [None, Some(exemplar(1.5)), None]);
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_bucket(values in proptest::collection::vec(-10.0..10.0_f64, 0..50)) {
            let histogram = Histogram::of(&METRIC);
            values.iter().for_each(|value| histogram.add(*value));
            let read = histogram.read();
            let within = |low: f64, high: f64| values.iter().filter(|v| **v > low && **v <= high).count() as u64;
            let expected = [within(f64::MIN, 1.0), within(1.0, 2.0), within(2.0, f64::MAX)];
            prop_assert_eq!(read.counts.as_slice(), &expected[..]);
            prop_assert_eq!(read.sum, values.iter().sum::<f64>());
        }
    }
}
