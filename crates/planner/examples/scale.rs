//! The simulations of docs/scale.md: `scale FOLDER` prints their tables and writes their plots.

use std::path::{Path, PathBuf};
use std::time::Instant;

use espalier_planner::{Closed, Load, Report, Scenario, TargetReport, simulate};
use plotters::prelude::*;

type Failure = Box<dyn std::error::Error>;

/// A target of 8 billion parameters on a GPU of its own, and a drafter of half a billion: orders of magnitude.
const BASE: &str = r#"{
    "targets": [{
        "name": "chat", "slots": 64,
        "curve": [[1, 8.0], [16, 8.4], [64, 9.5], [128, 13.0], [512, 48.0]], "context_us": 0.02,
        "acceptance": {"measured": {
            "by_depth": [0.79, 0.64, 0.50, 0.42, 0.37, 0.30, 0.26, 0.23], "by_width": [[1, 0.82], [2, 0.905], [4, 0.954]]
        }},
        "prompt": {"lognormal": {"median": 200, "sigma": 0.7, "max": 2000}},
        "answer": {"lognormal": {"median": 60, "sigma": 0.6, "max": 500}}, "max_tokens": 500
    }],
    "drafters": [{"name": "draft", "slots": 256, "curve": [[1, 0.9], [16, 1.0], [64, 1.3], [256, 3.0]]}],
    "load": {"closed": {"clients": 1, "seconds": 20, "start_seconds": 20, "think_ms": 30000, "warmup_seconds": 6}},
    "network": {"round_trip_ms": 0.3, "between_zones_ms": 1.0}
}"#;

fn main() -> Result<(), Failure> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs/plots".to_owned()));
    let wanted = std::env::args().nth(2);
    let wants = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    if wants("pool") {
        pool(&folder)?;
    }
    if wants("loss") {
        loss(&folder)?;
    }
    if wants("zone") {
        zone(&folder)?;
    }
    if wants("large") {
        large()?;
    }
    Ok(())
}

/// So many targets of one verifier each, and clients of which each asks once in 20 seconds.
fn base(targets: usize, clients: usize) -> Result<Scenario, Failure> {
    let mut scenario = Scenario::parse(BASE)?;
    scenario.targets[0].copies = targets;
    scenario.gateways.count = clients.div_ceil(1000);
    if let Load::Closed(closed) = &mut scenario.load {
        *closed = Closed { clients, ..*closed };
    }
    Ok(scenario)
}

fn run(scenario: &Scenario) -> Result<Report, Failure> {
    Ok(simulate(scenario, 1, tokio::time::Instant::now())?)
}

fn drafters(scenario: &Scenario, count: usize, each: bool) -> Scenario {
    let mut changed = scenario.clone();
    match count {
        0 => changed.drafters.clear(),
        count => (changed.drafters[0].count, changed.drafters[0].each) = (count, each),
    }
    changed
}

fn row(name: &str, report: &Report) -> TargetReport {
    let target = report.targets[0].clone();
    let (busy, rows) = report.drafters.first().map_or((0.0, 0.0), |pool| (pool.utilisation, pool.rows));
    let spread = |spread: Option<espalier_planner::Spread>| spread.map_or(f64::NAN, |spread| spread.p95);
    println!(
        "| {name} | {:.0} | {:.2} | {:.0} % | {:.0} | {:.1} | {:.0} % | {:.0} % | {rows:.1} | {} |",
        report.tokens_per_second,
        target.tau.unwrap_or(f64::NAN),
        100.0 * target.drafted.unwrap_or(0.0),
        spread(target.first_token_ms),
        spread(target.token_ms),
        100.0 * target.verifiers.utilisation,
        100.0 * busy,
        target.refused + target.failed,
    );
    target
}

fn header(first: &str) {
    println!(
        "\n| {first} | tokens/s | tau | drafted | first token p95 ms | token p95 ms | verifiers busy | drafters busy | rows | lost |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
}

fn token_p50(target: &TargetReport) -> f64 {
    target.token_ms.map_or(0.0, |spread| spread.p50)
}

/// One pool for many targets against a drafter for each.
fn pool(folder: &Path) -> Result<(), Failure> {
    let scenario = base(100, 10_000)?;
    header("drafters for 100 targets, 10 000 clients");
    let plain = token_p50(&row("none", &run(&drafters(&scenario, 0, false))?));
    let mut points = Vec::new();
    for count in [2, 4, 8, 16, 32] {
        let target = row(&format!("{count}, shared"), &run(&drafters(&scenario, count, false))?);
        points.push((count as f64, token_p50(&target)));
    }
    let mut always = drafters(&scenario, 32, false);
    "expected-gain,gate=off".clone_into(&mut always.targets[0].policy);
    row("32, shared, always drafting", &run(&always)?);
    let each = token_p50(&row("100, one each", &run(&drafters(&scenario, 1, true))?));
    points.push((100.0, each));
    let lines = [
        Line { name: "one pool (the last: one each)", points },
        Line { name: "plain decoding", points: vec![(0.0, plain), (100.0, plain)] },
    ];
    plot(&folder.join("pool.svg"), "One pool for 100 targets", ["drafters", "median ms a token"], &lines)
}

/// Drafters are lost and come back.
fn loss(folder: &Path) -> Result<(), Failure> {
    let mut scenario = drafters(&base(50, 6000)?, 16, false);
    if let Load::Closed(closed) = &mut scenario.load {
        (closed.seconds, closed.start_seconds) = (Some(24.0), Some(24.0));
    }
    header("drafters lost from 12 s to 18 s, of 16");
    let mut lines = Vec::new();
    for (name, count) in [("none", 0), ("half", 8), ("all", 16)] {
        let failure = format!(r#"[{{"drafters": "draft", "count": {count}, "at_seconds": 12, "until_seconds": 18}}]"#);
        let mut lost = scenario.clone();
        lost.failures = if count == 0 { Vec::new() } else { serde_json::from_str(&failure)? };
        let target = row(name, &run(&lost)?);
        let seconds = target.timeline.iter().take(24).enumerate();
        lines.push(Line { name, points: seconds.map(|(at, &tokens)| (at as f64, tokens as f64)).collect() });
    }
    plot(&folder.join("loss.svg"), "Drafters are lost from 12 s to 18 s", ["seconds", "tokens in the second"], &lines)
}

/// The drafters are in a zone that is so far away.
fn zone(folder: &Path) -> Result<(), Failure> {
    let scenario = base(20, 2000)?;
    header("round trip between drafters and verifiers, 20 targets, 4 drafters");
    let plain = token_p50(&row("plain", &run(&drafters(&scenario, 0, false))?));
    let mut points = Vec::new();
    for ms in [0.3, 2.0, 5.0, 10.0, 20.0, 40.0] {
        let mut far = drafters(&scenario, 4, false);
        "far".clone_into(&mut far.drafters[0].zone);
        far.network.between_zones_ms = ms;
        let target = row(&format!("{ms} ms"), &run(&far)?);
        points.push((ms, token_p50(&target)));
    }
    let lines = [
        Line { name: "drafters in the far zone", points },
        Line { name: "plain decoding", points: vec![(0.0, plain), (40.0, plain)] },
    ];
    plot(&folder.join("zone.svg"), "A slow zone", ["round trip, ms", "median ms a token"], &lines)
}

/// A thousand targets and a hundred thousand clients.
fn large() -> Result<(), Failure> {
    let scenario = base(1000, 100_000)?;
    header("drafters for 1000 targets, 100 000 clients");
    for (name, count, each) in [("none", 0, false), ("160, shared", 160, false), ("1000, one each", 1, true)] {
        let begun = Instant::now();
        let report = run(&drafters(&scenario, count, each))?;
        row(name, &report);
        eprintln!("{name}: {} events in {:.0} s", report.events, begun.elapsed().as_secs_f64());
    }
    Ok(())
}

struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// Draws lines over two axes that begin at 0.
fn plot(path: &Path, title: &str, axes: [&str; 2], lines: &[Line]) -> Result<(), Failure> {
    let greatest = |value: fn(&(f64, f64)) -> f64| {
        1.05 * lines.iter().flat_map(|line| &line.points).map(value).fold(1e-9, f64::max)
    };
    let root = SVGBackend::new(path, (560, 340)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder.caption(title, ("sans-serif", 18)).margin(12).x_label_area_size(36).y_label_area_size(56);
    let mut chart = builder.build_cartesian_2d(0.0..greatest(|point| point.0), 0.0..greatest(|point| point.1))?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc(axes[0]).y_desc(axes[1]).draw()?;
    for (line, colour) in lines.iter().zip([RGBColor(0, 114, 178), RGBColor(230, 159, 0), RGBColor(0, 158, 115)]) {
        let points = line.points.iter().copied();
        chart.draw_series(points.clone().map(|point| Circle::new(point, 3, colour.filled())))?;
        let drawn = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        drawn.label(line.name).legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    let mut legend = chart.configure_series_labels();
    legend.position(SeriesLabelPosition::LowerRight).background_style(WHITE.mix(0.8)).draw()?;
    Ok(root.present()?)
}
