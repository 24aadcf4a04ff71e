//! `espalier plan`: how many drafters and verifiers a load needs.

mod calibrate;
mod costs;
mod planned;
mod reading;
mod tables;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use espalier_command::{Verdict, report};
use espalier_local::SystemArgs;
use espalier_planner::{Chance, Goals, Scenario, simulate};
use tokio::time::Instant;

use self::planned::{Needed, Planned};
use self::reading::read;
use crate::error::CliError;

/// The options of `espalier plan`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Plan {
    #[command(subcommand)]
    command: Option<Command>,
    /// The scenario: targets and drafters with what a pass costs them, lengths, acceptance, network, load and goals.
    #[arg(required = true, value_name = "SCENARIO.json")]
    scenario: Option<PathBuf>,
    /// Only these targets of the scenario.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    target: Vec<String>,
    /// What decides every draw: the same scenario and seed give the same report.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Only say what the scenario comes to: do not search for numbers of services, nor where drafting stops paying.
    #[arg(long)]
    quick: bool,
    /// Print JSON: one object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what passes cost, to be put into a scenario: measured here, or as `espalier bench kernels --json` told.
    Calibrate(calibrate::Calibrate),
}

pub(crate) fn run(system: &SystemArgs, args: &Plan) -> Result<Verdict, CliError> {
    match (&args.command, &args.scenario) {
        (Some(Command::Calibrate(calibrate)), _) => calibrate::run(system, calibrate),
        (None, Some(path)) => plan(args, path),
        (None, None) => Ok(Verdict::Good),
    }
}

fn plan(args: &Plan, path: &Path) -> Result<Verdict, CliError> {
    let scenario = only(Scenario::parse(&read(path)?)?, &args.target)?;
    let chance = Chance { seed: args.seed, epoch: Instant::now() };
    let report = simulate(&scenario, chance.seed, chance.epoch)?;
    let has_goals = scenario.goals != Goals::default() && !args.quick;
    let needed = has_goals.then(|| chance.size(&scenario)).transpose()?;
    let needed = needed.map(|[drafted, plain]| Needed { drafted, plain });
    let compared = !args.quick && !scenario.drafters.is_empty();
    let worth = if compared { chance.worth(&scenario)? } else { Vec::new() };
    let planned = Planned { report, needed, worth };
    if args.json {
        report::json(&planned);
    } else {
        tables::print(&scenario, &planned);
    }
    let keeps = planned.needed.as_ref().is_none_or(|needed| needed.drafted.is_some() || needed.plain.is_some());
    Ok(keeps.into())
}

/// The scenario with these targets alone, if any are named.
fn only(mut scenario: Scenario, names: &[String]) -> Result<Scenario, CliError> {
    if let Some(unknown) = names.iter().find(|name| !scenario.targets.iter().any(|target| target.name == **name)) {
        return Err(CliError::NoTarget { name: unknown.clone() });
    }
    if !names.is_empty() {
        scenario.targets.retain(|target| names.contains(&target.name));
        // A pool that is left with no target it serves is left out: without names it would serve all.
        scenario.drafters.retain_mut(|pool| {
            let serves_all = pool.serves.is_empty();
            pool.serves.retain(|name| names.contains(name));
            serves_all || !pool.serves.is_empty()
        });
    }
    scenario.check()?;
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const EXAMPLE: &str = include_str!("../../../docs/plan.json");

    #[test]
    fn the_example_is_read_and_cut_down_to_the_targets_that_are_named() {
        let scenario = Scenario::parse(EXAMPLE).unwrap();
        let first = scenario.targets[0].name.clone();
        let one = only(scenario.clone(), std::slice::from_ref(&first)).unwrap();
        assert_eq!(one.targets.iter().map(|target| &target.name).collect::<Vec<_>>(), [&first]);
        assert_eq!(only(scenario.clone(), &[]).unwrap(), scenario);
        let (mut others, second) = (scenario.clone(), scenario.targets[1].name.clone());
        others.drafters.iter_mut().for_each(|pool| pool.serves = vec![second.clone()]);
        assert!(only(others.clone(), std::slice::from_ref(&first)).unwrap().drafters.is_empty(), "none serves it");
        assert_eq!(only(others.clone(), &[second]).unwrap().drafters, others.drafters);
        let unknown = only(scenario, &["huge".to_owned()]).unwrap_err();
        assert_eq!(unknown.to_string(), "the scenario has no target `huge`");
    }
}
