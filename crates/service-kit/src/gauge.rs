//! How many of something there are at present.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is there; clones are the same count.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicUsize>);

/// Something that a [`Gauge`] counts for as long as it lives.
#[derive(Debug)]
pub struct Present(Gauge);

impl Gauge {
    /// One more, until the answer is dropped.
    pub fn enter(&self) -> Present {
        self.0.fetch_add(1, Ordering::Relaxed);
        Present(self.clone())
    }

    /// How many there are.
    pub fn read(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_gone_is_not_counted_any_more() {
        let gauge = Gauge::default();
        let (first, second) = (gauge.enter(), gauge.clone().enter());
        assert_eq!(gauge.read(), 2);
        drop(first);
        assert_eq!(gauge.read(), 1);
        drop(second);
        assert_eq!(gauge.read(), 0);
    }
}
