//! How long a caller waits, as it says in the head of a call.

use espalier_service_kit::{Deadline, outgoing};
use http::HeaderValue;
use tonic::metadata::MetadataMap;

use crate::target::{Target, refused};

pub(crate) const TARGET: Target = Target {
    name: "deadline",
    about: "The time that a caller gives is refused, or what is left of it is no more when it is handed on.",
    run: |bytes| {
        let Ok(value) = HeaderValue::from_bytes(bytes) else { return false };
        let mut head = MetadataMap::new();
        head.as_mut().insert("grpc-timeout", value);
        match Deadline::of(&head) {
            Err(refusal) => refused(&refusal),
            Ok(deadline) => {
                let given = deadline.expect("the time is there").remaining();
                let handed_on = Deadline::of(&outgoing(deadline)).expect("what is handed on can be read");
                assert!(
                    handed_on.is_some_and(|handed_on| handed_on.remaining() <= given),
                    "more is left than was given"
                );
                true
            }
        }
    },
    seeds: || ["250m", "10S", "99999999H", "1n"].map(|time| time.as_bytes().to_vec()).into(),
    tries: 3000,
    memory_max: 1 << 16,
};
