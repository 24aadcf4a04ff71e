//! What pages quote is what the program says, and what it is given.

use std::path::{Path, PathBuf};

use pulldown_cmark::Event;

use crate::markdown::{Page, root};

/// What stands for a value in a message.
const VALUE: char = '…';

/// The folders that have messages of errors.
const SOURCES: [&str; 5] = ["crates", "drafter-svc", "gateway", "proto", "verifier-svc"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The messages that errors are declared with, values as `…`.
fn messages() -> Vec<String> {
    let mut files = Vec::new();
    SOURCES.iter().for_each(|top| sources(&root().join(top), &mut files));
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    texts.flat_map(|text| declared(&text).collect::<Vec<_>>()).collect()
}

/// The first text of each `#[error(…)]` of a source.
fn declared(source: &str) -> impl Iterator<Item = String> {
    let ends = |text: &str| text.replace("\\\"", "”").split('"').nth(1).map(str::to_owned);
    source.split("#[error(").skip(1).filter_map(ends).map(|text| without_values(&text))
}

/// A message with `…` for each value, and for values that follow each other.
fn without_values(text: &str) -> String {
    let mut kept = String::new();
    let mut inside = false;
    for letter in text.chars() {
        match letter {
            '{' => inside = true,
            '}' => {
                inside = false;
                if !kept.ends_with(VALUE) {
                    kept.push(VALUE);
                }
            }
            _ if !inside => kept.push(letter),
            _ => {}
        }
    }
    kept
}

/// The first cell of each row, where it is code: what is said.
fn quoted(page: &Page) -> Vec<String> {
    let rows = page.text.lines().filter(|line| line.starts_with("| `"));
    let code = |row: &str| {
        pulldown_cmark::Parser::new(row.trim_start_matches('|').trim_start()).find_map(|event| match event {
            Event::Code(code) => Some(code.to_string()),
            _ => None,
        })
    };
    rows.filter_map(code).collect()
}

#[test]
fn errors_are_quoted_as_they_are_said() {
    let said = messages();
    let page = Page::read("docs/troubleshooting.md");
    let quoted = quoted(&page);
    let missing: Vec<_> = quoted.iter().filter(|message| !said.contains(message)).collect();
    assert!(quoted.len() > 40 && missing.is_empty(), "no error says {missing:#?}");
}

/// Each figure of a text that has its interval, as `2.27 (2.10 to 2.46)`.
fn intervals(text: &str) -> Vec<String> {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let mut found = Vec::new();
    for (before, after) in text.match_indices(" (").map(|(at, _)| (&text[..at], &text[at + 2..])) {
        let figure =
            before.rsplit(|letter: char| !(letter.is_ascii_digit() || letter == '.')).next().unwrap_or_default();
        let Some((low, high)) = after.split_once(')').and_then(|(inside, _)| inside.split_once(" to ")) else {
            continue;
        };
        if is_number(figure) && is_number(low) && is_number(high) {
            found.push(format!("{figure} ({low} to {high})"));
        }
    }
    found
}

#[test]
fn figures_with_intervals_are_those_of_the_benchmarks() {
    let measured = Page::read("docs/benchmarks.md").text.replace("x (", " (").replace('\n', " ");
    for (page, least) in [("docs/faq.md", 4), ("docs/promises.md", 4), ("README.md", 0)] {
        let figures = intervals(&Page::read(page).text);
        assert!(figures.len() >= least, "{page} has {figures:?}");
        for figure in figures {
            assert!(measured.contains(&figure), "{page}: docs/benchmarks.md has no {figure}");
        }
    }
}

#[test]
fn an_interval_belongs_to_the_figure_before_it() {
    let text = "made 2.27 (2.10 to 2.46) and 3x (1 to 2), not 5 (of 6) or (1 to 2)";
    assert_eq!(intervals(text), ["2.27 (2.10 to 2.46)"]);
}

#[test]
fn a_message_is_found_in_a_source_without_its_values() {
    let source = "#[error(\"`{a}` is {}, not {limit}{b}\", x)] #[error(transparent)] #[error(\n \"gone\")]";
    assert_eq!(declared(source).collect::<Vec<_>>(), ["`…` is …, not …", "gone"]);
}

#[test]
fn the_quick_start_shows_lines_of_its_program() {
    let program = std::fs::read_to_string(root().join("docs/ask.py")).unwrap();
    let page = Page::read("docs/quick-start.md");
    let block = page.blocks().into_iter().find(|block| block.text.contains("from openai")).unwrap();
    let strange = |line: &&str| !program.contains(line.trim().trim_end_matches(')'));
    // The address is written out there, and taken from the environment here.
    let strange: Vec<&str> = block.text.lines().filter(strange).filter(|line| !line.contains("base_url")).collect();
    assert!(strange.is_empty(), "docs/ask.py has no {strange:?}");
}
