//! What should be said at every position as tensors, and the loss towards it by tensor operations: nothing of it leaves the
//! device before it is one number.

use candle_core::{D, DType, Device, Tensor};
use candle_nn::ops::log_softmax;
use espalier_speculation::Token;

use crate::error::Result;

/// A token at each position, with a share, and for the rest of it what models say.
#[derive(Debug)]
pub(crate) struct TensorGoal {
    /// (positions, 1): the token that is best to say, or any where the position does not count.
    best: Tensor,
    /// (positions, 1): 1 where the position counts, 0 where not.
    counts: Tensor,
    /// Positions that count.
    pub(super) counted: usize,
    /// The share of `best` in what should be said, 0 to 1.
    share: f64,
    said: Option<Said>,
}

/// What models say, with the weights that they have in a mix.
#[derive(Debug)]
struct Said {
    /// (positions, vocab)
    probs: Tensor,
    /// (positions, 1): `sum p ln p`, what a cross-entropy lacks to a divergence.
    negative_entropy: Tensor,
}

impl TensorGoal {
    /// The tokens with a share; positions without one do not count.
    pub(super) fn of_tokens(tokens: &[Option<Token>], share: f64, device: &Device) -> Result<Self> {
        let best: Vec<Token> = tokens.iter().map(|token| token.unwrap_or(0)).collect();
        let best = Tensor::from_vec(best, (tokens.len(), 1), device)?;
        let counted: Vec<bool> = tokens.iter().map(Option::is_some).collect();
        Self::new(best, &counted, share)
    }

    /// The softmax of `logits` (positions, vocab) at temperature 1, at the positions that count.
    pub(super) fn of_logits(logits: &Tensor, counted: &[bool]) -> Result<Self> {
        let said = Said::of_logits(logits)?;
        Ok(Self { said: Some(said), ..Self::new(logits.argmax_keepdim(D::Minus1)?, counted, 0.0)? })
    }

    fn new(best: Tensor, counted: &[bool], share: f64) -> Result<Self> {
        let counts: Vec<f32> = counted.iter().map(|counted| f32::from(u8::from(*counted))).collect();
        let counts = Tensor::from_vec(counts, (counted.len(), 1), best.device())?;
        let counted = counted.iter().filter(|counted| **counted).count();
        Ok(Self { best, counts, counted, share, said: None })
    }

    /// Adds what models say, with a weight; with the tokens' share those of all parts must come to 1.
    pub(super) fn add(&mut self, other: Self, weight: f64) -> Result<()> {
        self.said = match (self.said.take(), other.said) {
            (Some(sum), Some(said)) => Some(sum.plus(&said.times(weight)?)?),
            (None, Some(said)) => Some(said.times(weight)?),
            (sum, None) => sum,
        };
        Ok(())
    }

    /// The sum of the losses of `logits` (positions, vocab) over the positions that count: a scalar.
    pub(super) fn loss_sum(&self, logits: &Tensor) -> Result<Tensor> {
        let log_q = log_softmax(logits, D::Minus1)?; // (positions, vocab)
        let of_tokens = (log_q.gather(&self.best, D::Minus1)? * -self.share)?; // (positions, 1)
        let each = match &self.said {
            Some(Said { probs, negative_entropy }) => {
                let expected = (probs.to_dtype(logits.dtype())? * log_q)?.sum_keepdim(D::Minus1)?;
                ((of_tokens - expected)? + negative_entropy.to_dtype(logits.dtype())?)?
            }
            None => of_tokens,
        };
        Ok((each * self.counts.to_dtype(logits.dtype())?)?.sum_all()?)
    }

    /// How many of the counted positions have their largest logit at the best token.
    pub(super) fn hits(&self, logits: &Tensor) -> Result<usize> {
        let hits = logits.argmax_keepdim(D::Minus1)?.eq(&self.best)?.to_dtype(DType::F32)?;
        Ok((hits * &self.counts)?.sum_all()?.to_scalar::<f32>()? as usize)
    }
}

impl Said {
    fn of_logits(logits: &Tensor) -> Result<Self> {
        let log_probs = log_softmax(logits, D::Minus1)?;
        let probs = log_probs.exp()?;
        let negative_entropy = (&probs * log_probs)?.sum_keepdim(D::Minus1)?;
        Ok(Self { probs, negative_entropy })
    }

    fn times(&self, weight: f64) -> Result<Self> {
        Ok(Self { probs: (&self.probs * weight)?, negative_entropy: (&self.negative_entropy * weight)? })
    }

    fn plus(&self, other: &Self) -> Result<Self> {
        let negative_entropy = (&self.negative_entropy + &other.negative_entropy)?;
        Ok(Self { probs: (&self.probs + &other.probs)?, negative_entropy })
    }
}
