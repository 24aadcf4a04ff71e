//! What README.md, those below clients and deploy, and the pages below docs show is true: their commands exist and those that
//! can be run are run. What they show in Python, `clients/python/test` and `tests/openai/run` run.
//!
//! Every code block is fenced and says what it is: `text`, `sh`, `python`. The word `no-run` beside it marks a block
//! that needs what this repository lacks (a large checkpoint, a data set) or takes too long; its commands are still
//! parsed by the real parsers. Run with `--nocapture` to see what was run and what was not.
#![allow(clippy::unwrap_used)]

mod check;
mod markdown;
mod pages;
mod protos;
mod quoted;
mod run;
mod shell;
mod stage;

use markdown::{Block, Page};
use shell::Command;
use stage::Stage;

/// The blocks of all pages in a language.
fn blocks(language: &str) -> Vec<Block> {
    Page::all().iter().flat_map(Page::blocks).filter(|block| block.language == language).collect()
}

/// The commands of a block.
fn commands(block: &Block) -> Vec<Command> {
    shell::commands(&block.text).unwrap_or_else(|fault| panic!("{block}: {fault}"))
}

#[test]
fn every_block_is_fenced_and_says_what_it_is() {
    for block in Page::all().iter().flat_map(Page::blocks) {
        let known = ["text", "sh", "python"].contains(&block.language.as_str());
        assert!(known, "{block}: a block is `text`, `sh` or `python`, not `{}`", block.language);
    }
}

#[test]
fn every_command_exists_with_all_its_flags() {
    let mut faults = Vec::new();
    for block in blocks("sh") {
        for command in commands(&block) {
            faults.extend(check::check(&command).err().map(|fault| format!("{block}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_can_be_run_runs() {
    let stage = Stage::set();
    let (mut ran, mut checked) = (0, 0);
    let shell = blocks("sh");
    let kept = shell.iter().filter(|block| !block.runs).count();
    for block in shell.iter().filter(|block| block.runs) {
        for command in commands(block) {
            match run::run(&command, &stage) {
                Ok(true) => ran += 1,
                Ok(false) => checked += 1,
                Err(fault) => panic!("{block}: {fault}"),
            }
        }
    }
    println!("{ran} commands ran, {checked} were only checked, {kept} blocks are marked no-run");
    assert!(ran > 0);
    stage.strike();
}
