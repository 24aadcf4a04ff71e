//! What is compared: plain decoding, and each drafter under each policy.

use espalier_local::DrafterChoice;
use espalier_speculation::{PolicyError, parse_policy, policy_names};

/// Stands for every policy there is.
pub(crate) const ALL: &str = "all";

/// The lengths at which constant chains are compared, when all policies are.
const CHAIN_LENGTHS: [usize; 4] = [1, 2, 3, 5];

/// One line of the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arm {
    /// How requests name the drafter.
    pub(super) drafter: String,
    /// None where nothing is grown by a policy.
    pub(super) policy: Option<String>,
}

impl Arm {
    /// Decoding by the target alone.
    pub(super) fn plain() -> Self {
        Self::without_policy(&DrafterChoice::None)
    }

    fn without_policy(drafter: &DrafterChoice) -> Self {
        Self { drafter: drafter.name(), policy: None }
    }

    /// Each of `drafters` under each of `policies`. Only a model grows trees by a policy.
    pub(super) fn all(drafters: &[DrafterChoice], policies: &[String]) -> Vec<Self> {
        let arms = |drafter: &DrafterChoice| match drafter {
            DrafterChoice::Model { .. } => {
                let arm = |policy: &String| Self { drafter: drafter.name(), policy: Some(policy.clone()) };
                policies.iter().map(arm).collect()
            }
            DrafterChoice::Ngram | DrafterChoice::None => vec![Self::without_policy(drafter)],
        };
        drafters.iter().flat_map(arms).collect()
    }

    /// The policy, a dash where there is none.
    pub(super) fn policy(&self) -> &str {
        self.policy.as_deref().unwrap_or("-")
    }
}

/// Reads the policies to compare, each once: `all` stands for every policy at its defaults, and for constant chains of
/// several lengths.
///
/// # Errors
/// A text that is no policy.
pub(super) fn policies(given: &[String]) -> Result<Vec<String>, PolicyError> {
    let mut policies: Vec<String> = Vec::new();
    for text in given.iter().flat_map(|text| expand(text.trim())) {
        parse_policy(&text)?;
        if !policies.contains(&text) {
            policies.push(text);
        }
    }
    Ok(policies)
}

fn expand(text: &str) -> Vec<String> {
    let at_defaults = |name: &str| match name {
        "constant" => CHAIN_LENGTHS.iter().map(|k| format!("constant,k={k}")).collect(),
        _ => vec![name.to_owned()],
    };
    if text == ALL { policy_names().flat_map(at_defaults).collect() } else { vec![text.to_owned()] }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(given: &[&str]) -> Vec<String> {
        policies(&given.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn all_is_every_policy_and_four_lengths_of_chains() {
        let all = read(&["all"]);
        assert_eq!(all[..4], ["constant,k=1", "constant,k=2", "constant,k=3", "constant,k=5"]);
        assert_eq!(all.len(), policy_names().count() + 3);
        assert!(policy_names().all(|name| all.iter().any(|policy| policy.split(',').next() == Some(name))));
    }

    #[test]
    fn policies_are_compared_once_and_in_the_order_given() {
        assert_eq!(read(&["pct,width=3", " svip ", "pct,width=3"]), ["pct,width=3", "svip"]);
        assert_eq!(read(&["all", "svip"]), read(&["all"]));
        assert!(policies(&["best".to_owned()]).is_err());
    }

    #[test]
    fn only_models_grow_trees_by_policies() {
        let model = DrafterChoice::Model { folder: "models/small".into(), layers: Some(3) };
        let arms = Arm::all(&[model, DrafterChoice::Ngram], &["svip".to_owned(), "pct".to_owned()]);
        let names: Vec<(&str, &str)> = arms.iter().map(|arm| (arm.drafter.as_str(), arm.policy())).collect();
        assert_eq!(names, [("small-3", "svip"), ("small-3", "pct"), ("ngram", "-")]);
    }
}
