//! `espalier golden`: the decoder against what Hugging Face transformers computed.

use std::path::{Path, PathBuf};

use espalier_command::{Verdict, report};
use espalier_local::SystemArgs;
use espalier_model::{
    Arithmetic, Asked, Checkpoint, Comparison, Decoder, Golden, LoadOptions, Logits, ModelError, Row, Segment,
    Workspace,
};
use espalier_speculation::{Token, arg_max};
use serde::Serialize;

use crate::error::CliError;
use crate::folder::Folder;

/// What one folder's check found.
#[derive(Serialize)]
struct Checked {
    folder: String,
    passed: bool,
    /// The largest difference of a logit.
    logits_max_abs: Option<f32>,
    /// The largest difference of a hidden state.
    hidden_max_abs: Option<f32>,
    /// What is wrong, if anything is.
    fault: Option<String>,
}

/// Checks in the arithmetic that is asked for: `f32` must have the logits and the text; `bf16` logits that are no further off
/// than those of transformers in bf16, where that is known, and the same best tokens wherever they are ahead by more; of
/// others it is told how far they are off.
pub(crate) fn run(args: &Folder, system: &SystemArgs) -> Result<Verdict, CliError> {
    let folders = folders(&args.folder)?;
    if folders.is_empty() {
        return Err(CliError::NoFolders { path: args.folder.clone() });
    }
    let mut work = Workspace::new(2);
    let mut failed = 0;
    for folder in &folders {
        let checked = check(folder, system, &mut work);
        failed += usize::from(!checked.passed);
        print(&checked, args.json);
    }
    if !args.json {
        anstream::println!("{} passed, {failed} failed", folders.len() - failed);
    }
    Ok((failed == 0).into())
}

/// The checkpoint folders in `dir`, by name; `dir` itself if it is one.
fn folders(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    if dir.join("golden.json").is_file() {
        return Ok(vec![dir.to_owned()]);
    }
    let unreadable = |source| CliError::Read { path: dir.to_owned(), source };
    let entries = std::fs::read_dir(dir).map_err(unreadable)?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

fn print(checked: &Checked, json: bool) {
    if json {
        return report::json(checked);
    }
    let mark = report::mark(checked.passed);
    let folder = &checked.folder;
    match (&checked.fault, checked.logits_max_abs, checked.hidden_max_abs) {
        (None, Some(logits), Some(hidden)) => {
            anstream::println!("{mark} {folder}: logits within {logits:.1e}, hidden states within {hidden:.1e}");
        }
        (fault, ..) => anstream::println!("{mark} {folder}: {}", fault.as_deref().unwrap_or_default()),
    }
}

fn check(folder: &Path, system: &SystemArgs, work: &mut Workspace) -> Checked {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut checked = Checked { folder: name, passed: false, logits_max_abs: None, hidden_max_abs: None, fault: None };
    match compare(folder, system, work, &mut checked) {
        Ok(fault) => checked.fault = fault,
        Err(error) => checked.fault = Some(error.to_string()),
    }
    checked.passed = checked.fault.is_none();
    checked
}

/// What differs, if anything does.
fn compare(
    folder: &Path,
    system: &SystemArgs,
    work: &mut Workspace,
    checked: &mut Checked,
) -> Result<Option<String>, ModelError> {
    let (golden, checkpoint) = (Golden::open(folder)?, Checkpoint::open(folder)?);
    let (device, parallel) = (system.device, system.parallel());
    let arithmetic = system.compute.of(&checkpoint.weights()?, device);
    let decoder = Decoder::load(&checkpoint, &LoadOptions { arithmetic, device, parallel, ..LoadOptions::default() })?;
    let taps: Vec<usize> = golden.taps.iter().map(|tap| tap.layers).collect();
    let mut cache = decoder.new_cache();
    let rows = Row::chain(&golden.input_ids, 0);
    let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::All };
    let output = decoder.forward(work, &mut [segment], Asked { taps: &taps, ..Asked::default() })?;
    let collect = |row: &dyn Fn(usize) -> Vec<f32>| (0..rows.len()).flat_map(row).collect::<Vec<f32>>();
    let logits = golden.logits.compare(&collect(&|row| output.logits(0, row).to_vec()))?;
    checked.logits_max_abs = Some(logits.max_abs);
    let mut hidden_max_abs = 0.0_f32;
    for (tap, expected) in golden.taps.iter().enumerate() {
        let found = collect(&|row| output.tap(tap, 0, row).to_vec());
        hidden_max_abs = hidden_max_abs.max(expected.hidden.compare(&found)?.max_abs);
    }
    checked.hidden_max_abs = Some(hidden_max_abs);
    if arithmetic != Arithmetic::F32 {
        let in_bf16 = matches!(arithmetic, Arithmetic::Bf16 | Arithmetic::Bf16Dot);
        return Ok(further_off(&logits, golden.bf16_max_abs.filter(|_| in_bf16)));
    }
    if !logits.agrees() {
        let (max_abs, differs, rows) = (logits.max_abs, logits.arg_max_differs, logits.rows);
        return Ok(Some(format!("logits differ by up to {max_abs:.1e}, the arg-max in {differs} of {rows} rows")));
    }
    if hidden_max_abs > HIDDEN_TOLERANCE {
        return Ok(Some(format!("hidden states differ by up to {hidden_max_abs:.1e}")));
    }
    compare_text(&decoder, work, &golden)
}

/// What is wrong with logits of a coarser arithmetic: they may be off by `limit`, and a best token may be another one where
/// the next is as near; without a limit by as much as they are.
fn further_off(logits: &Comparison, limit: Option<f32>) -> Option<String> {
    let limit = limit.unwrap_or(logits.max_abs);
    let (max_abs, margin) = (logits.max_abs, logits.margin_lost);
    (!logits.agrees_within(limit)).then(|| {
        format!("logits differ by up to {max_abs:.1e}, best tokens that were ahead by {margin:.1e}, but {limit:.1e} is the limit")
    })
}

/// From which token on the greedy text differs, if it does.
fn compare_text(decoder: &Decoder, work: &mut Workspace, golden: &Golden) -> Result<Option<String>, ModelError> {
    let text = greedy(decoder, work, &golden.prompt_ids, golden.greedy_ids.len())?;
    let place = text.iter().zip(&golden.greedy_ids).position(|(a, b)| a != b);
    Ok(place.or((text.len() != golden.greedy_ids.len()).then_some(text.len())).map(|place| {
        format!("the greedy text differs from token {place} on: {text:?} instead of {:?}", golden.greedy_ids)
    }))
}

/// Hidden states are larger than logits and not what is promised: a looser bound shows a wrong layer all the same.
const HIDDEN_TOLERANCE: f32 = 1e-3;

/// Greedy decoding, one token at a time, to the end of the text or to `tokens`.
fn greedy(decoder: &Decoder, work: &mut Workspace, prompt: &[Token], tokens: usize) -> Result<Vec<Token>, ModelError> {
    let mut cache = decoder.new_cache();
    let (mut next, mut text) = (prompt.to_vec(), Vec::new());
    while text.len() < tokens && text.last().is_none_or(|last| !decoder.config().eos.contains(last)) {
        let rows = Row::chain(&next, 0);
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::Last(1) };
        let output = decoder.forward(work, &mut [segment], Asked::default())?;
        let token = arg_max(output.logits(0, 0))?;
        cache.keep_path(&(0..rows.len()).collect::<Vec<_>>())?;
        text.push(token);
        next = vec![token];
    }
    Ok(text)
}
