//! What runs on the machines: the services as they are shipped.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use espalier_drafter::{Config as DrafterConfig, Drafter};
use espalier_gateway::{Chance, Config as GatewayConfig, Gateway, Surroundings};
use espalier_model::Team;
use espalier_service_kit::{Bytes, MemoryBudget, Workplace};
use espalier_speculation::SplitMix64;
use espalier_tests::model;
use espalier_verifier::{Config as VerifierConfig, Target};

use crate::network::{DRAFTERS, VERIFIERS, bind, dialer, urls};
use crate::questions::TARGET;
use crate::world::Failure;

/// What a pass of a target takes, and one of a drafter.
const TARGET_PASS: Duration = Duration::from_millis(30);
const DRAFTER_PASS: Duration = Duration::from_millis(4);

/// Memory for keys and values of each model.
const KV_MEMORY: MemoryBudget = MemoryBudget::Bytes(Bytes(64 << 20));

/// A verifier.
pub(crate) async fn verifier() -> Result<(), Failure> {
    let config = VerifierConfig::new(model(TARGET), 1)?.with_kv_memory(Some(KV_MEMORY));
    let config = config.with_workplace(Workplace::Task { pass: TARGET_PASS });
    let target = Target::load(&config, &Team::new(1), |_, _| {})?;
    Ok(espalier_verifier::serve(target, bind().await?, std::future::pending()).await?)
}

/// A drafter: the first layer of the target.
pub(crate) async fn drafter() -> Result<(), Failure> {
    let config = DrafterConfig {
        workplace: Workplace::Task { pass: DRAFTER_PASS },
        dialer: dialer(),
        kv_memory: Some(KV_MEMORY),
        ..DrafterConfig::new(model(TARGET), Some(1), NonZeroUsize::MIN)
    };
    let drafter = Drafter::load(&config, &Team::new(1))?;
    Ok(espalier_drafter::serve(drafter, bind().await?, std::future::pending()).await?)
}

/// A gateway to all of them.
pub(crate) async fn gateway(chance: Chance) -> Result<(), Failure> {
    let config = GatewayConfig::over(&dialer(), &urls(&VERIFIERS), &urls(&DRAFTERS))?;
    let bound = bind().await?;
    let workplace = Workplace::Task { pass: Duration::ZERO };
    let surroundings = Surroundings { chance, workplace, ..Surroundings::default() };
    let gateway = Gateway::start(config.with_surroundings(surroundings)).await;
    Ok(espalier_gateway::serve(gateway, bound, std::future::pending()).await?)
}

/// Random numbers that a seed decides.
pub(crate) fn chance(seed: u64) -> Chance {
    let random = Arc::new(Mutex::new(SplitMix64::new(seed)));
    Chance::new(move || random.lock().unwrap().next_u64())
}
