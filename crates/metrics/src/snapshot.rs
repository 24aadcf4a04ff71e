//! What services told at one moment.

use std::collections::BTreeMap;

use crate::histogram::{Histogram, HistogramCounts};
use crate::metric::Metric;

/// All metrics at one moment, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot(BTreeMap<&'static str, Family>);

/// One metric, with a sample for each set of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The metric.
    pub metric: &'static Metric,
    /// Its series.
    pub samples: Vec<Sample>,
}

/// One series of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The values of the metric's labels, in their order; one that is empty counts as absent.
    pub labels: Vec<String>,
    /// Its value.
    pub value: Value,
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// Any other.
    Number(f64),
    /// A distribution.
    Histogram(HistogramCounts),
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Count(u64::from(is))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&Histogram> for Value {
    fn from(histogram: &Histogram) -> Self {
        Self::Histogram(histogram.read())
    }
}

impl Snapshot {
    /// One series of `metric`, with a value for each of its labels.
    pub fn tell(&mut self, metric: &'static Metric, labels: &[&str], value: impl Into<Value>) {
        debug_assert_eq!(labels.len(), metric.labels.len(), "the labels of {}", metric.name);
        let sample = Sample { labels: labels.iter().map(|&label| label.to_owned()).collect(), value: value.into() };
        self.0.entry(metric.name).or_insert_with(|| Family { metric, samples: Vec::new() }).samples.push(sample);
    }

    /// All metrics that were told, by name.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.0.values()
    }
}

impl Family {
    /// The labels of a sample of this family that have a value.
    pub(crate) fn labels<'a>(&self, sample: &'a Sample) -> impl Iterator<Item = (&'static str, &'a str)> {
        let present =
            |(name, value): (&&'static str, &'a String)| Some((*name, value.as_str())).filter(|_| !value.is_empty());
        self.metric.labels.iter().zip(&sample.labels).filter_map(present)
    }
}
