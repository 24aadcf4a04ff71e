//! A target model, loaded and measured.

use std::io;
use std::sync::Arc;

use espalier_constraint::Constraints;
use espalier_metrics::catalogue::PASS_SEQUENCES_MISSED;
use espalier_metrics::{Snapshot, Source};
use espalier_model::{BlockPool, Checkpoint, Decoder, LoadOptions, ModelError, Team, Workspace, fingerprint};
use espalier_proto::{
    Model, ModelAtWork, RowCost, TOKENIZER_FILES_BYTES_MAX, TokenizerFiles, VerifierCard, VerifierStatus, Vocabulary,
};
use espalier_service_kit::{Bytes, FreeMemoryUnknown, MemoryBudget, Role, Workplace};
use espalier_speculation::Curve;
use espalier_text::{TextError, Tokenizer};
use thiserror::Error;
use tokio::time::Instant;

use crate::config::Config;
use crate::counts::Counts;
use crate::engine::{Engine, Loaded};
use crate::status::status;

/// Why a target could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The model's files are at fault.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The tokenizer's files are at fault.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The tokenizer knows tokens that the model does not.
    #[error("the tokenizer has {tokens} tokens, the model only {vocab}")]
    Vocabulary {
        /// Tokens of the tokenizer.
        tokens: usize,
        /// Tokens of the model.
        vocab: usize,
    },
    /// The tokenizer's files are too large to be sent.
    #[error("the tokenizer's files have {bytes} bytes, beyond the limit of {TOKENIZER_FILES_BYTES_MAX}")]
    TokenizerSize {
        /// Their size.
        bytes: usize,
    },
    /// A share of the free memory, and it is not known how much that is.
    #[error(transparent)]
    FreeMemory(#[from] FreeMemoryUnknown),
    /// The engine's thread could not be started.
    #[error("the engine's thread could not be started")]
    Thread(#[source] io::Error),
}

/// A target model, loaded, measured, and at work.
#[derive(Debug)]
pub struct Target {
    pub(crate) card: VerifierCard,
    pub(crate) files: TokenizerFiles,
    pub(crate) engine: Engine,
    /// What texts can be held to.
    pub(crate) constraints: Constraints,
    /// Where they are compiled.
    pub(crate) workplace: Workplace,
    blocks: BlockPool,
    started: Instant,
}

impl Target {
    /// Loads the model, measures it, and starts its thread, to compute with `team`. This takes seconds
    /// and blocks; `progress` hears `(layers packed, layers in all)`.
    ///
    /// # Errors
    /// [`LoadError`] says which file is wrong, and how.
    pub fn load(config: &Config, team: &Team, progress: impl FnMut(usize, usize)) -> Result<Self, LoadError> {
        let checkpoint = Checkpoint::open(&config.model)?;
        let tokenizer = Tokenizer::open(&config.model)?;
        let files = tokenizer_files(&tokenizer)?;
        let (tokens, vocab) = (tokenizer.vocab_size(), checkpoint.config.vocab);
        if tokens > vocab {
            return Err(LoadError::Vocabulary { tokens, vocab });
        }
        let arithmetic = config.compute.of(&checkpoint.weights()?, config.device);
        let Config { device, parallel, .. } = *config;
        let options = LoadOptions { arithmetic, device, parallel, ..LoadOptions::default() };
        let decoder = Decoder::load_with_progress(&checkpoint, &options, progress)?;
        let mut work = Workspace::of_team(team);
        let workplace = config.workplace;
        let measured = workplace.costs().map_or_else(|| decoder.measure_passes(&mut work), Ok)?;
        let card = VerifierCard {
            name: config.name.clone(),
            vocabulary: Vocabulary { size: vocab, fingerprint: tokenizer.fingerprint().to_owned() },
            context: decoder.config().context,
            tree_nodes_max: config.tree_nodes_max,
            sequences_max: config.sequences_max,
            end_tokens: decoder.config().eos.clone(),
            costs: measured.iter().map(|&(rows, time)| RowCost { rows, time }).collect(),
            model: Model {
                fingerprint: fingerprint(&config.model)?,
                layers: decoder.layers(),
                hidden_size: decoder.config().hidden,
                arithmetic: decoder.computes_in(),
                revision: arithmetic.revision(),
            },
        };
        let wanted = Bytes(decoder.context_bytes().saturating_mul(config.sequences_max));
        let free = decoder.free_on_devices()?.map(Bytes).or_else(Bytes::available);
        let blocks = decoder.block_pool(MemoryBudget::of(config.kv_memory, wanted, free)?.0)?;
        let tree_nodes_max = config.tree_nodes_max;
        let (decoder, counts) = (Arc::new(decoder), Counts::default());
        let points = measured.into_iter().map(|(rows, time)| (rows, time.as_secs_f64() * 1e3));
        let costs = Curve::through(points).unwrap_or(Curve::line(0.0, 1.0));
        let model = Loaded { decoder, work, costs, blocks: blocks.clone(), tree_nodes_max, counts, workplace };
        let engine = Engine::start(model, config.sequences_max).map_err(LoadError::Thread)?;
        let constraints = Constraints::new(tokenizer);
        Ok(Self { card, files, engine, constraints, workplace, blocks, started: Instant::now() })
    }

    /// What the target says of itself.
    pub fn card(&self) -> &VerifierCard {
        &self.card
    }

    /// What it is doing at present, and what it has done.
    pub(crate) fn status(&self) -> VerifierStatus {
        status(self.started, &self.card.model.arithmetic, &self.engine, &self.blocks)
    }

    /// The memory for keys and values.
    pub fn blocks(&self) -> &BlockPool {
        &self.blocks
    }
}

/// All that is measured of a target.
impl Source for Target {
    fn tell(&self, to: &mut Snapshot) {
        let VerifierStatus { sequences, trees_waiting, passes: counts, rounds, kv, .. } = self.status();
        let (role, model, passes) = (Role::Verifier.name(), &self.card.name, &self.engine.counts().passes);
        let turn_age = self.engine.turn_age();
        let at_work = ModelAtWork { role, model, sequences, trees_waiting, passes, rounds, kv, turn_age };
        at_work.tell(to);
        at_work.tell_costs(self.card.costs.iter().map(|cost| (cost.rows, cost.time)), to);
        to.tell(&PASS_SEQUENCES_MISSED, &[model], counts.missed);
    }
}

fn tokenizer_files(tokenizer: &Tokenizer) -> Result<TokenizerFiles, LoadError> {
    let parts = tokenizer.parts().clone();
    let files = TokenizerFiles { tokenizer: parts.tokenizer, config: parts.config, chat_template: parts.chat_template };
    match files.bytes() {
        bytes if bytes > TOKENIZER_FILES_BYTES_MAX => Err(LoadError::TokenizerSize { bytes }),
        _ => Ok(files),
    }
}
