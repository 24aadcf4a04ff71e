//! The model card: what the model is, what it was made from, with which options, and how well it does.

use std::fmt::{Display, Write};

use espalier_model::DeviceKind;

use super::summary::Summary;
use crate::files;
use crate::objective::Product;
use crate::recipe::{DataOptions, Method, OptimiserOptions, Options, Precision, Recipe, Sight};

/// The card in Markdown.
pub(super) fn write(name: &str, product: &Product, recipe: &Recipe, summary: &Summary) -> String {
    let kind = recipe.method.name();
    let mut card = format!("---\nlibrary_name: espalier\ntags:\n- {kind}\n---\n# {name}\n\n");
    // Writing to a string cannot fail.
    let _ = writeln!(card, "{}\n", purpose(&recipe.method));
    section(&mut card, "Made from", &product.about);
    section(&mut card, "Text", &data(&recipe.data, summary));
    section(&mut card, "Options", &options(recipe));
    section(&mut card, "Results", &results(summary));
    card
}

fn purpose(method: &Method) -> &'static str {
    match method {
        Method::Base(_) => "A language model, trained on the next token by `espalier train base`.",
        Method::Sorted(_) => {
            "A drafter with several exits for speculative decoding (S2D), trained on the next token at every exit by \
             `espalier train sorted`."
        }
        Method::Edd(method) if method.sight != Sight::Tokens => {
            "A drafter of one layer for speculative decoding (EDD), which reads its target's hidden states and serves \
             that target only. Trained by `espalier train edd`."
        }
        Method::Edd(_) => {
            "A drafter of one layer for speculative decoding, trained towards its target by `espalier train edd` \
             without the target's hidden states."
        }
        Method::EarlyExit(_) => {
            "A drafter for speculative decoding (EESD): one layer on top of its target's first ones, which it shares. \
             Trained on the next token by `espalier train early-exit`."
        }
        Method::CaliTs(_) => {
            "A predictor of how likely a target is to take the next token of a drafter (EESD), for the policy `cali-ts`. \
             Trained by `espalier train cali-ts`."
        }
    }
}

/// A heading and a table of two columns.
fn section(card: &mut String, title: &str, lines: &[(String, String)]) {
    let _ = writeln!(card, "## {title}\n\n| | |\n|---|---|");
    for (key, value) in lines {
        let _ = writeln!(card, "| {key} | {} |", value.replace('|', "\\|"));
    }
    card.push('\n');
}

fn line(key: &str, value: impl Display) -> (String, String) {
    (key.to_owned(), format!("{value}"))
}

fn data(data: &DataOptions, summary: &Summary) -> Vec<(String, String)> {
    let files: Vec<String> = data.files.iter().map(|path| files::name(path)).collect();
    let validation = match &data.validation_file {
        Some(file) => files::name(file),
        None => format!("{} % of it", data.validation_share * 100.0),
    };
    vec![
        line("files", files.join(", ")),
        line("validation", validation),
        line("tokens learned from", summary.tokens),
        line("fingerprint", &summary.text_fingerprint),
    ]
}

fn options(recipe: &Recipe) -> Vec<(String, String)> {
    let Recipe { method, data, options } = recipe;
    let Options { seed, optimiser, precision, device, .. } = options;
    let OptimiserOptions { learning_rate, final_share, warmup_share, weight_decay, beta1, beta2, clip_norm } =
        optimiser;
    let mut lines = vec![
        line("seed", seed),
        line("rows of a batch", data.batch),
        line("batches of a step", data.accumulate),
        line("tokens of a row", data.length),
        line("epochs", data.epochs),
        line(
            "AdamW",
            format!("betas {beta1} and {beta2}, weight decay {weight_decay}, gradients clipped at {clip_norm}"),
        ),
        line(
            "learning rate",
            format!(
                "{learning_rate}, warm-up over {} % of the steps, cosine down to {} %",
                warmup_share * 100.0,
                final_share * 100.0
            ),
        ),
        line(
            "saved in",
            match precision {
                Precision::F32 => "f32",
                Precision::Bf16 => "bf16, trained in f32",
            },
        ),
    ];
    match device {
        DeviceKind::Cpu => (),
        DeviceKind::Cuda(_) => lines.push(line("trained on", format!("{device}, products in TF32"))),
        _ => lines.push(line("trained on", device)),
    }
    if let Method::Edd(method) = method {
        let loss = if method.divergence { "divergence from the target" } else { "cross-entropy on the text" };
        let sight = match method.sight {
            Sight::Tokens => "all tokens before it",
            Sight::States => "the tokens of its block, and before it hidden states",
            Sight::TokensAndStates => "all tokens before it, and before its block hidden states too",
        };
        lines.push(line("a position sees", sight));
        lines.push(line("block lengths", format!("{} to {}", method.block_min, method.block_max)));
        lines.push(line("loss", loss));
    }
    lines
}

fn results(summary: &Summary) -> Vec<(String, String)> {
    let mut lines = vec![
        line("steps", format!("{} of {}", summary.steps, summary.steps_planned)),
        line("saved weights are those of step", summary.best_step),
        line("trained parameters", summary.parameters),
        line("time", format!("{:.0} s", summary.seconds)),
        line("training loss of the last step", format!("{:.4}", summary.loss)),
    ];
    if let Some(validation) = &summary.validation {
        lines.push(line("validation loss", format!("{:.4} over {} positions", validation.loss, validation.positions)));
        for exit in &validation.exits {
            let scores = format!("loss {:.4}, top-1 {:.1} %", exit.loss, exit.top1 * 100.0);
            lines.push((exit.name.clone(), scores));
        }
    }
    lines
}
