//! What is compared under load: plain decoding, one drafter for all targets, and one for each.

use espalier_drafter::Config as DrafterConfig;
use espalier_local::Plan;
use espalier_speculation::parse_policy;

use crate::args::{Load, SystemArgs};
use crate::error::CliError;
use crate::models::DrafterChoice;
use crate::system;
use crate::unique::unique;

/// The arm of one drafter for all targets.
pub(super) const SHARED: &str = "shared";

/// The arm of one drafter for each target.
pub(super) const EACH: &str = "each";

/// A way to answer requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arm {
    pub(super) name: &'static str,
    /// How requests name the drafter of each target.
    pub(super) drafters: Vec<String>,
    /// None where trees are not grown, or by the gateway's own policy.
    pub(super) policy: Option<String>,
}

impl Arm {
    /// The drafters, each once.
    pub(super) fn drafter(&self) -> String {
        let is_first = |(i, name): &(usize, &String)| !self.drafters[..*i].contains(name);
        let names: Vec<&str> =
            self.drafters.iter().enumerate().filter(is_first).map(|(_, name)| name.as_str()).collect();
        names.join(", ")
    }
}

/// The system that all arms need, its targets by name, and the arms, plain decoding first.
pub(super) fn arms(args: &Load, places: usize, system: &SystemArgs) -> Result<(Plan, Vec<String>, Vec<Arm>), CliError> {
    unique("target", args.targets.iter().map(String::as_str))?;
    args.policy.as_deref().map(parse_policy).transpose()?;
    let shared = DrafterChoice::parse(&args.drafter, system)?;
    let own =
        args.drafters_each.iter().map(|given| DrafterChoice::parse(given, system)).collect::<Result<Vec<_>, _>>()?;
    if !own.is_empty() && own.len() != args.targets.len() {
        return Err(CliError::DraftersEach { drafters: own.len(), targets: args.targets.len() });
    }
    let targets: Vec<&str> = args.targets.iter().map(String::as_str).collect();
    let mut plan = system::plan(&targets, std::slice::from_ref(&shared), system)?;
    let names: Vec<String> = plan.verifiers.iter().map(|(config, _)| config.name().to_owned()).collect();
    let arm = |name, drafters, policy: &Option<String>| Arm { name, drafters, policy: policy.clone() };
    let of_all = |choice: &DrafterChoice| vec![choice.name(); names.len()];
    let mut arms = vec![arm("plain", of_all(&DrafterChoice::None), &None), arm(SHARED, of_all(&shared), &args.policy)];
    if !own.is_empty() {
        let drafters = own.iter().zip(&names).map(|(choice, target)| own_name(choice, target)).collect();
        arms.push(arm(EACH, drafters, &args.policy));
    }
    for ((choice, folder), target) in own.iter().zip(&targets).zip(&names) {
        plan.drafters.extend(own_drafters(choice, (folder, target), system)?);
    }
    give_places(&mut plan, places)?;
    Ok((plan, names, arms))
}

/// What requests call the drafter that `target` has for itself.
fn own_name(choice: &DrafterChoice, target: &str) -> String {
    match choice {
        DrafterChoice::Model { .. } => format!("{}-of-{target}", choice.name()),
        DrafterChoice::Ngram | DrafterChoice::None => choice.name(),
    }
}

/// The service of a drafter that a target has for itself, if it takes one.
fn own_drafters(
    choice: &DrafterChoice,
    (folder, target): (&str, &str),
    system: &SystemArgs,
) -> Result<impl Iterator<Item = DrafterConfig>, CliError> {
    let name = own_name(choice, target);
    let plan = system::plan(&[folder], std::slice::from_ref(choice), system)?;
    Ok(plan.drafters.into_iter().map(move |config| DrafterConfig { name: name.clone(), ..config }))
}

/// Makes room for so many requests in every service; nobody waits for more.
fn give_places(plan: &mut Plan, places: usize) -> Result<(), CliError> {
    for (config, _) in &mut plan.verifiers {
        *config = config.clone().with_sequences_max(places)?;
    }
    for config in &mut plan.drafters {
        config.sequences_max = places.try_into().unwrap_or(DrafterConfig::SEQUENCES_MAX);
    }
    (plan.requests_max, plan.queued_max) = (places, 0);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Bench, Command};
    use crate::models::tests::shipped;

    fn of(flags: &[&str]) -> Result<(Plan, Vec<String>, Vec<Arm>), CliError> {
        let fixed = ["espalier", "bench", "load", "--prompts", "p.jsonl"];
        let args = Args::try_parse_from(fixed.iter().chain(flags)).unwrap();
        let Some(Command::Bench(Bench::Load(load))) = args.command else { panic!("another command") };
        arms(&load, 40, &shipped())
    }

    #[test]
    fn plain_decoding_comes_first_and_a_drafter_for_each_target_only_where_it_is_asked_for() {
        let (plan, targets, arms) = of(&["--targets", "small,medium", "--drafter", "small:2"]).unwrap();
        assert_eq!(targets, ["small", "medium"]);
        assert_eq!(
            arms.iter().map(|arm| (arm.name, arm.drafter())).collect::<Vec<_>>(),
            [("plain", "none".to_owned()), ("shared", "small-2".to_owned())]
        );
        assert_eq!(plan.drafters.iter().map(|config| config.sequences_max.get()).collect::<Vec<_>>(), [40]);

        let each = ["--targets", "small,medium", "--drafter", "small:2", "--drafters-each", "small:2,small:2"];
        let (plan, _, arms) = of(&each).unwrap();
        assert_eq!(arms.last().unwrap().drafters, ["small-2-of-small", "small-2-of-medium"]);
        let hosted: Vec<&str> = plan.drafters.iter().map(|config| config.name.as_str()).collect();
        assert_eq!(hosted, ["small-2", "small-2-of-small", "small-2-of-medium"]);
    }

    #[test]
    fn each_target_needs_a_drafter_of_its_own() {
        let refusal = of(&["--targets", "small,medium", "--drafters-each", "small"]).unwrap_err();
        assert_eq!(refusal.to_string(), "--drafters-each names 1 drafters for 2 targets; it takes one for each");
        assert!(matches!(of(&["--targets", "small,small"]), Err(CliError::Twice { what: "target", .. })));
        assert!(matches!(of(&["--policy", "best"]), Err(CliError::Policy(_))));
    }
}
