//! Files of profiles.

use espalier_gateway::Profiles;

use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "profiles",
    about: "A text of profiles is refused, or is that of the same profiles after it was written again.",
    run: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match Profiles::parse(text) {
            Err(refusal) => refused(&refusal),
            Ok(profiles) => {
                let written = profiles.to_json();
                let again = Profiles::parse(&written).map(|profiles| profiles.to_json());
                assert_eq!(again.ok(), Some(written), "what was accepted is another after it was written again");
                true
            }
        }
    },
    seeds: || {
        let full = r#"{"small": {"sorted": {"thresholds": [0.5], "policy": "cape"}, "edd": [0.5, 0.25], "*": {"policy": "svip,h=0.4"}}}"#;
        vec![full.as_bytes().to_vec(), include_bytes!("../../../../models/profiles.json").to_vec()]
    },
    tries: 6000,
    memory_max: 1 << 18,
};
