//! `espalier bench policies`: every drafter under every policy, next to plain decoding, prompt by prompt in one run.
//!
//! One system is started with the target and all drafters. Each prompt is answered by plain decoding and by every arm (a
//! drafter under a policy) in turns, in an order that changes from prompt to prompt, so that a machine that slows down
//! slows down all alike. Texts are compared with plain decoding's.

mod args;
mod arms;
mod chart;
mod compare;
mod figures;
mod labelled;
mod speedup;
mod tables;

use espalier_client::Client;
use espalier_command::{CommandError, Decoding, Form, Verdict, report, request, start};
use espalier_local::{DrafterChoice, Plan, SystemArgs};
use serde::Serialize;

use self::arms::Arm;
use self::compare::{Bench, Compared, Skipped};
use self::labelled::Group;
use crate::error::BenchError;

pub use args::Policies;

/// What could not be measured, as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum SkippedLine<'a> {
    Arm { drafter: &'a str, policy: &'a str, skipped: &'a str },
    Prompt { label: &'a str, skipped: &'a str },
}

pub(crate) async fn run(system: &SystemArgs, args: &Policies) -> Result<Verdict, BenchError> {
    // What is wrong with the request is said before anything is loaded.
    let groups = labelled::read(&args.prompts, args.limit.get())?;
    let policies = arms::policies(&args.policies).map_err(CommandError::from)?;
    let drafters = DrafterChoice::parse_all(&args.drafter, system)?;
    let decoding = Decoding::of(args.answers);
    request(&args.target, "", Form::Chat, &decoding)?;
    let arms = Arm::all(&drafters, &policies);

    let plan = Plan::new(&[&args.target], &drafters, system)?;
    let target = plan.targets().into_iter().next().unwrap_or_default();
    let running = start(plan).await?;
    let mut bench = Bench { client: Client::new(running.gateway())?, target, decoding };
    let compared = compare(&mut bench, arms, &groups).await;
    running.stop().await?;
    let compared = compared?;

    print(&compared, args.json);
    if let Some(path) = &args.plot {
        report::write(path, &chart::chart(&compared.groups)?)?;
    }
    Ok(compared.identical().into())
}

/// Compares under a bar that shows the time left.
async fn compare(bench: &mut Bench, arms: Vec<Arm>, groups: &[Group]) -> Result<Compared, BenchError> {
    let bar = report::progress(0, "answers");
    let compared = bench.compare(arms, groups, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    let compared = compared.await;
    bar.finish_and_clear();
    compared
}

fn print(compared: &Compared, json: bool) {
    if !json {
        return tables::print(compared);
    }
    compared.groups.iter().flatten().for_each(report::json);
    for Skipped { what: arm, why } in &compared.skipped_arms {
        report::json(&SkippedLine::Arm { drafter: &arm.drafter, policy: arm.policy(), skipped: why });
    }
    for Skipped { what: label, why } in &compared.skipped_prompts {
        report::json(&SkippedLine::Prompt { label, skipped: why });
    }
}
