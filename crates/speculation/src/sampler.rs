//! Sampling parameters at work on one sequence: they and what they must know of its text.

use crate::numeric::LogitsError;
use crate::shaping::History;
use crate::{Candidates, Distribution, GumbelMax, Restriction, Sampling, Side, Token, Uniforms};

/// How the tokens of one sequence are chosen, its text so far included.
///
/// A node of a tree is named by its `path`: the tokens from below the root down to it, itself included, none for the
/// root. What is said about a node is what would be said of the plain text that ends with its path, to the bit.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    history: History,
    /// What may follow, where not everything may.
    restriction: Option<Box<dyn Restriction>>,
    /// Tokens of the text, which is the position of the next one.
    length: u64,
    /// Logits as they were shaped last; unused where nothing is shaped.
    row: Vec<f32>,
}

impl Sampler {
    /// A text that begins with `prompt` and went on with `generated`.
    pub fn new(sampling: Sampling, prompt: &[Token], generated: &[Token]) -> Self {
        let history = sampling.shaping().map(|shaping| History::new(shaping, prompt)).unwrap_or_default();
        let length = prompt.len() as u64;
        let mut sampler = Self { sampling, history, restriction: None, length, row: Vec::new() };
        sampler.push(generated);
        sampler
    }

    /// The same under a restriction that knows of the same generated tokens. What it forbids has probability 0 before
    /// anything else is done with logits.
    pub fn restricted(self, restriction: Option<Box<dyn Restriction>>) -> Self {
        Self { restriction, ..self }
    }

    /// The parameters.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Adds generated tokens to the text.
    pub fn push(&mut self, generated: &[Token]) {
        self.history.push(generated);
        self.length += generated.len() as u64;
        if let Some(restriction) = &mut self.restriction {
            restriction.push(generated);
        }
    }

    /// Tokens that must follow after `path`, at most `most` of them; none where there is a choice.
    pub fn forced(&mut self, path: &[Token], most: usize) -> Vec<Token> {
        self.restriction.as_mut().map_or_else(Vec::new, |restriction| restriction.forced(path, most))
    }

    /// Whether anything is forbidden.
    pub fn is_restricted(&self) -> bool {
        self.restriction.is_some()
    }

    /// The token that the target says after `path`, given its `logits` there.
    ///
    /// Greedy takes the arg-max of the shaped logits (ties: smaller token). Otherwise the arg-max of
    /// `log p + gumbel(seed, position, token)`, `p` being the shaped logits' softmax at the temperature, cut by
    /// `top_k`, `top_p` and `min_p` in this order: a draw from `p` that depends on nothing else.
    ///
    /// # Errors
    /// Logits of which nothing can be chosen: none, a NaN or plus infinity among them, or all minus infinity. A
    /// restriction that cannot be followed.
    pub fn decide(&mut self, logits: &[f32], path: &[Token]) -> Result<Token, LogitsError> {
        let position = self.position(path);
        let (sampling, logits) = self.shaped(logits, path)?;
        sampling.decide(logits, position)
    }

    /// Whether decisions, and guesses at them, need nothing of logits but the best: see [`crate::Best`].
    pub fn needs_best_alone(&self) -> bool {
        self.sampling.is_greedy() && self.sampling.shaping().is_none() && self.restriction.is_none()
    }

    /// The rule of decisions where they depend on logits, seed and position alone, and contenders tell them.
    pub fn gumbel_max(&self) -> Option<GumbelMax> {
        let is_plain = self.sampling.shaping().is_none() && self.restriction.is_none();
        if is_plain { self.sampling.gumbel_max() } else { None }
    }

    /// The drafter's `k` best guesses at what the target will [`decide`](Self::decide) after `path`, given the draft's
    /// `logits` there, which are shaped as the target's are.
    ///
    /// Greedy: the most probable tokens at temperature 1. Otherwise tokens ranked by
    /// `log q + gumbel(seed, position, token)`, each with the probability that it wins given this noise. Confidence and
    /// entropy are those of `q`.
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub fn rank(&mut self, logits: &[f32], path: &[Token], k: usize) -> Result<Candidates, LogitsError> {
        let position = self.position(path);
        let (sampling, logits) = self.shaped(logits, path)?;
        sampling.rank(logits, position, k)
    }

    /// The distribution that the target draws from after `path`, given its `logits` there: shaped, at the temperature,
    /// and cut as in [`decide`](Self::decide). What rejection acceptance weighs.
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub fn distribution(&mut self, logits: &[f32], path: &[Token]) -> Result<Distribution, LogitsError> {
        let (sampling, logits) = self.shaped(logits, path)?;
        sampling.distribution(logits)
    }

    /// The `k` most probable tokens of the same distribution of the draft, given its `logits`: what it draws from.
    /// Confidence and entropy are those of the whole distribution.
    ///
    /// # Errors
    /// As for [`Self::decide`].
    pub fn most_probable(&mut self, logits: &[f32], path: &[Token], k: usize) -> Result<Candidates, LogitsError> {
        let (sampling, logits) = self.shaped(logits, path)?;
        sampling.most_probable(logits, k)
    }

    /// The uniform draws of `side` in the round whose root is the last token of the text.
    pub fn uniforms(&self, side: Side) -> Uniforms {
        Uniforms::new(self.sampling.seed(), self.length.saturating_sub(1), side)
    }

    /// The position of the token after `path`.
    fn position(&self, path: &[Token]) -> u64 {
        self.length + path.len() as u64
    }

    /// The parameters, and `logits` as they are after `path`: themselves where nothing is shaped or forbidden.
    fn shaped<'a>(&'a mut self, logits: &'a [f32], path: &[Token]) -> Result<(&'a Sampling, &'a [f32]), LogitsError> {
        let Self { sampling, history, restriction, row, .. } = self;
        match sampling.shaping() {
            None if restriction.is_none() => return Ok((sampling, logits)),
            None => {
                row.clear();
                row.extend_from_slice(logits);
            }
            Some(shaping) => history.shape(shaping, logits, path, row),
        }
        // What is impossible stays so whatever shapes it, so it makes no difference that this comes second.
        if let Some(restriction) = restriction {
            restriction.restrict(path, row)?;
        }
        Ok((sampling, row))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::{Acceptance, Gumbel, Penalties, Shaping, Tree, Walk, accept};

    const VOCAB: Token = 12;

    /// Some logits for what follows `text`: a fixed function of its last two tokens.
    fn logits(text: &[Token]) -> Vec<f32> {
        let state = text.iter().rev().take(2).fold(1, |state: u64, &token| state * 31 + u64::from(token));
        let noise = Gumbel::new(99, state);
        (0..VOCAB).map(|token| noise.at(token) as f32).collect()
    }

    /// Parameters of every sort, neutral ones among them.
    fn any_sampling() -> impl Strategy<Value = Sampling> {
        let temperature = prop_oneof![Just(0.0), 0.2..2.0_f64];
        let cuts = (0..8_usize, 0.3..=1.0_f64, prop_oneof![Just(0.0), 0.0..0.5_f64], any::<u64>());
        let penalties = (prop_oneof![Just(1.0), 0.5..2.0_f64], -2.0..2.0_f64, -2.0..2.0_f64);
        let bias = prop::collection::btree_map(0..VOCAB, -3.0..3.0_f64, 0..4);
        (temperature, cuts, penalties, bias).prop_map(|(temperature, (top_k, top_p, min_p, seed), penalties, bias)| {
            let (repetition, presence, frequency) = penalties;
            let shaping = Shaping::new(Penalties { repetition, presence, frequency }, bias).unwrap();
            let sampling = Sampling::new(temperature, top_k, top_p, seed).unwrap();
            sampling.with_min_p(min_p).unwrap().with_shaping(shaping)
        })
    }

    fn any_text(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Token>> {
        prop::collection::vec(0..VOCAB, length)
    }

    /// What the target says after `text` of which the first `prompt` tokens were given, one token at a time.
    fn plain(sampling: &Sampling, text: &[Token], prompt: usize, count: usize) -> Vec<Token> {
        let mut text = text.to_vec();
        for _ in 0..count {
            let (given, generated) = text.split_at(prompt);
            let token = Sampler::new(sampling.clone(), given, generated).decide(&logits(&text), &[]).unwrap();
            text.push(token);
        }
        text
    }

    #[test]
    fn without_shaping_no_row_is_filled() {
        let mut sampler = Sampler::new(Sampling::greedy(), &[1], &[2]);
        assert_eq!(sampler.decide(&[0.0, 1.0], &[1, 1]), Ok(1));
        assert!(sampler.row.is_empty());
    }

    #[test]
    fn the_best_alone_are_enough_where_greedy_and_nothing_is_shaped() {
        let needs = |sampling: Sampling| Sampler::new(sampling, &[1], &[]).needs_best_alone();
        let shaping = Shaping::new(Penalties { presence: 2.0, ..Penalties::NONE }, []).unwrap();
        assert!(needs(Sampling::greedy()));
        assert!(!needs(Sampling::greedy().with_shaping(shaping)));
        assert!(!needs(Sampling::new(0.5, 0, 1.0, 7).unwrap()));
    }

    #[test]
    fn contenders_are_enough_where_all_tokens_may_be_drawn_and_nothing_is_shaped() {
        let rule = |sampling: Sampling| Sampler::new(sampling, &[1, 2], &[3]).gumbel_max();
        let sampling = |top_k, top_p| Sampling::new(0.5, top_k, top_p, 7).unwrap();
        let shaping = Shaping::new(Penalties { presence: 2.0, ..Penalties::NONE }, []).unwrap();
        assert_eq!(rule(Sampling::greedy()), None);
        assert_eq!(rule(sampling(3, 1.0)), None);
        assert_eq!(rule(sampling(0, 0.9)), None);
        assert_eq!(rule(sampling(0, 1.0).with_min_p(0.1).unwrap()), None);
        assert_eq!(rule(sampling(0, 1.0).with_shaping(shaping)), None);
        assert_eq!(rule(sampling(0, 1.0).with_acceptance(Acceptance::Rejection)), None);
        let (logits, mut sampler) = (logits(&[4]), Sampler::new(sampling(0, 1.0), &[1, 2], &[3]));
        assert_eq!(rule(sampling(0, 1.0)).unwrap().decide(&logits, 5), sampler.decide(&logits, &[8, 9]));
    }

    #[test]
    fn the_draws_of_a_round_are_those_of_its_root() {
        let mut sampler = Sampler::new(Sampling::new(1.0, 0, 1.0, 7).unwrap(), &[1, 2], &[3]);
        let draws = |sampler: &Sampler| sampler.uniforms(Side::Draft).next();
        assert_eq!(draws(&sampler), Uniforms::new(7, 2, Side::Draft).next());
        sampler.push(&[4]);
        assert_eq!(draws(&sampler), Uniforms::new(7, 3, Side::Draft).next());
    }

    #[test]
    fn a_path_is_history_for_its_node_and_for_no_other() {
        let shaping = Shaping::new(Penalties { presence: 2.0, ..Penalties::NONE }, []).unwrap();
        let mut sampler = Sampler::new(Sampling::greedy().with_shaping(shaping), &[0], &[]);
        let logits = [1.0, 0.5, 0.0];
        assert_eq!(sampler.decide(&logits, &[]), Ok(0), "the prompt does not count");
        assert_eq!(sampler.decide(&logits, &[0]), Ok(1));
        assert_eq!(sampler.decide(&logits, &[0, 1]), Ok(2));
        assert_eq!(sampler.decide(&logits, &[1]), Ok(0));
        sampler.push(&[0]);
        assert_eq!(sampler.decide(&logits, &[]), Ok(1));
    }

    proptest! {
        #[test]
        fn a_node_decides_as_the_plain_text_that_ends_with_its_path(
            sampling in any_sampling(), text in any_text(1..20), prompt in 0..20_usize, path in any_text(0..6)
        ) {
            let (prompt, generated) = text.split_at(prompt.min(text.len()));
            let whole = [text.as_slice(), &path].concat();
            let mut sampler = Sampler::new(sampling.clone(), prompt, generated);
            let said = |sampler: &mut Sampler, path: &[Token]| {
                let row = logits(&whole);
                let drawn = (sampler.distribution(&row, path), sampler.most_probable(&row, path, 4));
                (sampler.decide(&row, path), sampler.rank(&row, path, 4), drawn)
            };
            let node = said(&mut sampler, &path);
            let mut plain = Sampler::new(sampling, prompt, generated);
            path.iter().for_each(|&token| plain.push(&[token]));
            prop_assert_eq!(node, said(&mut plain, &[]));
        }

        #[test]
        fn what_a_drafter_like_the_target_draws_from_is_the_target_s_distribution(
            sampling in any_sampling(), prompt in any_text(1..10), path in any_text(0..4)
        ) {
            let row = logits(&path);
            let mut sampler = Sampler::new(sampling, &prompt, &[]);
            let best = sampler.most_probable(&row, &path, VOCAB as usize).unwrap();
            let (q, p) = (Distribution::of_candidates(&best).unwrap(), sampler.distribution(&row, &path).unwrap());
            prop_assert!((0..VOCAB).all(|token| (q.prob(token) - p.prob(token)).abs() < 1e-6), "{:?}, not {:?}", q, p);
        }

        #[test]
        fn a_tree_is_walked_as_the_plain_text_goes_on(
            sampling in any_sampling(), text in any_text(1..20), prompt in 1..20_usize,
            nodes in prop::collection::vec((0..16_usize, 0..VOCAB), 0..12), depth in 0..8_usize
        ) {
            let prompt = prompt.min(text.len());
            let said = plain(&sampling, &text, prompt, 9).split_off(text.len());
            // The beginning of the plain text, so that walks go deep, and branches anywhere.
            let mut tree = Tree::new();
            for &token in &said[..depth] {
                tree.push(tree.len(), token, 0.5).unwrap();
            }
            for (parent, token) in nodes {
                let _ = tree.push(parent % (tree.len() + 1), token, 0.5);
            }
            let node_logits = |node: usize| {
                let path = tree.path(node).into_iter().map(|id| tree.node(id).unwrap().token);
                logits(&text.iter().copied().chain(path).collect::<Vec<_>>())
            };
            let rows: Vec<Vec<f32>> = (0..=tree.len()).map(node_logits).collect();
            let mut sampler = Sampler::new(sampling.clone(), &text[..prompt], &text[prompt..]);
            let Walk { path, bonus } = accept(&tree, &mut sampler, |node| &rows[node]).unwrap();
            let path = path.iter().map(|&id| tree.node(id).unwrap().token);
            let walked: Vec<Token> = path.chain([bonus]).collect();
            prop_assert!(walked.len() > depth);
            prop_assert_eq!(&walked, &plain(&sampling, &text, prompt, walked.len())[text.len()..]);
        }

        #[test]
        fn a_drafter_like_the_target_ranks_its_decision_first(
            sampling in any_sampling(), prompt in any_text(1..10), generated in any_text(0..10), path in any_text(0..4)
        ) {
            let row = logits(&path);
            let mut sampler = Sampler::new(sampling, &prompt, &generated);
            let candidates = sampler.rank(&row, &path, 3).unwrap();
            prop_assert_eq!(candidates.tokens()[0].0, sampler.decide(&row, &path).unwrap());
        }
    }
}
