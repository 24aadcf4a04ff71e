//! `docs/telemetry.md` has a row for each metric of the catalogue, in its order, and no other.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use espalier_metrics::catalogue::ALL;
use espalier_metrics::{Kind, Metric};

/// What the page says of a metric.
fn row(metric: &Metric) -> String {
    let label = |label: &&str| format!("`{}`", label.replace('.', "_"));
    let labels: Vec<String> = metric.labels.iter().map(label).collect();
    let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    let (name, text) = (metric.prometheus_name(), metric.help);
    format!("| `{name}` | `{}` | {kind}, {} | {labels} | {text} |", metric.name, metric.unit.ucum())
}

#[test]
fn the_page_has_the_rows_of_the_catalogue() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/telemetry.md");
    let text = std::fs::read_to_string(page).unwrap();
    let is_row =
        |line: &&str| ["| `espalier_", "| `gen_ai_", "| `process_"].iter().any(|start| line.starts_with(start));
    let found: Vec<&str> = text.lines().filter(is_row).collect();
    let expected: Vec<String> = ALL.iter().map(|metric| row(metric)).collect();
    assert!(found == expected, "docs/telemetry.md should have these rows:\n{}", expected.join("\n"));
}
