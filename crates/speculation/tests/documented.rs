//! Every policy has a page in docs/policies, and the page has the policy's parameters as the code declares them.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use espalier_speculation::{parse_policy, policy_help, policy_names};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies")
}

fn page(policy: &str) -> String {
    let path = folder().join(format!("{policy}.md"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A row of a page's table from a line of the help text: `key=default: meaning (what it may be)`.
fn row(line: &str) -> String {
    let (head, may_be) = line.trim().trim_end_matches(')').rsplit_once(" (").unwrap();
    let (written, meaning) = head.split_once(": ").unwrap();
    let (key, default) = written.split_once('=').unwrap();
    format!("| `{key}` | {default} | {may_be} | {meaning} |")
}

/// The rows of a policy's own parameters.
fn rows(policy: &str) -> Vec<String> {
    let help = policy_help();
    let own = help.lines().skip_while(|line| !line.starts_with(&format!("{policy}: "))).skip(1);
    own.take_while(|line| line.starts_with("    ")).map(row).collect()
}

#[test]
fn the_pages_have_the_parameters_of_the_code() {
    for policy in policy_names() {
        let text = page(policy);
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        let expected = rows(policy);
        assert!(found == expected, "docs/policies/{policy}.md should have these rows:\n{}", expected.join("\n"));
    }
}

#[test]
fn a_row_has_key_default_range_and_meaning() {
    let line =
        "    ratio=auto: least path_prob of a node expanded; auto is s_d / s_t (a number from 0 to 1000000 or auto)";
    let expected = "| `ratio` | auto | a number from 0 to 1000000 or auto | least path_prob of a node expanded; auto is s_d / s_t |";
    assert_eq!(row(line), expected);
    assert_eq!(rows("pct").len(), 5);
}

#[test]
fn there_is_a_page_and_a_plot_for_every_policy_and_no_other() {
    let names = |folder: PathBuf, extension: &str| {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> = files
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .filter(|name| !["README", "all"].contains(&name.as_str()))
            .collect();
        names.sort();
        names
    };
    let mut expected: Vec<&str> = policy_names().collect();
    expected.sort_unstable();
    assert_eq!(names(folder(), "md"), expected);
    assert_eq!(names(folder().join("plots"), "svg"), expected);
}

#[test]
fn what_the_pages_and_their_plots_name_is_a_policy() {
    let measure = std::fs::read_to_string(folder().join("measure")).unwrap();
    let measured = measure.split('\'').skip(1).step_by(2).flat_map(|arms| arms.split(';'));
    let pages: Vec<String> = policy_names().map(page).collect();
    let written = pages.iter().flat_map(|text| text.split('`').skip(1).step_by(2));
    let is_policy = |text: &&str| policy_names().any(|name| text.starts_with(&format!("{name},")));
    let written = written.filter(is_policy).filter(|text| !text.contains(['\n', 'X', 'W']));
    for text in measured.chain(written) {
        assert!(parse_policy(text).is_ok(), "`{text}`: {:?}", parse_policy(text).err());
    }
}
