//! The system that a command starts in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use espalier_client::{Client, ClientError};
use espalier_local::{DEFAULT_DRAFTER, DrafterChoice, LocalError, Plan, System, SystemArgs};
use indicatif::{MultiProgress, ProgressBar};

use crate::decoding::Decoding;
use crate::report;

/// Starts a system and shows how loading goes.
///
/// # Errors
/// As for [`System::start`].
pub async fn start(plan: Plan) -> Result<System, LocalError> {
    let bars = Loading::default();
    let hears = bars.clone();
    let started = System::start(plan, move |model, done, all| hears.step(model, done, all)).await;
    bars.clear();
    started
}

/// A bar for each model that is being loaded.
#[derive(Clone, Default)]
struct Loading {
    bars: MultiProgress,
    by_model: Arc<Mutex<HashMap<String, ProgressBar>>>,
}

impl Loading {
    /// `done` of `all` layers of a model are loaded.
    fn step(&self, model: &str, done: usize, all: usize) {
        let mut by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || self.bars.add(report::progress(all as u64, &format!("loading {model}")));
        by_model.entry(model.to_owned()).or_insert_with(new).set_position(done as u64);
    }

    /// Takes the bars off the screen.
    fn clear(&self) {
        // A screen that is gone needs no clearing.
        let _ = self.bars.clear();
    }
}

/// A system for one target's answers, and how requests name what they use of it.
#[derive(Debug)]
pub struct OneTarget {
    system: System,
    /// The target's name.
    pub target: String,
    /// The drafter's name; none where nobody drafts.
    pub drafter: Option<String>,
}

impl OneTarget {
    /// Starts what the answers of `target` need.
    ///
    /// # Errors
    /// Names that stand for nothing, and models that cannot be loaded.
    pub async fn start(target: &str, decoding: &Decoding, system: &SystemArgs) -> Result<Self, LocalError> {
        let choice = match (&decoding.drafter, decoding.no_speculation) {
            (_, true) => DrafterChoice::None,
            (drafter, false) => DrafterChoice::parse(drafter.as_deref().unwrap_or(DEFAULT_DRAFTER), system)?,
        };
        let drafter = (choice != DrafterChoice::None).then(|| choice.name());
        let plan = Plan::new(&[target], &[choice], system)?;
        let target = plan.targets().into_iter().next().unwrap_or_default();
        Ok(Self { system: start(plan).await?, target, drafter })
    }

    /// A client of its gateway.
    ///
    /// # Errors
    /// As for [`Client::new`].
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::new(self.system.gateway())
    }

    /// Lets all services end well.
    ///
    /// # Errors
    /// As for [`System::stop`].
    pub async fn stop(self) -> Result<(), LocalError> {
        self.system.stop().await
    }
}
