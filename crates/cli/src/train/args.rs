//! The options of `espalier train`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use espalier_local::SystemArgs;
use espalier_trainer::{DataOptions, OptimiserOptions, Options, Precision, Sight, TextRecipe};

use super::folders::absolute;

/// What is trained.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Train {
    /// Have a target answer prompts, for its drafters to learn from what it says.
    Text(Text),
    /// A language model on the next token, from a checkpoint or from nothing.
    Base(Base),
    /// A drafter with several exits for several targets (S2D): the first layers of a target.
    Sorted(Sorted),
    /// A drafter of one layer that reads its target's hidden states (EDD).
    Edd(Edd),
    /// A drafter of one layer on top of its target's first ones (EESD).
    EarlyExit(EarlyExit),
    /// A predictor of a drafter's acceptance, for the policy `cali-ts` (EESD).
    CaliTs(CaliTs),
    /// Go on with a training that was interrupted, to the same result.
    Resume(Resume),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Text {
    /// The target that answers.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// Prompts, one JSON object a line with `prompt`, `question` or `turns` (the first turn is used).
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) prompts: PathBuf,
    /// Only the first so many prompts.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    /// The file for prompts and answers, which may not exist; for `--data` of the other trainings.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) out: PathBuf,
    /// The prompts are texts to continue: no chat template.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub(crate) max_tokens: usize,
    /// The share of answers of the most probable tokens; the others are drawn.
    #[arg(long, default_value_t = 0.5, value_name = "X")]
    pub(crate) share_greedy: f64,
    /// The temperature of drawn answers.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "X")]
    pub(crate) temperature: f64,
    /// The seed of which answers are drawn, and how.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Answers that each thread writes at a time: more are faster together and take more memory.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub(crate) at_a_time: usize,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Text {
    /// How the target in a folder is to write.
    pub(crate) fn recipe(&self, target: PathBuf, system: &SystemArgs) -> TextRecipe {
        let &Self { raw, max_tokens, share_greedy, temperature, seed, at_a_time, .. } = self;
        let (greedy_share, answers_at_a_time) = (share_greedy, at_a_time);
        let (threads, device) = (system.threads(), system.device);
        TextRecipe { target, raw, max_tokens, greedy_share, temperature, seed, answers_at_a_time, threads, device }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Base {
    /// The checkpoint to begin with; with `--scratch` only its tokenizer is taken.
    #[arg(long, value_name = "T")]
    pub(crate) init: String,
    /// Begin with random weights and these sizes, any of `layers`, `hidden`, `heads`, `kv-heads`, `ffn`, `context`.
    #[arg(long, value_delimiter = ',', value_name = "SIZE=N,…")]
    pub(crate) scratch: Option<Vec<Size>>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// One size of a model from nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) name: String,
    pub(crate) value: usize,
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not of the form SIZE=N"))?;
        let value = value.parse().map_err(|_| format!("`{value}` is not a whole number"))?;
        Ok(Self { name: name.to_owned(), value })
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sorted {
    /// The target whose first layers the drafter begins with.
    #[arg(long, value_name = "T")]
    pub(crate) init: String,
    /// Layers after which the drafter may answer, rising; the last is its depth.
    #[arg(long, value_delimiter = ',', required = true, value_name = "N[,N…]")]
    pub(crate) exits: Vec<usize>,
    /// Targets whose distributions the drafter learns beside the text, each counting alike.
    #[arg(long, value_delimiter = ',', value_name = "T[,T…]")]
    pub(crate) teachers: Vec<String>,
    /// The share of the teachers in the loss; the rest is the text's.
    #[arg(long, default_value_t = 0.5, requires = "teachers", value_name = "X")]
    pub(crate) teacher_weight: f64,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Edd {
    /// The target that teaches the drafter and that it will serve.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// The layer, from 1, whose hidden states are read; the fourth-to-last when absent.
    #[arg(long, value_name = "N")]
    pub(crate) tapped_layer: Option<usize>,
    /// The shortest block that is drafted without new hidden states.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) block_min: usize,
    /// The longest such block; all blocks are alike if it is the shortest too.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) block_max: usize,
    /// Leave embedding, norm and head as the target has them.
    #[arg(long)]
    pub(crate) freeze_head: bool,
    /// See no tokens before a block, only hidden states there, as in the paper.
    #[arg(long)]
    pub(crate) no_earlier_tokens: bool,
    /// Read no hidden states, to see what they are worth: the result is a plain model of one layer.
    #[arg(long, conflicts_with = "no_earlier_tokens")]
    pub(crate) no_hidden_states: bool,
    /// Learn the text's next token instead of the target's distribution, to see what that is worth.
    #[arg(long)]
    pub(crate) no_divergence: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Edd {
    /// What a position sees.
    pub(crate) fn sight(&self) -> Sight {
        match (self.no_hidden_states, self.no_earlier_tokens) {
            (true, _) => Sight::Tokens,
            (false, true) => Sight::States,
            (false, false) => Sight::TokensAndStates,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct EarlyExit {
    /// The target whose first layers the drafter shares.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// How many of them.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) shared_layers: usize,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CaliTs {
    /// The target that accepts or does not.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// The drafter, of any kind: its folder, or its name among the models.
    #[arg(long, value_name = "D")]
    pub(crate) drafter: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The output folder of the interrupted training.
    pub(crate) out: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What all trainings have in common.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// The folder for the result; it may hold neither a model nor an unfinished training.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Text, one JSON object a line with `question` and `answer`, or `text`, or `token_ids` as of `train text`.
    #[arg(long, num_args = 1.., required = true, value_name = "FILE.jsonl")]
    pub(crate) data: Vec<PathBuf>,
    /// Text to validate with; a share of the data when absent.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) validation: Option<PathBuf>,
    /// The share of the data set apart for validation.
    #[arg(long, default_value_t = 0.02, conflicts_with = "validation", value_name = "X")]
    pub(crate) validation_share: f64,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) optimiser: Optimiser,
    /// The seed of everything random.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Steps between evaluations on the validation texts.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(crate) evaluate_every: usize,
    /// Stop after so many evaluations without a better loss.
    #[arg(long, value_name = "N")]
    pub(crate) patience: Option<usize>,
    /// Steps between checkpoints.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(crate) checkpoint_every: usize,
    /// The element type of the saved weights.
    #[arg(long, value_enum, default_value_t = Stored::Bf16)]
    pub(crate) precision: Stored,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How text becomes steps.
#[derive(Debug, clap::Args)]
pub(crate) struct Pace {
    /// Tokens of a row; texts are packed into rows and do not see each other.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) length: usize,
    /// Rows of a batch.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) batch: usize,
    /// Batches whose gradients make one step.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) accumulate: usize,
    /// Times that every text is met.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) epochs: usize,
    /// Most steps, however many epochs that is.
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<usize>,
}

/// AdamW with a warm-up and a cosine.
#[derive(Debug, clap::Args)]
pub(crate) struct Optimiser {
    /// The highest learning rate: by method when absent.
    #[arg(long, value_name = "X")]
    pub(crate) learning_rate: Option<f64>,
    /// The last learning rate, as a share of the highest.
    #[arg(long, default_value_t = 0.1, value_name = "X")]
    pub(crate) final_share: f64,
    /// The share of the steps over which the learning rate rises.
    #[arg(long, default_value_t = 0.03, value_name = "X")]
    pub(crate) warmup_share: f64,
    /// The decay of matrices.
    #[arg(long, default_value_t = 0.01, value_name = "X")]
    pub(crate) weight_decay: f64,
    /// The longest gradient.
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    pub(crate) clip_norm: f64,
}

/// The element type of saved weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stored {
    /// 32 bits.
    F32,
    /// 16 bits.
    Bf16,
}

impl Common {
    /// The text, its files by paths that hold wherever the run is resumed.
    pub(crate) fn data(&self) -> DataOptions {
        let Pace { length, batch, accumulate, epochs, steps } = self.pace;
        DataOptions {
            files: self.data.iter().map(|file| absolute(file)).collect(),
            validation_file: self.validation.as_deref().map(absolute),
            validation_share: self.validation_share,
            length,
            batch,
            accumulate,
            epochs,
            steps_max: steps,
        }
    }

    /// Everything but the text, for a method of this learning rate.
    pub(crate) fn options(&self, learning_rate: f64, system: &SystemArgs) -> Options {
        let Optimiser { final_share, warmup_share, weight_decay, clip_norm, .. } = self.optimiser;
        let optimiser = OptimiserOptions {
            learning_rate: self.optimiser.learning_rate.unwrap_or(learning_rate),
            final_share,
            warmup_share,
            weight_decay,
            clip_norm,
            ..OptimiserOptions::default()
        };
        let precision = match self.precision {
            Stored::F32 => Precision::F32,
            Stored::Bf16 => Precision::Bf16,
        };
        Options {
            seed: self.seed,
            optimiser,
            evaluate_every: self.evaluate_every,
            patience: self.patience,
            checkpoint_every: self.checkpoint_every,
            precision,
            threads: system.threads(),
            device: system.device,
        }
    }
}
