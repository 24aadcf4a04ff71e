//! Which kind of case each file holds, and running them.

use std::path::Path;

use serde_json::Value;

use crate::files::{VectorsError, cases, json_files, name_of, read};
use crate::report::{Failure, FileReport, Report};
use crate::toy::Models;
use crate::{acceptance, beliefs, figures, gain, policies, rejection};

/// The toy models, next to the files of cases.
const MODELS: &str = "models";

/// Runs one case: `Err` says what is wrong with it.
type Check = fn(&Models, Value) -> Result<(), String>;

/// Runs every vector file in `dir`, in the order of their names.
///
/// # Errors
/// A folder or file that cannot be read or is not one of vectors. A case that fails, even one
/// that makes no sense, is no error but part of the report.
pub fn check(dir: &Path) -> Result<Report, VectorsError> {
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

fn check_file(models: &Models, path: &Path) -> Result<FileReport, VectorsError> {
    Ok(check_cases(models, name_of(path), cases(path)?))
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
