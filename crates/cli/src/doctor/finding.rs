//! What a check comes to.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// It works, but not as well as it could, or not for long.
    Warning,
    /// A system that is started so does not work.
    Fault,
}

/// What one check comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) check: String,
    pub(crate) level: Level,
    /// What was found.
    pub(crate) says: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: impl Into<String>, says: impl Into<String>) -> Self {
        Self { check: check.into(), level: Level::Ok, says: says.into(), advice: None }
    }

    pub(crate) fn warning(check: impl Into<String>, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warning, advice: Some(advice.into()), ..Self::ok(check, says) }
    }

    pub(crate) fn fault(check: impl Into<String>, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Fault, ..Self::warning(check, says, advice) }
    }
}

/// All that was found.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    /// The level of the worst.
    pub(crate) verdict: Level,
    pub(crate) checks: Vec<Finding>,
}

impl Findings {
    pub(crate) fn new(checks: Vec<Finding>) -> Self {
        let verdict = checks.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        Self { verdict, checks }
    }

    /// How many are at this level.
    pub(crate) fn count(&self, level: Level) -> usize {
        self.checks.iter().filter(|finding| finding.level == level).count()
    }
}

/// How many there are of something, in words.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
