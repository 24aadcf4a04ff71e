//! Policies and thresholds, as people and profiles write them.

use espalier_speculation::{ExitThresholds, parse_policy, policy_names};

use crate::target::{Target, refused};

pub(crate) const POLICY: Target = Target {
    name: "policy",
    about: "The text of a policy is refused, or is that of the same policy after it was written again, and can be built.",
    run: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match parse_policy(text) {
            Err(refusal) => refused(&refusal),
            Ok(policy) => {
                assert_eq!(parse_policy(&policy.to_string()).as_ref(), Ok(&policy), "{policy}");
                let limits = policy.limits();
                assert!(limits.max_nodes > 0 && limits.max_depth > 0, "{limits:?}");
                drop(policy.build());
                true
            }
        }
    },
    seeds: || {
        let full =
            ["eagle2,total=16,stop=svip,stop.h=0.4,every=2,gate=off", "pct,width=4,max_depth=10", "svip,h=1e-300"];
        policy_names().chain(full).map(|text| text.as_bytes().to_vec()).collect()
    },
    tries: 6000,
    memory_max: 1 << 18,
};

pub(crate) const THRESHOLDS: Target = Target {
    name: "thresholds",
    about: "A text of thresholds is refused, or is that of the same thresholds after it was written again.",
    run: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let parsed = [1, 2, 3, 64].map(|exits| ExitThresholds::parse(text, exits).map_err(|refusal| refused(&refusal)));
        for thresholds in parsed.iter().flatten() {
            assert_eq!(ExitThresholds::parse(&thresholds.to_string(), thresholds.exits()).as_ref(), Ok(thresholds));
        }
        parsed.iter().any(Result::is_ok)
    },
    seeds: || ["0.75, 0.7", "", "0.5"].map(|text| text.as_bytes().to_vec()).into(),
    tries: 6000,
    memory_max: 1 << 16,
};
