//! The figures as tables: what clients see, and where the time goes.

use comfy_table::Table;
use espalier_command::report::{figure, table};

use super::figures::Figures;
use crate::statistics::Spread;

const SEEN: [&str; 9] = [
    "",
    "requests",
    "refused",
    "tokens/s",
    "to plain",
    "between",
    "first token (ms)\np50 / p95 / p99",
    "a token (ms)\np50 / p95 / p99",
    "same text",
];

const SPENT: [&str; 9] =
    ["", "tau", "nodes", "draft (ms)", "verify (ms)", "wait (ms)", "verifying", "in a pass", "peak (MiB)"];

/// Prints all that was found; the figures of one level follow each other.
pub(super) fn print(found: &[Figures]) {
    anstream::println!("{}", table(&SEEN, found.iter().map(seen)));
    anstream::println!("\nof a round:\n{}", spent(found));
    for shared in found {
        if let (Some(ratio), Some(low), Some(high)) = (shared.to_each, shared.to_each_low, shared.to_each_high) {
            let name = name(shared);
            anstream::println!(
                "{name}: {ratio:.2}x the tokens/s of one drafter for each target (between {low:.2} and {high:.2})"
            );
        }
    }
    print_unanswered(found);
}

/// Prints what was refused, came late or failed.
fn print_unanswered(found: &[Figures]) {
    for refused in found.iter().filter(|figures| figures.refused > 0) {
        let (name, spread) = (name(refused), spread(refused.refusal_ms.as_ref()));
        anstream::println!(
            "{name}: {} refused after {spread} ms, {} without a hint",
            refused.refused,
            refused.unhinted
        );
    }
    for figures in found.iter().filter(|figures| figures.late + figures.failed > 0) {
        let why = figures.failure.as_deref().unwrap_or("none");
        anstream::println!("{}: {} late, {} failed: {why}", name(figures), figures.late, figures.failed);
    }
}

fn name(figures: &Figures) -> String {
    let policy = if figures.policy == "-" { String::new() } else { format!(", {}", figures.policy) };
    match (figures.concurrency, figures.rate) {
        (Some(count), _) => format!("{count} at once, {}{policy}", figures.arm),
        (None, rate) => format!("{}/s, {}{policy}", rate.unwrap_or_default(), figures.arm),
    }
}

fn seen(figures: &Figures) -> Vec<String> {
    let between = figures.ratio_low.zip(figures.ratio_high);
    let same = if figures.different == 0 { "yes".to_owned() } else { format!("NO: {}", figures.different) };
    vec![
        name(figures),
        figures.finished.to_string(),
        figures.refused.to_string(),
        figure(figures.tokens_per_second, 0),
        figures.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x")),
        between.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.2}-{high:.2}")),
        spread(figures.first_token_ms.as_ref()),
        spread(figures.token_ms.as_ref()),
        same,
    ]
}

fn spent(found: &[Figures]) -> Table {
    let row = |figures: &Figures| {
        let times = [figures.draft_ms, figures.verify_ms, figures.wait_ms].map(|ms| figure(ms, 2));
        let peak = figures.peak_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
        let sizes = [name(figures), figure(figures.tau, 2), figure(figures.nodes, 1)];
        sizes
            .into_iter()
            .chain(times)
            .chain([figure(figures.verifying, 1), figure(figures.filled, 2), figure(peak, 0)])
            .collect()
    };
    table(&SPENT, found.iter().map(row))
}

fn spread(spread: Option<&Spread>) -> String {
    spread.map_or_else(|| "-".to_owned(), |Spread { p50, p95, p99 }| format!("{p50:.1} / {p95:.1} / {p99:.1}"))
}
