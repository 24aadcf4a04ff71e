//! What is to be simulated: typed, and valid once it has been read.

mod acceptance;
mod error;
mod lengths;
mod load;
mod network;

use espalier_speculation::Curve;
use serde::{Deserialize, Serialize};

pub use acceptance::{Acceptance, Measured};
pub use error::ScenarioError;
pub(crate) use error::policy;
use error::{some, within};
pub use lengths::{Lengths, TOKENS_MAX};
pub use load::{Closed, Load, Open};
pub use network::{Failure, Gateways, Machine, Network, Own, Shared};

/// The most services of a kind.
pub const SERVICES_MAX: usize = 100_000;

/// A system, and what it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The models that answer.
    pub targets: Vec<Target>,
    /// The models that draft; none: all decode plainly.
    #[serde(default)]
    pub drafters: Vec<Pool>,
    /// Who asks, and how often.
    pub load: Load,
    /// The doors.
    #[serde(default)]
    pub gateways: Gateways,
    /// How far services are from each other.
    #[serde(default)]
    pub network: Network,
    /// What computes.
    #[serde(default)]
    pub machine: Machine,
    /// Services that are lost for a while.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// What is to be kept to.
    #[serde(default)]
    pub goals: Goals,
}

/// A model that answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// As many targets that are alike, each with verifiers of its own: `name-0`, `name-1`, …
    #[serde(default = "one")]
    pub copies: usize,
    /// Verifiers of each.
    #[serde(default = "one")]
    pub verifiers: usize,
    /// What a pass costs: rows and milliseconds.
    pub curve: Vec<(usize, f64)>,
    /// What a pass takes longer for each token of a prompt that it reads, in microseconds; as the curve says if absent. It is
    /// less than for a row of a tree, as the logits of the last alone are wanted.
    #[serde(default)]
    pub prompt_us: Option<f64>,
    /// What a pass takes longer for each token that a sequence of it has behind it, in microseconds: each has keys and values
    /// of its own to read.
    #[serde(default)]
    pub context_us: f64,
    /// What the first passes take longer, all in all, where processors are shared and those before were another target's,
    /// whose weights have taken its own ones' place in the caches, in milliseconds.
    #[serde(default)]
    pub cold_ms: f64,
    /// Standard deviation of what passes take, as a share of it, 0 to 1. Without any, passes of two targets that share
    /// processors can keep in step for ever.
    #[serde(default)]
    pub jitter: f64,
    /// Its layers, between which a pass gives way where processors are shared.
    #[serde(default = "one")]
    pub layers: usize,
    /// Sequences that a verifier takes at once.
    #[serde(default = "slots")]
    pub slots: usize,
    /// Nodes of the largest tree that it takes.
    #[serde(default = "tree_nodes")]
    pub tree_nodes: usize,
    /// How trees are grown for it.
    #[serde(default = "usual_policy")]
    pub policy: String,
    /// Whether requests let it be drafted for.
    #[serde(default = "yes")]
    pub drafted: bool,
    /// How much of what is drafted it accepts.
    pub acceptance: Acceptance,
    /// Tokens of a prompt.
    pub prompt: Lengths,
    /// Tokens of an answer.
    pub answer: Lengths,
    /// The most tokens that a request asks for; its answer's length if absent.
    #[serde(default)]
    pub max_tokens: Option<usize>,
    /// Requests a second of each, where the load is open; its weight among the targets where it is closed.
    #[serde(default = "unit")]
    pub rate: f64,
    /// The zone that its verifiers are in.
    #[serde(default)]
    pub zone: String,
}

/// Drafters that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The name.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: usize,
    /// What a draft level costs: rows and milliseconds.
    pub curve: Vec<(usize, f64)>,
    /// What a level takes longer where processors are shared and the pass before it was another model's, in milliseconds.
    #[serde(default)]
    pub cold_ms: f64,
    /// Standard deviation of what levels take, as a share of it, 0 to 1.
    #[serde(default)]
    pub jitter: f64,
    /// Layers, between which a pass gives way where processors are shared.
    #[serde(default = "one")]
    pub layers: usize,
    /// Sequences that each takes at once.
    #[serde(default = "slots")]
    pub slots: usize,
    /// The targets that it drafts for, by name; all if absent.
    #[serde(default)]
    pub serves: Vec<String>,
    /// Whether there are so many of them for each copy of a target, which serve that copy alone.
    #[serde(default)]
    pub each: bool,
    /// The zone that it is in.
    #[serde(default)]
    pub zone: String,
}

/// What is to be kept to; all that is absent is no goal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goals {
    /// Nineteen of twenty first tokens come within so many milliseconds.
    pub first_token_p95_ms: Option<f64>,
    /// Nineteen of twenty answers take so many milliseconds a token at most.
    pub token_p95_ms: Option<f64>,
}

fn one() -> usize {
    1
}

fn unit() -> f64 {
    1.0
}

fn slots() -> usize {
    64
}

fn tree_nodes() -> usize {
    363
}

fn usual_policy() -> String {
    "expected-gain".to_owned()
}

fn yes() -> bool {
    true
}

impl Scenario {
    /// Reads a scenario and checks it.
    ///
    /// # Errors
    /// What is wrong with it: the field, what was found and the limit.
    pub fn parse(json: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = serde_json::from_str(json)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub fn check(&self) -> Result<(), ScenarioError> {
        some(|| "targets".to_owned(), &self.targets)?;
        self.targets.iter().enumerate().try_for_each(|(i, target)| target.check(&format!("targets[{i}]")))?;
        self.drafters.iter().enumerate().try_for_each(|(i, pool)| pool.check(&format!("drafters[{i}]"), self))?;
        let mut names: Vec<&str> = self.targets.iter().map(|target| target.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            let (field, found) = ("targets".to_owned(), twice[0].to_owned());
            return Err(ScenarioError::Name { field, found, fault: "which two targets are called" });
        }
        self.load.check()?;
        self.gateways.check()?;
        self.network.check()?;
        self.machine.check()?;
        let pools: Vec<&str> = self.drafters.iter().map(|pool| pool.name.as_str()).collect();
        self.failures.iter().enumerate().try_for_each(|(i, failure)| failure.check(&format!("failures[{i}]"), &pools))
    }

    /// Targets in all, copies counted.
    pub fn targets_in_all(&self) -> usize {
        self.targets.iter().map(|target| target.copies).sum()
    }

    /// Verifiers in all.
    pub fn verifiers_in_all(&self) -> usize {
        self.targets.iter().map(|target| target.copies * target.verifiers).sum()
    }

    /// Drafters in all.
    pub fn drafters_in_all(&self) -> usize {
        self.drafters.iter().map(|pool| pool.in_all(self)).sum()
    }
}

impl Target {
    fn check(&self, field: &str) -> Result<(), ScenarioError> {
        let services = 1.0..=SERVICES_MAX as f64;
        let number =
            |name: &str, found: usize, most: f64| within(|| format!("{field}.{name}"), found as f64, 1.0..=most);
        number("copies", self.copies, *services.end())?;
        number("verifiers", self.verifiers, *services.end())?;
        number("layers", self.layers, 1024.0)?;
        number("slots", self.slots, 65_536.0)?;
        number("tree_nodes", self.tree_nodes, espalier_speculation::MAX_TREE_NODES as f64)?;
        check_curve(&self.curve, field)?;
        within(|| format!("{field}.prompt_us"), self.prompt_us.unwrap_or(0.0), 0.0..=1e6)?;
        within(|| format!("{field}.context_us"), self.context_us, 0.0..=1e4)?;
        within(|| format!("{field}.cold_ms"), self.cold_ms, 0.0..=1e4)?;
        within(|| format!("{field}.jitter"), self.jitter, 0.0..=1.0)?;
        within(|| format!("{field}.rate"), self.rate, 1e-6..=1e6)?;
        self.acceptance.check(&format!("{field}.acceptance"))?;
        self.prompt.check(&format!("{field}.prompt"))?;
        self.answer.check(&format!("{field}.answer"))?;
        if let Some(most) = self.max_tokens {
            number("max_tokens", most, TOKENS_MAX as f64)?;
        }
        policy(|| format!("{field}.policy"), &self.policy).map(drop)
    }
}

impl Pool {
    fn check(&self, field: &str, scenario: &Scenario) -> Result<(), ScenarioError> {
        let number =
            |name: &str, found: usize, most: f64| within(|| format!("{field}.{name}"), found as f64, 1.0..=most);
        number("count", self.count, SERVICES_MAX as f64)?;
        number("layers", self.layers, 1024.0)?;
        number("slots", self.slots, 65_536.0)?;
        within(|| format!("{field}.cold_ms"), self.cold_ms, 0.0..=1e4)?;
        within(|| format!("{field}.jitter"), self.jitter, 0.0..=1.0)?;
        check_curve(&self.curve, field)?;
        let known = |name: &&String| scenario.targets.iter().any(|target| target.name == **name);
        match self.serves.iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(unknown) => Err(ScenarioError::Name {
                field: format!("{field}.serves"),
                found: unknown.clone(),
                fault: "which no target is called",
            }),
        }
    }

    /// Whether it drafts for copies of a target.
    pub(crate) fn suits(&self, target: &str) -> bool {
        self.serves.is_empty() || self.serves.iter().any(|name| name == target)
    }

    /// Drafters in all.
    pub fn in_all(&self, scenario: &Scenario) -> usize {
        if !self.each {
            return self.count;
        }
        let suiting = scenario.targets.iter().filter(|target| self.suits(&target.name));
        self.count * suiting.map(|target| target.copies).sum::<usize>()
    }
}

/// The curve through some points.
pub(crate) fn curve(points: &[(usize, f64)]) -> Curve {
    Curve::through(points.iter().copied()).unwrap_or_else(|| Curve::line(0.0, 0.0))
}

fn check_curve(points: &[(usize, f64)], field: &str) -> Result<(), ScenarioError> {
    let field = format!("{field}.curve");
    some(|| field.clone(), points)?;
    points.iter().enumerate().try_for_each(|(i, point)| {
        within(|| format!("{field}[{i}][0]"), point.0 as f64, 1.0..=1e6)?;
        within(|| format!("{field}[{i}][1]"), point.1, 1e-4..=1e6)
    })
}

#[cfg(test)]
mod tests;
