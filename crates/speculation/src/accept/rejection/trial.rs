//! The arithmetic at one node.

use crate::{Distribution, Token};

/// The siblings at one node being tried: `p` and `q` as the rejections so far have changed them.
pub(super) struct Trial {
    p: Distribution,
    /// `None` where nothing was drafted, or nothing is left that could have been.
    q: Option<Distribution>,
}

impl Trial {
    pub(super) fn new(p: Distribution, q: Option<Distribution>) -> Self {
        Self { p, q }
    }

    /// What the bonus is drawn from if no further sibling is tried.
    pub(super) fn p(&self) -> &Distribution {
        &self.p
    }

    /// `min(1, p/q)` of `token`, which was drawn from `q`.
    pub(super) fn ratio(&self, token: Token) -> f64 {
        let q = self.q.as_ref().map_or(0.0, |q| q.prob(token));
        if q > 0.0 { (self.p.prob(token) / q).min(1.0) } else { 0.0 }
    }

    /// Rejects `token`: `p` becomes the residual and `q` loses the token.
    ///
    /// False, with nothing changed, where no residual is left: `p` nowhere exceeds `q`, so they are equal but for
    /// rounding, and what is drawn from `p` itself is never rejected.
    pub(super) fn reject(&mut self, token: Token) -> bool {
        let residual = self.q.as_ref().and_then(|q| self.p.exceeding(q));
        let Some(p) = residual else {
            return false;
        };
        self.p = p;
        self.q = self.q.as_ref().and_then(|q| q.without(token));
        true
    }
}
