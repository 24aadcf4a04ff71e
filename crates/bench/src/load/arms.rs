//! What is compared under load: plain decoding, one drafter for all targets, and one for each.

use espalier_command::CommandError;
use espalier_drafter::Config as DrafterConfig;
use espalier_local::{DrafterChoice, LocalError, Plan, SystemArgs, unique};
use espalier_speculation::parse_policy;

use super::args::Load;
use crate::error::BenchError;

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

/// What is compared, and the system for it.
#[derive(Debug)]
pub(super) struct Compared {
    /// The system that all arms need.
    pub(super) plan: Plan,
    /// How requests name the targets.
    pub(super) targets: Vec<String>,
    /// Plain decoding first.
    pub(super) arms: Vec<Arm>,
}

impl Compared {
    /// What the command line asks for, with so many slots in every service.
    pub(super) fn new(args: &Load, slots: usize, system: &SystemArgs) -> Result<Self, BenchError> {
        unique("target", args.targets.iter().map(String::as_str))?;
        unique("policy", args.policies.iter().map(String::as_str))?;
        args.policies.iter().try_for_each(|policy| parse_policy(policy).map(drop)).map_err(CommandError::from)?;
        let shared = DrafterChoice::parse(&args.drafter.drafter, system)?;
        let own = own_choices(args, system)?;
        let folders: Vec<&str> = args.targets.iter().map(String::as_str).collect();
        let mut plan = Plan::new(&folders, std::slice::from_ref(&shared), system)?;
        let targets = plan.targets();
        for ((choice, folder), target) in own.iter().zip(&folders).zip(&targets) {
            add_own(&mut plan, choice, folder, target, system)?;
        }
        give_slots(&mut plan, slots)?;
        let arms = arms(&shared, &own, &targets, &args.policies);
        Ok(Self { plan, targets, arms })
    }
}

/// The drafters that targets have for themselves: none, or one for each.
fn own_choices(args: &Load, system: &SystemArgs) -> Result<Vec<DrafterChoice>, BenchError> {
    let own = args.drafters_each.iter().map(|given| DrafterChoice::parse(given, system));
    let own = own.collect::<Result<Vec<_>, _>>()?;
    if !own.is_empty() && own.len() != args.targets.len() {
        return Err(BenchError::DraftersEach { drafters: own.len(), targets: args.targets.len() });
    }
    Ok(own)
}

fn arms(shared: &DrafterChoice, own: &[DrafterChoice], targets: &[String], policies: &[String]) -> Vec<Arm> {
    let of_all = |choice: &DrafterChoice| vec![choice.name(); targets.len()];
    let of_own = || own.iter().zip(targets).map(|(choice, target)| own_name(choice, target)).collect();
    let policies: Vec<Option<String>> =
        if policies.is_empty() { vec![None] } else { policies.iter().cloned().map(Some).collect() };
    let mut arms = vec![Arm { name: "plain", drafters: of_all(&DrafterChoice::None), policy: None }];
    arms.extend(policies.iter().map(|policy| Arm { name: SHARED, drafters: of_all(shared), policy: policy.clone() }));
    if !own.is_empty() {
        arms.extend(policies.into_iter().map(|policy| Arm { name: EACH, drafters: of_own(), policy }));
    }
    arms
}

/// What requests call the drafter that `target` has for itself.
fn own_name(choice: &DrafterChoice, target: &str) -> String {
    match choice {
        DrafterChoice::Model { .. } => format!("{}-of-{target}", choice.name()),
        DrafterChoice::Ngram | DrafterChoice::None => choice.name(),
    }
}

/// Adds the service of a drafter that the target in `folder` has for itself, if it takes one, with the thresholds that the
/// drafter has under its usual name.
fn add_own(
    plan: &mut Plan,
    choice: &DrafterChoice,
    folder: &str,
    target: &str,
    system: &SystemArgs,
) -> Result<(), BenchError> {
    let name = own_name(choice, target);
    let own = Plan::new(&[folder], std::slice::from_ref(choice), system)?;
    if let Some(thresholds) = own.profiles.thresholds(target, &choice.name()) {
        plan.profiles.set(target, &name, thresholds.clone());
    }
    plan.drafters.extend(own.drafters.into_iter().map(|config| DrafterConfig { name: name.clone(), ..config }));
    Ok(())
}

/// Makes room for so many requests in every service; nobody waits for more.
fn give_slots(plan: &mut Plan, slots: usize) -> Result<(), BenchError> {
    for (config, _) in &mut plan.verifiers {
        *config = config.clone().with_sequences_max(slots).map_err(LocalError::from)?;
    }
    for config in &mut plan.drafters {
        config.sequences_max = slots.try_into().unwrap_or(DrafterConfig::SEQUENCES_MAX);
    }
    (plan.requests_max, plan.queued_max) = (slots, 0);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use espalier_local::Twice;

    use super::*;
    use crate::testing::{parsed, shipped};

    fn of(flags: &[&str]) -> Result<Compared, BenchError> {
        let load: Load = parsed(&[&["--prompts", "p.jsonl"], flags].concat());
        Compared::new(&load, 40, &shipped())
    }

    #[test]
    fn plain_decoding_comes_first_then_every_policy_and_a_drafter_for_each_target_only_where_it_is_asked_for() {
        let Compared { plan, targets, arms } = of(&["--targets", "small,medium", "--drafter", "small:2"]).unwrap();
        assert_eq!(targets, ["small", "medium"]);
        assert_eq!(
            arms.iter().map(|arm| (arm.name, arm.drafter())).collect::<Vec<_>>(),
            [("plain", "none".to_owned()), ("shared", "small-2".to_owned())]
        );
        assert_eq!(plan.drafters.iter().map(|config| config.sequences_max.get()).collect::<Vec<_>>(), [40]);

        let Compared { arms, .. } = of(&["--policies", "constant,k=2,gate=off;svip"]).unwrap();
        let policies: Vec<Option<&str>> = arms.iter().map(|arm| arm.policy.as_deref()).collect();
        assert_eq!(policies, [None, Some("constant,k=2,gate=off"), Some("svip")]);

        let each = ["--targets", "small,medium", "--drafter", "small:2", "--drafters-each", "small:2,small:2"];
        let Compared { plan, arms, .. } = of(&each).unwrap();
        assert_eq!(arms.last().unwrap().drafters, ["small-2-of-small", "small-2-of-medium"]);
        let hosted: Vec<&str> = plan.drafters.iter().map(|config| config.name.as_str()).collect();
        assert_eq!(hosted, ["small-2", "small-2-of-small", "small-2-of-medium"]);
    }

    #[test]
    fn each_target_needs_a_drafter_of_its_own() {
        let refusal = of(&["--targets", "small,medium", "--drafters-each", "small"]).unwrap_err();
        assert_eq!(refusal.to_string(), "--drafters-each names 1 drafters for 2 targets; it takes one for each");
        assert!(matches!(of(&["--targets", "small,small"]), Err(BenchError::Twice(Twice { what: "target", .. }))));
        assert!(matches!(of(&["--policies", "best"]), Err(BenchError::Command(CommandError::Policy(_)))));
    }
}
