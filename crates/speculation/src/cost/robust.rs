//! What all measured costs have in common: old measurements fade, and hiccups of the machine count for little.

/// Share of its weight that a measurement loses in a mean when a new one arrives: the last sixteen or so decide. A greater
/// share follows a change sooner, and jitter too.
pub(super) const FADE: f64 = 0.06;

/// A measurement so many times the usual one, or its usual error, is cut to that: the machine hiccups now and then.
pub(super) const HICCUP: f64 = 3.0;

/// Milliseconds that everything takes at the least, whatever a coarse clock says.
pub(super) const LEAST_MS: f64 = 1e-3;
