//! Who is there: verifiers by target, and drafters.

use std::sync::Arc;

use espalier_proto::{DrafterCard, Fault, FaultKind, MESSAGE_BYTES_MAX, Party, TargetCard, VerifierCard};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::health::RETRY_INTERVAL;
use crate::known::Known;
use crate::peers::{Held, Peer, Standing, TargetInfo};
use crate::pool::Pool;
use crate::surroundings::Surroundings;
use crate::wanted::{NGRAM, NOBODY};

/// Bytes that a request may have beside prompt and answer: names, stop strings, biases, a policy.
const REQUEST_BYTES_BESIDE: usize = 256 << 10;

/// All services that the gateway knows of.
#[derive(Debug)]
pub(crate) struct Directory {
    verifiers: Arc<Pool<TargetInfo>>,
    drafters: Arc<Pool<DrafterCard>>,
    surroundings: Surroundings,
}

impl Directory {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            verifiers: Arc::new(Pool::new(&config.verifiers, &config.surroundings)),
            drafters: Arc::new(Pool::new(&config.drafters, &config.surroundings)),
            surroundings: config.surroundings.clone(),
        }
    }

    /// What the gateway has from where it runs.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// Finds and asks every service once.
    pub(crate) async fn refresh(&self) {
        tokio::join!(self.verifiers.refresh(), self.drafters.refresh());
    }

    /// Goes on finding and asking until the answer is dropped.
    pub(crate) fn watch(&self) -> JoinSet<()> {
        let (verifiers, drafters) = (Arc::clone(&self.verifiers), Arc::clone(&self.drafters));
        let mut watching = JoinSet::new();
        watching.spawn(async move { verifiers.watch().await });
        watching.spawn(async move { drafters.watch().await });
        watching
    }

    /// All verifiers, whether they answer or not.
    pub(crate) fn all_verifiers(&self) -> Vec<Arc<Peer<TargetInfo>>> {
        self.verifiers.peers()
    }

    /// All drafters, whether they answer or not.
    pub(crate) fn all_drafters(&self) -> Vec<Arc<Peer<DrafterCard>>> {
        self.drafters.peers()
    }

    /// A verifier that answers for a sequence of a target, none of the `full` ones, by their URLs.
    pub(crate) fn verifier(&self, target: &VerifierCard, key: u64, full: &[String]) -> Option<Held<TargetInfo>> {
        self.verifiers.choose(key, |peer, info| serves(peer, info, target, full))
    }

    /// Whether a verifier that answers could take a sequence of a target, besides the `full` ones.
    pub(crate) fn has_verifier(&self, target: &VerifierCard, full: &[String]) -> bool {
        self.verifiers.has(|peer, info| serves(peer, info, target, full))
    }

    /// Ready when [`Self::has_verifier`] holds.
    pub(crate) async fn until_has_verifier(&self, target: &VerifierCard, full: &[String]) {
        self.verifiers.until_has(|peer, info| serves(peer, info, target, full)).await;
    }

    /// Whether a new sequence of a target may find a verifier.
    ///
    /// # Errors
    /// The target is known, and no verifier of it takes sequences at present.
    pub(crate) fn check_up(&self, target: &str) -> Result<(), Fault> {
        let known = self.verifiers.known().into_iter().filter(|(_, info)| info.card.name == target);
        let standings: Vec<Standing> = known.map(|(standing, _)| standing).collect();
        if standings.is_empty() || standings.contains(&Standing::Up) {
            return Ok(());
        }
        let what = format_args!("no verifier of target `{target}` takes sequences at present");
        Err(Fault::new(Party::Verifier, FaultKind::Gone, what).retry_after(RETRY_INTERVAL))
    }

    /// A drafter that answers and suits.
    pub(crate) fn drafter(
        &self,
        key: u64,
        suits: impl Fn(&Peer<DrafterCard>, &DrafterCard) -> bool,
    ) -> Option<Held<DrafterCard>> {
        self.drafters.choose(key, suits)
    }

    /// What a target is, as one of its verifiers describes it; one that answers, if there is any.
    pub(crate) fn target(&self, name: &str) -> Option<Arc<TargetInfo>> {
        let mut known = self.verifiers.known();
        known.retain(|(_, info)| info.card.name == name);
        known.into_iter().next().map(|(_, info)| info)
    }

    /// The targets that may be asked for.
    pub(crate) fn known_targets(&self) -> Known {
        Known::new(self.targets().into_iter().map(|target| target.name), self.verifiers.silent())
    }

    /// The drafters that may be asked for.
    pub(crate) fn known_drafters(&self) -> Known {
        let names = self.drafters().into_iter().map(|card| card.name.clone());
        Known::new(names.chain([NGRAM, NOBODY].map(str::to_owned)), self.drafters.silent())
    }

    /// Bytes of the longest request that some target could serve, as far as is known.
    pub(crate) fn request_bytes_max(&self) -> usize {
        if self.verifiers.silent() > 0 {
            return MESSAGE_BYTES_MAX;
        }
        let known = self.verifiers.known().into_iter();
        let longest = known.map(|(_, info)| info.request_bytes_max()).max().unwrap_or(0);
        longest.saturating_add(REQUEST_BYTES_BESIDE).min(MESSAGE_BYTES_MAX)
    }

    /// The targets that answer, by name.
    pub(crate) fn targets(&self) -> Vec<TargetCard> {
        let known = self.verifiers.known().into_iter();
        let up = known.filter(|(standing, _)| *standing == Standing::Up);
        let mut cards: Vec<TargetCard> = up.map(|(_, info)| self.describe(&info)).collect();
        cards.sort_by(|one, other| one.name.cmp(&other.name));
        cards.dedup_by(|one, other| one.name == other.name);
        cards
    }

    /// The drafters that have described themselves, those that answer first.
    pub(crate) fn drafters(&self) -> Vec<Arc<DrafterCard>> {
        self.drafters.known().into_iter().map(|(_, card)| card).collect()
    }

    fn describe(&self, info: &TargetInfo) -> TargetCard {
        let known = self.drafters.known().into_iter();
        let suiting = known.filter(|(standing, card)| *standing == Standing::Up && card.suits(&info.card));
        let mut names: Vec<String> = Vec::new();
        for (_, card) in suiting {
            if !names.contains(&card.name) {
                names.push(card.name.clone());
            }
        }
        TargetCard {
            name: info.card.name.clone(),
            vocabulary: info.card.vocabulary.clone(),
            context: info.card.context,
            drafters: names,
        }
    }
}

fn serves(peer: &Peer<TargetInfo>, info: &TargetInfo, target: &VerifierCard, full: &[String]) -> bool {
    info.stands_in_for(target) && !full.iter().any(|url| url == peer.url())
}
