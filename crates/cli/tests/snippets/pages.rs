//! What else the pages say that can be checked: links, paths, flags, and how long their lines are.

use std::path::Path;

use clap::CommandFactory;

use crate::markdown::{Page, root};

/// The longest line of prose, in characters.
const LINE_MAX: usize = 120;

/// What is wrong with a link of a page, if it leads to a file of this repository.
fn broken(page: &Page, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = page.path.parent().unwrap();
    let path = if path.is_empty() { page.path.clone() } else { folder.join(path) };
    let found = match path.extension() {
        Some(extension) if extension == "md" && !anchor.is_empty() => {
            root().join(&path).is_file() && Page::read(path).anchors().iter().any(|found| found == anchor)
        }
        _ => root().join(path).exists(),
    };
    (!found).then(|| format!("{}: `{link}` leads nowhere", page.path.display()))
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let pages = Page::everywhere();
    let faults = pages.iter().flat_map(|page| page.links().into_iter().filter_map(|link| broken(page, &link)));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    let summary = Page::read("docs/SUMMARY.md");
    let full = |path: &Path| root().join(path).canonicalize().unwrap();
    let mut named: Vec<_> = summary.links().iter().map(|link| full(&Path::new("docs").join(link))).collect();
    let pages = Page::everywhere().into_iter().filter(|page| page.path != summary.path);
    let mut there: Vec<_> = pages.map(|page| full(&page.path)).collect();
    named.sort();
    there.sort();
    assert_eq!(named, there, "of docs/SUMMARY.md, and the pages there are");
}

#[test]
fn lines_of_prose_have_at_most_120_characters() {
    for page in Page::all() {
        let mut fenced = false;
        for (i, line) in page.text.lines().enumerate() {
            fenced ^= line.starts_with("```");
            let long = line.chars().count() > LINE_MAX && !fenced && !line.starts_with('|');
            assert!(!long, "{}:{}: {} characters", page.path.display(), i + 1, line.chars().count());
        }
    }
}

#[test]
fn the_glossary_names_paths_that_exist() {
    let glossary = Page::read("docs/glossary.md");
    let last = glossary.text.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.rsplit('|').nth(1));
    let paths = last.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|word| word.contains(['/', '-']));
    let gone: Vec<&str> = paths.filter(|path| !path.contains([' ', '*']) && !root().join(path).exists()).collect();
    assert!(gone.is_empty(), "the glossary names {gone:?}");
}

#[test]
fn every_flag_of_a_service_has_its_line() {
    let page = Page::read("deploy/README.md");
    let commands =
        [espalier_verifier::Args::command(), espalier_drafter::Args::command(), espalier_gateway::Args::command()];
    for command in commands {
        for flag in command.get_arguments().filter_map(|arg| arg.get_long()).filter(|flag| *flag != "help") {
            // With a value behind it, or without one.
            let told = [" ", "`"].iter().any(|end| page.text.contains(&format!("| `--{flag}{end}")));
            let told = told || flag == "version";
            assert!(told, "deploy/README.md does not tell of --{flag} of {}", command.get_name());
        }
    }
}

/// The cells of the rows of `docs/algorithms.md` that begin with a file of the gate or of the cost model.
fn tuned() -> Vec<[String; 3]> {
    let page = Page::read("docs/algorithms.md");
    let rows = page.text.lines().filter(|line| line.starts_with("| `gate/") || line.starts_with("| `cost/"));
    rows.map(|row| [1, 2, 3].map(|cell| row.split('|').nth(cell).unwrap().trim().replace('`', ""))).collect()
}

/// The sources of the gate and of the cost model, by their names in the table.
fn tuned_sources() -> Vec<(String, String)> {
    let of = |folder: &str| {
        let entries = std::fs::read_dir(root().join("crates/speculation/src").join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with("tests.rs"));
        let named = |path: std::path::PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (format!("{folder}/{name}"), std::fs::read_to_string(&path).unwrap())
        };
        paths.map(named).collect::<Vec<_>>()
    };
    [of("gate"), of("cost")].concat()
}

/// The name and the value of a constant that a line declares.
fn constant(line: &str) -> Option<[&str; 2]> {
    let line = line.trim_start_matches("pub(super) ").trim_start_matches("pub ").strip_prefix("const ")?;
    let (name, value) = (line.split(':').next()?, line.split(" = ").nth(1)?.trim_end_matches(';'));
    Some([name, if name == "SIZES" { "16 sizes" } else { value }])
}

#[test]
fn the_tuned_numbers_are_those_of_the_code() {
    /// The sizes whose cost is tracked, what follows from them, and the most points of a curve.
    const DERIVED: [&str; 7] = ["SIZES", "POINTS", "PARTS", "FACTOR", "OWN", "NODES_MAX", "CURVE_POINTS_MAX"];
    let mut declared = Vec::new();
    for (file, code) in tuned_sources() {
        let constants = code.lines().filter_map(constant).filter(|[name, _]| !DERIVED.contains(name));
        declared.extend(constants.map(|[name, value]| [file.clone(), name.to_owned(), value.to_owned()]));
    }
    let mut told = tuned();
    declared.sort();
    told.sort();
    assert_eq!(declared, told, "of the code, and of docs/algorithms.md");
    assert!(Page::read("docs/algorithms.md").text.contains(&format!("There are {}, ", told.len())));
}
