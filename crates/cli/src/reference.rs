//! docs/reference has a page for each program, made of the very definitions that read its arguments.
//!
//! `ESPALIER_BLESS=1 cargo test -p espalier reference` writes them.

use std::fmt::Write;
use std::io;
use std::path::Path;

use clap::builder::{PossibleValue, StyledStr};
use clap::{Arg, Command, CommandFactory};

use crate::command_line::Args;

/// What is written into, and not read from, the pages when it is set.
const BLESS: &str = "ESPALIER_BLESS";

const MADE: &str = "This page is made of the definitions that the program reads its arguments by; a test holds it \
                    against them.";

/// What clap adds to each command.
const EVERYWHERE: [&str; 2] = ["help", "version"];

/// All programs, with what comes before their arguments.
fn programs() -> [(Command, &'static str); 4] {
    const SERVICE: &str = "[Running the services](../../deploy/README.md) explains what goes together.";
    [
        (Args::command(), "[The command line](../command-line.md) shows what each command is for."),
        (espalier_gateway::Args::command(), SERVICE),
        (espalier_drafter::Args::command(), SERVICE),
        (espalier_verifier::Args::command(), SERVICE),
    ]
}

/// Text as a cell of a table holds it, on one line.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Text of a page, in lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 120 => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text))
}

/// How an argument is written: `--flag VALUE`, or `VALUE` where its place tells what it is.
fn written(arg: &Arg) -> String {
    let flag = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    if !arg.get_action().takes_values() {
        return code(&flag);
    }
    let names = arg.get_value_names().into_iter().flatten().map(|name| name.as_str());
    let possible = arg.get_possible_values();
    let values = match possible.as_slice() {
        [] => names.collect::<Vec<_>>().join(" "),
        all => all.iter().map(PossibleValue::get_name).collect::<Vec<_>>().join("|"),
    };
    code(format!("{flag} {values}").trim())
}

fn default(arg: &Arg) -> String {
    let values: Vec<&str> = arg.get_default_values().iter().filter_map(|value| value.to_str()).collect();
    match (arg.is_required_set(), arg.get_action().takes_values()) {
        (true, _) => "required".to_owned(),
        (false, true) if !values.is_empty() => code(&values.join(",")),
        _ => "–".to_owned(),
    }
}

fn row(arg: &Arg) -> String {
    let env = arg.get_env().map_or("–".to_owned(), |name| code(&name.to_string_lossy()));
    let help = arg.get_help().map(StyledStr::to_string).unwrap_or_default();
    format!("| {} | {env} | {} | {} |", written(arg), default(arg), cell(help.trim_end_matches('.')))
}

/// The table of a command's arguments but for those that every command has; nothing where there are none.
fn table(command: &Command, known: &[&str]) -> String {
    let own = |arg: &&Arg| !known.contains(&arg.get_id().as_str()) && !arg.is_hide_set();
    let rows: Vec<String> = command.get_arguments().filter(own).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("| argument | environment | default | |\n|---|---|---|---|\n{}\n\n", rows.join("\n"))
}

/// What a command says of itself: all of it, where there is more than one sentence.
fn about(command: &Command) -> String {
    let said = command.get_long_about().or_else(|| command.get_about()).map(StyledStr::to_string).unwrap_or_default();
    let sentences = |text: &str| if text.ends_with('.') { text.to_owned() } else { format!("{text}.") };
    said.split("\n\n").map(|text| wrapped(&sentences(text))).collect::<Vec<_>>().join("\n\n")
}

/// A section for each command below `command`, and for those below them.
fn sections(command: &Command, path: &str, known: &[&str], page: &mut String) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set()) {
        let path = format!("{path} {}", below.get_name());
        let _ = write!(page, "## `{path}`\n\n{}\n\n{}", about(below), table(below, known));
        sections(below, &path, known, page);
    }
}

fn page(mut command: Command, before: &str) -> String {
    // Fills in what follows from the definitions: actions, and names of values.
    command.build();
    let name = command.get_name().to_owned();
    let mut page = format!("# `{name}`\n\n{}\n\n{before}\n{MADE}\n\n", about(&command));
    if command.has_subcommands() {
        page.push_str("## With every command\n\n");
    }
    page.push_str(&table(&command, &EVERYWHERE));
    let global = command.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.get_id().as_str());
    let known: Vec<&str> = EVERYWHERE.into_iter().chain(global).collect();
    sections(&command, &name, &known, &mut page);
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(page, "{}", wrapped(&after.to_string()));
    }
    format!("{}\n", page.trim_end())
}

#[test]
fn the_pages_are_those_of_the_definitions() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (command, before) in programs() {
        let file = folder.join(format!("{}.md", command.get_name()));
        let expected = page(command, before);
        if std::env::var_os(BLESS).is_some() {
            std::fs::write(&file, &expected)?;
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
        assert!(found == expected, "{}: {differs:?}; {BLESS}=1 writes it anew", file.display());
    }
    Ok(())
}

#[test]
fn an_argument_is_shown_with_all_that_is_known_of_it() {
    let arg = Arg::new("size").long("size").value_name("A|B").env("SIZE").default_value("A").help("How\nlarge.");
    let mut command = Command::new("x").arg(arg).arg(Arg::new("folder").required(true).value_name("DIR"));
    command.build();
    assert_eq!(table(&command, &["size", "help"]).lines().count(), 4, "head, rule, a row, and an empty line");
    assert_eq!(
        command.get_arguments().take(2).map(row).collect::<Vec<_>>(),
        ["| `--size A\\|B` | `SIZE` | `A` | How large |", "| `DIR` | – | required |  |"]
    );
}
