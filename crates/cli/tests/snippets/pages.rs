//! What else the pages say that can be checked: links, paths, flags, and how long their lines are.

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
    let pages = Page::all();
    let faults = pages.iter().flat_map(|page| page.links().into_iter().filter_map(|link| broken(page, &link)));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
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
            let line = format!("| `--{flag} ");
            let told = page.text.contains(&line) || flag == "version";
            assert!(told, "deploy/README.md does not tell of --{flag} of {}", command.get_name());
        }
    }
}
