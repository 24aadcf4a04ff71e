//! `espalier convert`: a checkpoint as a GGUF file.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use espalier_command::{Verdict, report};
use espalier_local::{SystemArgs, checkpoint};
use espalier_model::{Checkpoint, GgufExport, GgufWritten, TensorType};
use espalier_text::{GgufTokenizer, Parts, Tokenizer};
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// The options of `espalier convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Convert {
    /// The checkpoint, by name or by path: a folder, or a GGUF file.
    #[arg(value_name = "IN")]
    pub(crate) model: String,
    /// The file to write.
    #[arg(value_name = "OUT.gguf")]
    pub(crate) out: PathBuf,
    /// The type of matrices, the embedding and the head included; as they are stored unless given.
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub(crate) kind: Option<Kind>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The types that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// 32-bit floats.
    F32,
    /// IEEE 16-bit floats.
    F16,
    /// 16-bit floats with the exponent of 32-bit ones.
    Bf16,
    /// 8 bits each, and a scale for 32.
    #[value(name = "q8_0")]
    Q8_0,
    /// 4 bits each, and a scale for 32.
    #[value(name = "q4_0")]
    Q4_0,
}

impl From<Kind> for TensorType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::F32 => Self::F32,
            Kind::F16 => Self::F16,
            Kind::Bf16 => Self::BF16,
            Kind::Q8_0 => Self::Q8_0,
            Kind::Q4_0 => Self::Q4_0,
        }
    }
}

/// What was written.
#[derive(Debug, Serialize)]
struct Converted<'a> {
    file: &'a Path,
    tensors: usize,
    parameters: usize,
    bytes: u64,
    /// Whether the tokenizer is in the file; otherwise it is beside it.
    tokenizer_inside: bool,
}

/// A drafter's `config.json`, as far as its exits go.
#[derive(Default, Deserialize)]
struct Exits {
    #[serde(rename = "espalier_exits")]
    exits: Option<Vec<u32>>,
}

pub(crate) fn run(system: &SystemArgs, args: &Convert) -> Result<Verdict, CliError> {
    let path = checkpoint(&args.model, system)?;
    check_out(&args.out)?;
    let (checkpoint, tokenizer) = (Checkpoint::open(&path)?, Tokenizer::open(&path)?);
    let about = GgufTokenizer::of(&tokenizer, checkpoint.config.vocab)?;
    check_beside(&args.out, &tokenizer, checkpoint.name())?;
    let exits: Exits = serde_json::from_str(&Checkpoint::describe(&path)?).unwrap_or_default();
    let export = GgufExport { kind: args.kind.map(TensorType::from), metadata: about.metadata, exits: exits.exits };
    let written = write(&export, &checkpoint, &args.out)?;
    if !about.is_whole {
        write_beside(&args.out, tokenizer.parts())?;
    }
    let bytes = fs::metadata(&args.out).map_err(|source| CliError::Read { path: args.out.clone(), source })?.len();
    let GgufWritten { tensors, elements } = written;
    let (file, tokenizer_inside) = (&*args.out, about.is_whole);
    show(&Converted { file, tensors, parameters: elements, bytes, tokenizer_inside }, args.json);
    Ok(Verdict::Good)
}

fn show(converted: &Converted<'_>, json: bool) {
    if json {
        return report::json(converted);
    }
    let Converted { file, tensors, parameters, bytes, tokenizer_inside } = converted;
    let place = if *tokenizer_inside { "the tokenizer in it" } else { "the tokenizer beside it" };
    anstream::println!("{}: {tensors} tensors, {parameters} parameters, {bytes} bytes, {place}", file.display());
}

fn check_out(out: &Path) -> Result<(), CliError> {
    let path = out.to_owned();
    if out.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("gguf")) {
        return Err(CliError::NotGguf { path });
    }
    if out.exists() { Err(CliError::Exists { path }) } else { Ok(()) }
}

/// Refuses a folder whose `tokenizer.json` would be taken for this model's.
fn check_beside(out: &Path, tokenizer: &Tokenizer, model: &str) -> Result<(), CliError> {
    let path = beside(out, "tokenizer.json");
    let Ok(found) = fs::read(&path) else { return Ok(()) };
    let parts = Parts { tokenizer: found, config: None, chat_template: None };
    match Tokenizer::from_parts(parts) {
        Ok(found) if found.fingerprint() == tokenizer.fingerprint() => Ok(()),
        _ => Err(CliError::OtherTokenizer { path, model: model.to_owned() }),
    }
}

fn beside(out: &Path, name: &str) -> PathBuf {
    out.with_file_name(name)
}

/// Writes the file under another name first, so that there is never half of it under its own.
fn write(export: &GgufExport, checkpoint: &Checkpoint, out: &Path) -> Result<GgufWritten, CliError> {
    let part = out.with_extension("gguf.part");
    let file = File::create(&part).map_err(|source| CliError::Write { path: part.clone(), source })?;
    let bar = report::progress(0, "tensors");
    let written = export.write(checkpoint, BufWriter::new(file), |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let renamed = written.map_err(CliError::from).and_then(|written| {
        fs::rename(&part, out).map_err(|source| CliError::Write { path: out.to_owned(), source })?;
        Ok(written)
    });
    if renamed.is_err() {
        // What is left of it is of no use; that it may stay is not worth a second message.
        let _ = fs::remove_file(&part);
    }
    renamed
}

/// Writes the files that the tokenizer is made of.
fn write_beside(out: &Path, parts: &Parts) -> Result<(), CliError> {
    let files = [
        ("tokenizer.json", Some(&parts.tokenizer)),
        ("tokenizer_config.json", parts.config.as_ref()),
        ("chat_template.jinja", parts.chat_template.as_ref()),
    ];
    for (name, bytes) in files {
        let path = beside(out, name);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).map_err(|source| CliError::Write { path, source })?;
        }
    }
    Ok(())
}
