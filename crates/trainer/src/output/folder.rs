//! The finished model's folder, in Hugging Face format.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use candle_core::{DType, Tensor};
use espalier_text::Parts;

use super::summary::Summary;
use super::tensors::write_tensors;
use super::{card, config};
use crate::error::{Result, TrainError};
use crate::files;
use crate::objective::Product;
use crate::recipe::{Precision, Recipe};

const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const CARD: &str = "README.md";

/// Special tokens of the tokenizer and of generation; each is copied where there is one.
const COMPANIONS: [&str; 2] = ["special_tokens_map.json", "generation_config.json"];

/// What a folder holds that a new model would overwrite.
pub(crate) fn occupied(out: &Path) -> Option<String> {
    [CONFIG, WEIGHTS].into_iter().find(|name| out.join(name).exists()).map(|name| format!("a model ({name})"))
}

/// Writes weights, tokenizer, model card and, last of all, the configuration that makes it a model.
pub(crate) fn save(
    out: &Path,
    product: &Product,
    tensors: BTreeMap<String, Tensor>,
    recipe: &Recipe,
    summary: &Summary,
) -> Result<()> {
    let precision = recipe.options.precision;
    let dtype = match precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
    };
    let rounded = tensors.into_iter().map(|(name, tensor)| Ok((name, tensor.to_dtype(dtype)?)));
    // transformers refuses a file that does not say which library's layout it has.
    let notes = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    write_tensors(&out.join(WEIGHTS), &rounded.collect::<Result<_>>()?, notes)?;
    write_tokenizer(recipe.method.origin(), out)?;
    COMPANIONS.into_iter().try_for_each(|name| copy(&recipe.method.origin().join(name), &out.join(name)))?;
    let name = out.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy());
    files::replace_text(&out.join(CARD), &card::write(&name, product, recipe, summary))?;
    let mut config = product.config.clone();
    config::set_precision(&mut config, precision);
    files::replace_text(&out.join(CONFIG), &format!("{config:#}\n"))
}

/// Writes the files that a model's tokenizer is made of.
fn write_tokenizer(origin: &Path, out: &Path) -> Result<()> {
    let Parts { tokenizer, config, chat_template } = Parts::read(origin)?;
    let parts = [
        ("tokenizer.json", Some(tokenizer)),
        ("tokenizer_config.json", config),
        ("chat_template.jinja", chat_template),
    ];
    let there = parts.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
    there.into_iter().try_for_each(|(name, bytes)| files::replace(&out.join(name), |file| file.write_all(&bytes)))
}

/// Copies a file where there is one.
fn copy(from: &Path, to: &Path) -> Result<()> {
    match fs::read(from) {
        Ok(bytes) => files::replace(to, |file| file.write_all(&bytes)),
        Err(fault) if matches!(fault.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        Err(fault) => Err(TrainError::read(from, fault)),
    }
}
