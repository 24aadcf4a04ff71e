//! What people see: marks, tables, JSON lines and progress.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::error::CommandError;

/// What is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What works, but should not stay so.
pub const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
/// What is not as it should be.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Tokens that a drafter had proposed.
pub const DRAFTED: Style = AnsiColor::Green.on_default();
/// Tokens that a target added to a round.
pub const ADDED: Style = AnsiColor::Blue.on_default();
/// What is said beside the point.
pub const FAINT: Style = Style::new().dimmed();

/// Text in a style; the style is left out where it cannot be shown.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Whether something is as it should be.
pub fn mark(good: bool) -> String {
    if good { styled(GOOD, "ok  ") } else { styled(BAD, "FAIL") }
}

/// `yes` or `NO`, for a cell of a table.
pub fn yes(good: bool) -> String {
    if good { "yes" } else { "NO" }.to_owned()
}

/// An error and its causes in one line.
pub fn failure(error: &dyn Error) -> String {
    format!("{} {}", styled(BAD, "error:"), espalier_service_kit::chain(error))
}

/// One JSON object on a line of its own.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(line) => anstream::println!("{line}"),
        // Our own values always have a JSON form.
        Err(error) => anstream::eprintln!("cannot be written as JSON: {error}"),
    }
}

/// A table with a header; numbers to the right.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A bar over `length` steps that shows the time left; nothing where no person looks on.
pub fn progress(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what.to_owned());
    let style = ProgressStyle::with_template("{msg:24} {wide_bar:.cyan/blue} {pos}/{len} {eta:>4}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A figure with `digits` decimals, a dash where there is none.
pub fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Writes a file, whatever was in it before.
///
/// # Errors
/// [`CommandError::Write`], which names the file.
pub fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    std::fs::write(path, text).map_err(|source| CommandError::Write { path: path.to_owned(), source })
}
