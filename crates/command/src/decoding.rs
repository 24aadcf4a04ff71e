//! How a command line says what answers shall be like.

use espalier_local::DEFAULT_DRAFTER;
use espalier_speculation::{Acceptance, Token};

/// How long answers are, and whether they are drawn.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Answers {
    /// Most tokens of an answer.
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub max_tokens: u32,
    /// 0 takes the most probable token; above, tokens are drawn.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub temperature: f64,
    /// The same seed gives the same texts.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
}

/// How tokens are drafted and chosen.
#[derive(Debug, Clone, clap::Args)]
pub struct Decoding {
    /// How long answers are, and whether they are drawn.
    #[command(flatten)]
    pub answers: Answers,
    /// Draw from the so many most probable tokens only; 0 is all.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub top_k: u32,
    /// Draw from the most probable tokens that together hold this share only.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "X")]
    pub top_p: f64,
    /// Draw from tokens at least so many times as probable as the most probable one only.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub min_p: f64,
    /// What makes tokens more or less likely.
    #[command(flatten)]
    pub shaping: ShapingArgs,
    /// How drafted tokens are accepted above temperature 0: `coupled` keeps the text of plain decoding with the same seed;
    /// `rejection` keeps its distribution only, with policies that do not choose among drawn tokens. At temperature 0 both
    /// are greedy decoding.
    #[arg(long, default_value_t = Acceptance::Coupled, value_name = "coupled|rejection")]
    pub acceptance: Acceptance,
    /// How trees are grown.
    #[command(flatten)]
    pub policy: PolicyArg,
    /// Who drafts: a drafter by name in the folder of models or by path, or `NAME:LAYERS` for its first layers; `ngram`
    /// for proposals from the text itself.
    #[arg(long, value_name = "D")]
    pub drafter: Option<String>,
    /// Decode with the target alone.
    #[arg(long)]
    pub no_speculation: bool,
}

/// How trees are grown.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PolicyArg {
    /// How trees are grown: a policy, with parameters if wanted; the gateway's usual one when absent.
    #[arg(long, value_name = "P[,key=value…]", long_help = policy_help())]
    pub policy: Option<String>,
}

/// The one drafter of a measurement.
#[derive(Debug, Clone, clap::Args)]
pub struct DrafterArg {
    /// Who drafts: a drafter by name or by path, `NAME:LAYERS` for first layers, `ngram` for proposals from the text
    /// itself.
    #[arg(long, default_value = DEFAULT_DRAFTER, value_name = "D")]
    pub drafter: String,
}

/// How the text so far, or the user, makes tokens more or less likely.
#[derive(Debug, Clone, clap::Args)]
pub struct ShapingArgs {
    /// Above 1, tokens that prompt or answer hold already become less likely (0.01 to 100).
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_name = "X")]
    pub repetition_penalty: f64,
    /// Taken off the logits of tokens that the answer holds already (-2 to 2).
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub presence_penalty: f64,
    /// Taken off the logits of tokens for each time that the answer holds them already (-2 to 2).
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_name = "X")]
    pub frequency_penalty: f64,
    /// Added to the logits of tokens, by their ids (-100 to 100).
    #[arg(long, value_delimiter = ',', value_parser = logit_bias, value_name = "TOKEN=X[,TOKEN=X…]")]
    pub logit_bias: Vec<(Token, f64)>,
}

impl Default for ShapingArgs {
    fn default() -> Self {
        Self { repetition_penalty: 1.0, presence_penalty: 0.0, frequency_penalty: 0.0, logit_bias: Vec::new() }
    }
}

/// Reads `TOKEN=X`.
fn logit_bias(text: &str) -> Result<(Token, f64), String> {
    let bias = text.split_once('=').and_then(|(token, bias)| Some((token.parse().ok()?, bias.parse().ok()?)));
    bias.ok_or_else(|| "a bias is written as TOKEN=X, with the id of a token and a number".to_owned())
}

impl Decoding {
    /// Greedy decoding of at most `max_tokens`, everything else as usual.
    pub fn greedy(max_tokens: u32) -> Self {
        Self::of(Answers { max_tokens, temperature: 0.0, seed: 0 })
    }

    /// What a measurement asks for, everything else as usual.
    pub fn of(answers: Answers) -> Self {
        Self {
            answers,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            shaping: ShapingArgs::default(),
            acceptance: Acceptance::Coupled,
            policy: PolicyArg::default(),
            drafter: None,
            no_speculation: false,
        }
    }
}

/// The policies' own help.
fn policy_help() -> String {
    let what = "How trees are grown: a policy, with parameters if wanted; the gateway's usual one when absent.";
    format!("{what}\n\n{}", espalier_speculation::policy_help())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_is_a_token_and_a_number() {
        assert_eq!(logit_bias("17=-2.5"), Ok((17, -2.5)));
        for wrong in ["17", "=1", "x=1", "-1=1", "17=", "17=x"] {
            assert!(logit_bias(wrong).is_err(), "{wrong}");
        }
    }
}
