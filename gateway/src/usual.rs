//! What holds for every request that does not say otherwise.

use espalier_speculation::{Acceptance, PolicyError, PolicySpec, parse_policy};

use crate::caps::PolicyCaps;
use crate::profiles::Profiles;
use crate::renderer::Renderer;

/// How trees are grown by rejection where the usual policy chooses among drawn tokens: chains that end where the
/// draft is in doubt, as a rejected token costs more than a missing one.
pub(crate) const DRAWN_POLICY: &str = "svip";

/// How trees are grown, and when rows leave drafters with several exits, by target and drafter; and who puts
/// conversations into chat templates.
#[derive(Debug, Clone)]
pub(crate) struct Usual {
    policy: PolicySpec,
    /// The one where tokens are drawn and the usual one chooses among them.
    drawn_policy: PolicySpec,
    pub(crate) profiles: Profiles,
    /// What of drafting requests may ask for.
    pub(crate) caps: PolicyCaps,
    pub(crate) renderer: Renderer,
}

impl Usual {
    pub(crate) fn new(policy: &str, profiles: Profiles) -> Result<Self, PolicyError> {
        let drawn_policy = parse_policy(DRAWN_POLICY)?;
        let (policy, caps) = (parse_policy(policy)?, PolicyCaps::default());
        Ok(Self { policy, drawn_policy, profiles, caps, renderer: Renderer::in_process() })
    }

    /// The same for requests that may ask for so much.
    pub(crate) fn with_caps(self, caps: PolicyCaps) -> Self {
        Self { caps, ..self }
    }

    /// The policy of a target with a drafter, where a request names none.
    pub(crate) fn policy(&self, target: &str, drafter: &str, acceptance: Acceptance) -> PolicySpec {
        let policy = self.profiles.policy(target, drafter).unwrap_or(&self.policy).clone();
        match acceptance {
            Acceptance::Coupled => policy,
            Acceptance::Rejection => policy.suiting_drawn().unwrap_or_else(|_| self.drawn_policy.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_policy_is_that_of_the_profile_or_the_usual_one_or_one_that_suits_drawn_tokens() {
        let profiles = r#"{"toy": {"small": {"policy": "cape"}, "edd": {"policy": "svip"}}}"#;
        let usual = Usual::new("constant,k=2", Profiles::parse(profiles).unwrap()).unwrap();
        let policy = |drafter, acceptance| usual.policy("toy", drafter, acceptance).name();
        let (coupled, rejection) = (Acceptance::Coupled, Acceptance::Rejection);
        assert_eq!(
            [policy("small", coupled), policy("edd", coupled), policy("other", coupled)],
            ["cape", "svip", "constant"]
        );
        assert_eq!([policy("small", rejection), policy("other", rejection)], ["cape", "constant"]);
        let pruning = Usual::new("expected-gain", Profiles::default()).unwrap();
        assert_eq!(pruning.policy("toy", "small", rejection).to_string(), DRAWN_POLICY);
        assert_eq!(pruning.policy("toy", "small", coupled).name(), "expected-gain");
    }
}
