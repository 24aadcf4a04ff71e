//! One run of a scenario.

use tokio::time::Instant;

use crate::report::Report;
use crate::scenario::{Scenario, ScenarioError};
use crate::world::World;

/// Lets a scenario happen. `epoch` is any moment: it stands for the beginning where a service's rule asks for a clock's time,
/// and decides nothing.
///
/// # Errors
/// What is wrong with the scenario.
pub fn simulate(scenario: &Scenario, seed: u64, epoch: Instant) -> Result<Report, ScenarioError> {
    scenario.check()?;
    let mut world = World::new(scenario, seed, epoch)?;
    world.run();
    Ok(Report::of(&world, scenario))
}
