//! Permission to run rounds.

use std::sync::Arc;

use espalier_proto::{Fault, FaultKind, Grant, Party};
use tokio::sync::Semaphore;

/// The most rounds that may be granted and not yet begun.
pub const GRANTS_HELD_MAX: usize = 4096;

/// Rounds that may begin; one handle grants, the other takes.
#[derive(Debug, Clone)]
pub struct Grants(Arc<Semaphore>);

impl Default for Grants {
    fn default() -> Self {
        Self::new()
    }
}

impl Grants {
    /// No round may begin yet.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets `grant` more rounds begin.
    ///
    /// # Errors
    /// More than [`GRANTS_HELD_MAX`] would be held; nothing is granted then.
    pub fn add(&self, grant: Grant) -> Result<(), Fault> {
        let held = self.0.available_permits() + grant.rounds();
        if held > GRANTS_HELD_MAX {
            let what = format!("{held} granted rounds exceed the limit of {GRANTS_HELD_MAX}");
            return Err(Fault::new(Party::Gateway, FaultKind::BadInput, what));
        }
        self.0.add_permits(grant.rounds());
        Ok(())
    }

    /// No round begins any more, granted or not.
    pub fn close(&self) {
        self.0.close();
    }

    /// Waits for permission and uses it up; `false` if none will ever come.
    pub(crate) async fn take(&self) -> bool {
        match self.0.acquire().await {
            Ok(permit) => {
                permit.forget();
                true
            }
            Err(_) => false,
        }
    }

    /// Uses up as many permissions as there are now, at most `rounds`, and says how many.
    pub(crate) fn take_up_to(&self, rounds: usize) -> usize {
        let permits = self.0.try_acquire_many(0).map_or(0, |_| self.0.available_permits().min(rounds));
        self.0.forget_permits(permits)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn each_permission_serves_once() {
        let grants = Grants::new();
        assert_eq!(grants.take_up_to(4), 0);
        grants.add(Grant::new(4).unwrap()).unwrap();
        assert!(grants.take().await);
        assert_eq!([2, 2].map(|rounds| grants.take_up_to(rounds)), [2, 1]);
        grants.add(Grant::new(1).unwrap()).unwrap();
        grants.close();
        assert_eq!(grants.take_up_to(1), 0);
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_a_grant_and_by_the_end() {
        let grants = Grants::new();
        let waiting = tokio::spawn({
            let grants = grants.clone();
            async move { (grants.take().await, grants.take().await) }
        });
        tokio::task::yield_now().await;
        grants.add(Grant::new(1).unwrap()).unwrap();
        tokio::task::yield_now().await;
        grants.close();
        assert_eq!(waiting.await.unwrap(), (true, false));
    }

    #[test]
    fn grants_do_not_pile_up_without_end() {
        let grants = Grants::new();
        let grant = Grant::new(1024).unwrap();
        for _ in 0..4 {
            grants.add(grant).unwrap();
        }
        let fault = grants.add(Grant::new(1).unwrap()).unwrap_err();
        assert_eq!(fault.message, "4097 granted rounds exceed the limit of 4096");
    }
}
