//! Figures as tables, for those who have no terminal.

use espalier_command::report::table;

use super::cells::{self, HEADER};
use super::figures::Figures;

/// Prints one reading.
pub(super) fn print(figures: &Figures) {
    anstream::println!("{}", cells::gateway(&figures.gateway).join("\n"));
    for (title, services) in [("target", &figures.targets), ("drafter", &figures.drafters)] {
        if !services.is_empty() {
            anstream::println!("{}", table(&header(title), services.iter().flat_map(cells::rows)));
        }
    }
}

/// The columns of a table whose first one has this title.
pub(super) fn header(title: &'static str) -> Vec<&'static str> {
    [title].into_iter().chain(HEADER).collect()
}
