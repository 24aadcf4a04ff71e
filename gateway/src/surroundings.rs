//! What a gateway has from where it runs.

use espalier_service_kit::Workplace;

use crate::chance::Chance;
use crate::resolver::Resolver;

/// Names, random numbers, and a place for what takes a while: the machine's own, or others where a run is to be repeated.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// How names become addresses.
    pub resolver: Resolver,
    /// Where random numbers come from.
    pub chance: Chance,
    /// Where tokenizers are made and prompts tokenized.
    pub workplace: Workplace,
}

/// Those of the machine.
impl Default for Surroundings {
    fn default() -> Self {
        Self { resolver: Resolver::system(), chance: Chance::system(), workplace: Workplace::default() }
    }
}
