//! `espalier vectors DIR`: the shared test vectors of the algorithms, run against this build.
//!
//! A vector file is `{"schema": 1, "what": text, "cases": [...]}`; its name says which part of
//! `espalier_speculation` it is about, and `models.json` holds the toy models that cases name.
//! Floats must agree within [`TOLERANCE`], everything else exactly.

mod acceptance;
mod beliefs;
mod figures;
mod gain;
mod policies;
mod rejection;
mod toy;

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::Folder;
use crate::error::CliError;
use crate::{Verdict, report};
use toy::Models;

/// Greatest absolute difference between an expected float and a found one.
const TOLERANCE: f64 = 1e-9;

/// The only layout of vector files that is understood.
const SCHEMA: u32 = 1;

/// The toy models, next to the files of cases.
const MODELS: &str = "models";

/// Runs one case: `Err` says what is wrong with it.
type Check = fn(&Models, Value) -> Result<(), String>;

/// Why vectors could not be run at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VectorsError {
    /// A folder or file could not be read.
    #[error("{path} cannot be read")]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not a file of vectors.
    #[error("{path} is not a file of vectors")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A file of another layout.
    #[error("{path} has schema {found}, but this program reads schema {SCHEMA}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// A folder without a single JSON file.
    #[error("there are no vectors in {path}")]
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

/// How the cases of a folder went.
#[derive(Debug, Default)]
pub(crate) struct Report {
    files: Vec<FileReport>,
}

#[derive(Debug, Serialize)]
struct FileReport {
    file: String,
    passed: usize,
    failed: Vec<Failure>,
    skipped: usize,
}

/// A case that gave something else than expected.
#[derive(Debug, Serialize)]
struct Failure {
    case: String,
    fault: String,
}

impl Report {
    /// Cases that gave what was expected.
    pub(crate) fn passed(&self) -> usize {
        self.files.iter().map(|file| file.passed).sum()
    }

    /// Cases that gave something else.
    pub(crate) fn failed(&self) -> usize {
        self.files.iter().map(|file| file.failed.len()).sum()
    }

    /// Cases about what this build does not have.
    pub(crate) fn skipped(&self) -> usize {
        self.files.iter().map(|file| file.skipped).sum()
    }
}

/// A line for each file and failed case, and `N passed, M failed, K skipped` in cases.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "{file}")?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed(), self.failed(), self.skipped())
    }
}

impl Display for FileReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if self.skipped > 0 {
            return write!(f, "{} skipped, not built yet", self.skipped);
        }
        write!(f, "{} passed, {} failed", self.passed, self.failed.len())?;
        self.failed.iter().try_for_each(|Failure { case, fault }| write!(f, "\n  {case}: {fault}"))
    }
}

/// The command: good if no case fails; what is not built is skipped.
pub(crate) fn run(args: &Folder) -> Result<Verdict, CliError> {
    let found = check(&args.folder)?;
    if args.json {
        found.files.iter().for_each(report::json);
    } else {
        anstream::println!("{found}");
    }
    Ok((found.failed() == 0).into())
}

/// Runs every vector file in `dir`, in the order of their names.
///
/// # Errors
/// A folder or file that cannot be read or is not one of vectors. A case that fails, even one
/// that makes no sense, is no error but part of the report.
pub(crate) fn check(dir: &Path) -> Result<Report, VectorsError> {
    let files = json_files(dir)?;
    let models = match files.iter().find(|file| name_of(file) == MODELS) {
        Some(file) => read(file)?,
        None => Models::default(),
    };
    let cases = files.iter().filter(|file| name_of(file) != MODELS);
    let files = cases.map(|file| check_file(&models, file)).collect::<Result<_, _>>()?;
    Ok(Report { files })
}

/// What checks the cases of the file of this name.
fn check_for(name: &str) -> Option<Check> {
    match name {
        "greedy" => Some(acceptance::greedy),
        "coupled" => Some(acceptance::coupled),
        "rejection" => Some(rejection::tree),
        "rejection-truncate" => Some(rejection::truncate),
        "rejection-lossless" => Some(rejection::lossless),
        "invalid" => Some(acceptance::invalid),
        "metrics" => Some(figures::metrics),
        "constant" => Some(|models, case| policies::chain("constant", models, case)),
        "heuristic" => Some(|models, case| policies::chain("heuristic", models, case)),
        "svip" => Some(|models, case| policies::chain("svip", models, case)),
        "beta-ts" => Some(beliefs::beta),
        "cali-ts" => Some(beliefs::calibrated),
        "expected-gain" => Some(gain::rates),
        "vanilla-tree" => Some(|models, case| policies::tree("vanilla-tree", models, case)),
        "cape" => Some(|models, case| policies::tree("cape", models, case)),
        "eagle2" => Some(|models, case| policies::tree("eagle2", models, case)),
        "opt-tree" => Some(|models, case| policies::tree("opt-tree", models, case)),
        "pct" => Some(|models, case| policies::tree("pct", models, case)),
        _ => None,
    }
}

/// A file of cases, not looked into yet.
#[derive(Deserialize)]
struct Cases {
    schema: u32,
    cases: Vec<Value>,
}

fn check_file(models: &Models, path: &Path) -> Result<FileReport, VectorsError> {
    let Cases { schema, cases } = read(path)?;
    if schema != SCHEMA {
        return Err(VectorsError::Schema { path: path.to_owned(), found: schema });
    }
    Ok(check_cases(models, name_of(path), cases))
}

fn check_cases(models: &Models, name: &str, cases: Vec<Value>) -> FileReport {
    let mut report = FileReport { file: name.to_owned(), passed: 0, failed: Vec::new(), skipped: 0 };
    let Some(check) = check_for(name) else {
        report.skipped = cases.len();
        return report;
    };
    for case in cases {
        let id = case["id"].as_str().unwrap_or("a case without an id").to_owned();
        match check(models, case) {
            Ok(()) => report.passed += 1,
            Err(fault) => report.failed.push(Failure { case: id, fault }),
        }
    }
    report
}

fn json_files(dir: &Path) -> Result<Vec<PathBuf>, VectorsError> {
    let failed = |source| VectorsError::Read { path: dir.to_owned(), source };
    let entries = fs::read_dir(dir).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed));
    let mut files = paths.collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort_unstable();
    if files.is_empty() {
        return Err(VectorsError::Empty { path: dir.to_owned() });
    }
    Ok(files)
}

fn name_of(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, VectorsError> {
    let bytes = fs::read(path).map_err(|source| VectorsError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| VectorsError::Parse { path: path.to_owned(), source })
}

/// Reads a case as its kind has it.
fn parse<T: DeserializeOwned>(case: Value) -> Result<T, String> {
    serde_json::from_value(case).map_err(|error| format!("is not understood: {error}"))
}

/// Says what differs, unless nothing does.
fn same<T: PartialEq + fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, expected {expected:?}"))
}

/// Says which float differs, unless all are within [`TOLERANCE`].
fn close(what: &str, found: &[f64], expected: &[f64]) -> Result<(), String> {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE;
    if found.len() == expected.len() && found.iter().zip(expected).all(near) {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, expected {expected:?}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// A few cases of each file; the whole suite is run by hand with `espalier vectors`.
    const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../speculation/tests/vectors");

    #[test]
    fn the_sample_of_vectors_passes() {
        let report = check(Path::new(SAMPLE)).unwrap();
        assert!(report.failed() == 0 && report.passed() > 0, "{report}");
    }

    #[test]
    fn a_case_that_differs_is_named_and_an_unknown_file_is_skipped() {
        let wrong = json!({"id": "invalid-1", "vocab": 6, "tokens": [9], "parents": [0], "probs": [0.5],
            "expect": {"valid": true, "fault": null}});
        let files = [("invalid", wrong), ("greedy", json!({"id": "greedy-1"})), ("later", json!({}))];
        let files = files.map(|(name, case)| check_cases(&Models::default(), name, vec![case]));
        let report = Report { files: files.into() };
        assert_eq!(
            report.to_string(),
            "invalid: 0 passed, 1 failed\n  \
             invalid-1: fault: found Some(\"token\"), expected None\n\
             greedy: 0 passed, 1 failed\n  \
             greedy-1: is not understood: missing field `model`\n\
             later: 1 skipped, not built yet\n\
             0 passed, 2 failed, 1 skipped"
        );
    }

    #[test]
    fn what_is_no_folder_of_vectors_is_refused() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(matches!(check(&source), Err(VectorsError::Empty { .. })));
        assert!(matches!(check(&source.join("nowhere")), Err(VectorsError::Read { .. })));
    }
}
