//! How full the targets' passes are: of the sequences that could have been in a pass, those that were.

use espalier_client::{Client, ClientError};

/// Rounds that were verified since verifiers were started, and how often an open sequence past its prompt had none in a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Filled {
    rounds: u64,
    missed: u64,
}

impl Filled {
    /// As all verifiers together tell now.
    pub(super) async fn read(client: &Client) -> Result<Self, ClientError> {
        let status = client.clone().status().await?;
        let told = status.verifiers.iter().filter_map(|verifier| verifier.status.as_ref());
        Ok(told.fold(Self::default(), |sum, one| Self {
            rounds: sum.rounds + one.rounds.rounds,
            missed: sum.missed + one.passes.missed,
        }))
    }

    /// What has come since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self { rounds: self.rounds.saturating_sub(before.rounds), missed: self.missed.saturating_sub(before.missed) }
    }

    /// The share of the sequences past their prompt that a pass held, over all turns; none where nothing was verified.
    pub(super) fn share(turns: impl Iterator<Item = Self>) -> Option<f64> {
        let sum = turns.fold(Self::default(), |sum, one| Self {
            rounds: sum.rounds + one.rounds,
            missed: sum.missed + one.missed,
        });
        (sum.rounds > 0).then(|| sum.rounds as f64 / (sum.rounds + sum.missed) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_missed_a_pass_count_against_those_that_were_in_it() {
        let before = Filled { rounds: 10, missed: 5 };
        let turn = Filled { rounds: 40, missed: 15 }.since(before);
        assert_eq!(turn, Filled { rounds: 30, missed: 10 });
        assert_eq!(Filled::share([turn, Filled { rounds: 10, missed: 0 }].into_iter()), Some(0.8));
        assert_eq!(Filled::share(std::iter::empty()), None);
    }
}
