//! The figures as tables: one like the papers' with a group of columns for each label, and one a label with the rest.

use comfy_table::Table;
use espalier_command::report::{self, figure};

use super::compare::{Compared, Skipped};
use super::figures::Figures;

/// Prints all that was found.
pub(super) fn print(compared: &Compared) {
    anstream::println!("{}", overview(&compared.groups));
    for group in &compared.groups {
        if let Some(plain) = group.first() {
            anstream::println!("\n{}, n = {} prompts; times are milliseconds a round", plain.label, plain.prompts);
        }
        anstream::println!("{}", details(group));
    }
    for Skipped { what: arm, why } in &compared.skipped_arms {
        anstream::println!("skipped {} with {}: {why}", arm.policy(), arm.drafter);
    }
    for Skipped { what: label, why } in &compared.skipped_prompts {
        anstream::println!("left out a prompt of {label}: {why}");
    }
}

/// Speed-up with its interval, alpha and tau of every arm on every label.
fn overview(groups: &[Vec<Figures>]) -> Table {
    let labels = groups.iter().filter_map(|group| group.first()).map(|plain| plain.label.as_str());
    let columns = labels.flat_map(|label| {
        [format!("{label}\nspeed-up"), "\n95 % interval".to_owned(), "\nalpha".to_owned(), "\ntau".to_owned()]
    });
    let header: Vec<String> = ["\ndrafter", "\npolicy"].map(str::to_owned).into_iter().chain(columns).collect();
    let arms = groups.first().map_or(0, Vec::len);
    let rows = (0..arms).map(|arm| {
        let of_arm: Vec<&Figures> = groups.iter().filter_map(|group| group.get(arm)).collect();
        let names = of_arm.first().map(|figures| [figures.drafter.clone(), figures.policy.clone()]);
        names.into_iter().flatten().chain(of_arm.into_iter().flat_map(essentials)).collect()
    });
    table(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows)
}

fn essentials(figures: &Figures) -> [String; 4] {
    let interval = figures.speedup_low.zip(figures.speedup_high);
    [
        figures.speedup.map_or_else(|| "-".to_owned(), |speedup| format!("{speedup:.2}x")),
        interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.2}-{high:.2}")),
        figure(figures.alpha, 2),
        figure(figures.tau, 2),
    ]
}

const DETAILS: [&str; 13] = [
    "drafter",
    "policy",
    "efficiency",
    "v_d",
    "r_d",
    "HM",
    "nodes",
    "depth",
    "draft",
    "verify",
    "wait",
    "tokens/s",
    "same text",
];

fn details(group: &[Figures]) -> Table {
    let row = |figures: &Figures| {
        let shares = [figures.draft_efficiency, figures.v_d, figures.r_d, figures.hm].map(|share| figure(share, 2));
        let sizes = [figures.mean_nodes, figures.mean_depth].map(|size| figure(size, 1));
        let times = figures.round_ms().map(|ms| figure(ms, 2));
        let names = [figures.drafter.clone(), figures.policy.clone()];
        let last = [figure(figures.tokens_per_second, 0), same_text(figures)];
        names.into_iter().chain(shares).chain(sizes).chain(times).chain(last).collect()
    };
    table(&DETAILS, group.iter().map(row))
}

/// Without style: a table's columns are as wide as their bytes.
fn same_text(figures: &Figures) -> String {
    if figures.different == 0 { "yes".to_owned() } else { format!("NO: {}", figures.different) }
}

/// A table whose policies stand to the left, as drafters do.
fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = report::table(header, rows);
    if let Some(policies) = table.column_mut(1) {
        policies.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    table
}
