//! Who is there: verifiers by target, and drafters.

use std::sync::Arc;
use std::time::Duration;

use espalier_proto::{DrafterCard, TargetCard};
use futures::future::join_all;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::config::Config;
use crate::peers::{Peer, TargetInfo};

/// How often services are asked whether they are there, and what they are.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// A verifier, one of possibly several for its target.
pub(crate) type Replica = Peer<TargetInfo>;

/// A drafter.
pub(crate) type Drafter = Peer<DrafterCard>;

/// All services that the gateway was told of.
#[derive(Debug)]
pub(crate) struct Directory {
    verifiers: Vec<Arc<Replica>>,
    drafters: Vec<Arc<Drafter>>,
}

impl Directory {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            verifiers: config.verifiers.iter().cloned().map(Peer::new).map(Arc::new).collect(),
            drafters: config.drafters.iter().cloned().map(Peer::new).map(Arc::new).collect(),
        }
    }

    /// Asks every service once.
    pub(crate) async fn refresh(&self) {
        let verifiers = join_all(self.verifiers.iter().map(|verifier| verifier.refresh()));
        let drafters = join_all(self.drafters.iter().map(|drafter| drafter.refresh()));
        tokio::join!(verifiers, drafters);
    }

    /// Goes on asking, each service on its own, until the answer is dropped.
    pub(crate) fn watch(&self) -> JoinSet<()> {
        let mut watching = JoinSet::new();
        for verifier in &self.verifiers {
            let verifier = Arc::clone(verifier);
            watching.spawn(async move {
                loop {
                    sleep(REFRESH_INTERVAL).await;
                    verifier.refresh().await;
                }
            });
        }
        for drafter in &self.drafters {
            let drafter = Arc::clone(drafter);
            watching.spawn(async move {
                loop {
                    sleep(REFRESH_INTERVAL).await;
                    drafter.refresh().await;
                }
            });
        }
        watching
    }

    /// The verifiers of a target, those that answer first; none if it is unknown.
    pub(crate) fn replicas(&self, target: &str) -> Vec<Arc<Replica>> {
        let serves = |replica: &&Arc<Replica>| replica.card().is_some_and(|info| info.card.name == target);
        let mut replicas: Vec<_> = self.verifiers.iter().filter(serves).cloned().collect();
        replicas.sort_by_key(|replica| !replica.is_up());
        replicas
    }

    /// What a target is, as one of its verifiers describes it.
    pub(crate) fn target(&self, name: &str) -> Option<Arc<TargetInfo>> {
        self.replicas(name).first()?.card()
    }

    /// The targets that answer, by name.
    pub(crate) fn targets(&self) -> Vec<TargetCard> {
        let mut cards: Vec<TargetCard> = self
            .verifiers
            .iter()
            .filter(|verifier| verifier.is_up())
            .filter_map(|verifier| verifier.card())
            .map(|info| self.describe(&info))
            .collect();
        cards.sort_by(|one, other| one.name.cmp(&other.name));
        cards.dedup_by(|one, other| one.name == other.name);
        cards
    }

    /// The drafters that have described themselves, those that answer first.
    pub(crate) fn drafters(&self) -> Vec<(Arc<Drafter>, Arc<DrafterCard>)> {
        let known = |drafter: &Arc<Drafter>| Some((Arc::clone(drafter), drafter.card()?));
        let mut drafters: Vec<_> = self.drafters.iter().filter_map(known).collect();
        drafters.sort_by_key(|(drafter, _)| !drafter.is_up());
        drafters
    }

    fn describe(&self, info: &TargetInfo) -> TargetCard {
        let drafters = self.drafters().into_iter();
        let drafters = drafters.filter(|(drafter, card)| drafter.is_up() && card.suits(&info.card));
        TargetCard {
            name: info.card.name.clone(),
            vocabulary: info.card.vocabulary.clone(),
            context: info.card.context,
            drafters: drafters.map(|(_, card)| card.name.clone()).collect(),
        }
    }
}
