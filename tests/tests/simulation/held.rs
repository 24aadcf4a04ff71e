//! What of services is taken.

use espalier_client::Client;
use espalier_proto::{KvMemory, Slots};

use crate::network::{GATEWAYS, dialer, url};
use crate::world::Failure;

/// What is taken although nobody asks for anything.
pub(crate) async fn still_held() -> Result<Vec<String>, Failure> {
    let mut held = Vec::new();
    for host in GATEWAYS {
        let status = Client::over(&dialer(), &url(host))?.status().await?;
        if status.gateway.requests.open > 0 {
            held.push(format!("{host} still has {} requests", status.gateway.requests.open));
        }
        for verifier in status.verifiers {
            held.extend(held_by(&verifier.url, verifier.status.map(|status| (status.sequences, status.kv))));
        }
        for drafter in status.drafters {
            held.extend(held_by(&drafter.url, drafter.status.map(|status| (status.sequences, status.kv))));
        }
    }
    Ok(held)
}

/// What a service still holds, by what it tells of its slots and its memory.
fn held_by(url: &str, told: Option<(Slots, KvMemory)>) -> Option<String> {
    match told {
        None => Some(format!("{url} says nothing")),
        Some((slots, kv)) if (slots.open, kv.held, kv.promised) != (0, 0, 0) => {
            Some(format!("{url} still holds {slots:?}, {kv:?}"))
        }
        Some(_) => None,
    }
}
