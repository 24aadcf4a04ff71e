//! What is planned, as tables.

use espalier_command::report::{figure, table};
use espalier_planner::{Report, Scenario, ServiceReport, Sizing, Spread, TargetReport, Worth};

use super::planned::Planned;

const TARGETS: [&str; 10] = [
    "target",
    "requests",
    "refused",
    "tokens/s",
    "tau",
    "drafted",
    "first token p50 / p95 ms",
    "token p50 / p95 ms",
    "verifiers",
    "rows a pass",
];

const SERVICES: [&str; 6] = ["service", "how many", "busy", "the busiest", "rows a pass", "filled"];

pub(super) fn print(scenario: &Scenario, planned: &Planned) {
    print_report(&planned.report);
    if let Some(needed) = &planned.needed {
        sizing("with drafters", scenario, needed.drafted.as_ref());
        sizing("without", scenario, needed.plain.as_ref());
    }
    if !planned.worth.is_empty() {
        worth(scenario, &planned.worth);
    }
}

fn print_report(found: &Report) {
    anstream::println!("{}", table(&TARGETS, found.targets.iter().map(target)));
    let verifiers = found.targets.iter().map(|target| &target.verifiers);
    anstream::println!("{}", table(&SERVICES, verifiers.chain(&found.drafters).map(service)));
    let (seconds, all) = (found.seconds, found.tokens_per_second);
    anstream::println!("{all:.0} tokens/s in all; {seconds:.1} s were simulated, {} events", found.events);
}

fn target(found: &TargetReport) -> Vec<String> {
    vec![
        found.name.clone(),
        found.requests.to_string(),
        (found.refused + found.failed).to_string(),
        format!("{:.0}", found.tokens_per_second),
        figure(found.tau, 2),
        figure(found.drafted.map(|share| 100.0 * share), 0) + " %",
        spread(found.first_token_ms),
        spread(found.token_ms),
        found.verifiers.count.to_string(),
        format!("{:.1}", found.verifiers.rows),
    ]
}

fn service(found: &ServiceReport) -> Vec<String> {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    vec![
        found.name.clone(),
        found.count.to_string(),
        percent(found.utilisation),
        percent(found.busiest),
        format!("{:.1}", found.rows),
        percent(found.filled),
    ]
}

fn sizing(how: &str, scenario: &Scenario, found: Option<&Sizing>) {
    let Some(Sizing { drafters, verifiers, services, report }) = found else {
        return anstream::println!("{how}: no number of services that was tried keeps to the goals");
    };
    let named = |name: &str, count: &usize| format!("{count} {name}");
    let pools = scenario.drafters.iter().zip(drafters).map(|(pool, count)| named(&pool.name, count));
    let targets = scenario.targets.iter().zip(verifiers).map(|(target, count)| named(&target.name, count));
    let drafters = if drafters.is_empty() { String::new() } else { format!(", drafters: {}", join(pools)) };
    anstream::println!("{how}: {services} services keep to the goals; verifiers: {}{drafters}", join(targets));
    anstream::println!("{}", table(&TARGETS, report.targets.iter().map(target)));
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// A row for each load, a column for each target; then where drafting stops paying.
fn worth(scenario: &Scenario, found: &[Worth]) {
    let names: Vec<&str> = scenario.targets.iter().map(|target| target.name.as_str()).collect();
    let header: Vec<&str> = ["load"].into_iter().chain(names.iter().copied()).collect();
    let row = |worth: &Worth| {
        let gains = worth.gain.iter().map(|gain| figure(*gain, 2) + "x");
        let full = if worth.is_over { " (full)" } else { "" };
        [format!("{}x{full}", worth.load)].into_iter().chain(gains).collect()
    };
    anstream::println!("{}", table(&header, found.iter().map(row)));
    for (target, name) in names.iter().enumerate() {
        let most = found.iter().rev().find(|worth| worth.pays(target));
        match most {
            None => anstream::println!("{name}: drafting pays at none of these loads"),
            Some(worth) => anstream::println!("{name}: drafting pays up to {}x of this load", worth.load),
        }
    }
}

fn spread(found: Option<Spread>) -> String {
    found.map_or_else(|| "-".to_owned(), |found| format!("{:.1} / {:.1}", found.p50, found.p95))
}
