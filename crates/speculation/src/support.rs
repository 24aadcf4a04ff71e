//! Which tokens a request may draw from: all, the `top_k`, or the nucleus of `top_p`.

use crate::numeric::{Scale, Softmax};
use crate::select::{self, Ranked};
use crate::Token;

/// Tokens first looked at for a nucleus; as long as they do not fill it, this many times more.
const NUCLEUS_START: usize = 64;
const NUCLEUS_GROWTH: usize = 8;

/// The tokens that may be drawn.
pub(crate) enum Support {
    /// All of them, with these scores.
    Everything(Scale),
    /// Some, with their scores, by rising token; the greatest score is 0.
    Some(Vec<(Token, f64)>),
}

impl Support {
    /// The `top_k` greatest `logits` (0: all), of those the fewest best whose share reaches
    /// `top_p`: a token stays while those before it have less than `top_p`.
    pub(crate) fn new(logits: &[f32], scale: Scale, top_k: usize, top_p: f64) -> Self {
        let limited = top_k > 0 && top_k < logits.len();
        let ranked = match (limited, top_p < 1.0) {
            (false, false) => return Self::Everything(scale),
            (true, false) => select::top(logits, top_k),
            (true, true) => {
                let best = select::top(logits, top_k);
                let softmax = Softmax::exact(best.iter().map(|&(_, logit)| scale.score(logit)));
                cut(best, scale, top_p * softmax.sum).0
            }
            (false, true) => nucleus(logits, scale, top_p),
        };
        let mut scores: Vec<_> = ranked
            .into_iter()
            .map(|(token, logit)| (token, scale.score(logit)))
            .collect();
        scores.sort_unstable_by_key(|&(token, _)| token);
        Self::Some(scores)
    }
}

/// The nucleus of all tokens, looking at no more of the best than it takes to fill it.
fn nucleus(logits: &[f32], scale: Scale, top_p: f64) -> Vec<Ranked> {
    let target = top_p * Softmax::over(logits, scale).sum;
    let mut looked_at = NUCLEUS_START;
    loop {
        let (best, full) = cut(select::top(logits, looked_at), scale, target);
        if full || looked_at >= logits.len() {
            return best;
        }
        looked_at *= NUCLEUS_GROWTH;
    }
}

/// The shortest start of `best` whose weight reaches `target`, and whether it does.
fn cut(mut best: Vec<Ranked>, scale: Scale, target: f64) -> (Vec<Ranked>, bool) {
    let mut mass = 0.0;
    let full = best.iter().position(|&(_, logit)| {
        mass += libm::exp(scale.score(logit));
        mass >= target
    });
    if let Some(last) = full {
        best.truncate(last + 1);
    }
    (best, full.is_some())
}
