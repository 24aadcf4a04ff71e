//! The constraints of a tokenizer's texts.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use espalier_speculation::Constraint;
use espalier_text::Tokenizer;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use parking_lot::Mutex;

use crate::compiled::Compiled;
use crate::compiling::{compile, limits};
use crate::error::ConstraintError;
use crate::vocabulary::Vocabulary;

/// Compiled constraints that are kept, those used last.
pub const COMPILED_MAX: usize = 32;

/// What constraints of a tokenizer's texts are compiled with. Clones share everything.
#[derive(Clone)]
pub struct Constraints(Arc<Inner>);

struct Inner {
    tokenizer: Tokenizer,
    /// Made when it is first needed: most tokenizers' texts are never constrained.
    parsers: OnceLock<Result<Parsers, ConstraintError>>,
    /// Those used last, the latest last.
    kept: Mutex<VecDeque<(Constraint, Arc<Compiled>)>>,
}

impl std::fmt::Debug for Constraints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Constraints").field("kept", &self.0.kept.lock().len()).finish_non_exhaustive()
    }
}

impl Constraints {
    /// Those of this tokenizer's texts.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self(Arc::new(Inner { tokenizer, parsers: OnceLock::new(), kept: Mutex::default() }))
    }

    /// A constraint, compiled now or not long ago. May take tens of milliseconds, and more the first time: not for an
    /// async thread.
    ///
    /// # Errors
    /// [`ConstraintError`] says why it cannot be used.
    pub fn compile(&self, constraint: &Constraint) -> Result<Arc<Compiled>, ConstraintError> {
        if let Some(kept) = self.kept(constraint) {
            return Ok(kept);
        }
        let parsers = self.0.parsers.get_or_init(|| Parsers::new(&self.0.tokenizer));
        let Parsers { vocabulary, factory } = parsers.as_ref().map_err(Clone::clone)?;
        let matcher = compile(factory, constraint)?;
        let compiled = Arc::new(Compiled::new(constraint.kind(), matcher, Arc::clone(vocabulary)));
        let mut kept = self.0.kept.lock();
        if kept.len() >= COMPILED_MAX {
            kept.pop_front();
        }
        kept.push_back((constraint.clone(), Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// One that is kept, which is the latest from now on.
    fn kept(&self, constraint: &Constraint) -> Option<Arc<Compiled>> {
        let mut kept = self.0.kept.lock();
        let place = kept.iter().position(|(other, _)| other == constraint)?;
        let found = kept.remove(place)?;
        let compiled = Arc::clone(&found.1);
        kept.push_back(found);
        Some(compiled)
    }
}

/// What makes parsers of texts of a tokenizer.
struct Parsers {
    vocabulary: Arc<Vocabulary>,
    factory: ParserFactory,
}

impl Parsers {
    fn new(tokenizer: &Tokenizer) -> Result<Self, ConstraintError> {
        let vocabulary = Arc::new(Vocabulary::new(tokenizer)?);
        let env: TokEnv = Arc::clone(&vocabulary) as TokEnv;
        let (capabilities, slices) = (InferenceCapabilities::default(), SlicedBiasComputer::general_slices());
        let factory = ParserFactory::new(&env, capabilities, &slices);
        let mut factory = factory.map_err(|error| ConstraintError::Tokenizer { fault: error.to_string() })?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Self { vocabulary, factory })
    }
}
