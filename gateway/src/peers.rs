//! What verifiers and drafters say of themselves.

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use espalier_constraint::Constraints;
use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{
    CallForm, DrafterCard, Fault, FaultKind, Party, TokenizerCollector, TokenizerFiles, VerifierCard, pb,
};
use espalier_service_kit::{Deadline, Line, Workplace, is_serving, outgoing};
use espalier_speculation::CONSTRAINT_BYTES_MAX;
use espalier_text::{Parts, Tokenizer};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Status};

use crate::address::Address;
use crate::balance::PeerOccupancy;

/// A service that does not describe itself within this time counts as lost.
const DESCRIBE_MAX: Duration = Duration::from_secs(2);

/// A tokenizer that does not arrive within this time is not to be had.
const TOKENIZER_MAX: Duration = Duration::from_secs(60);

/// Bytes that a request may spend on a token beside its text: what frames a message of a conversation, or its number.
const TOKEN_BYTES_BESIDE: usize = 16;

/// What a service of some kind says of itself.
pub(crate) trait Card: Send + Sync + Sized + 'static {
    /// Who is at fault when it cannot be had.
    const PARTY: Party;

    /// Asks a service what it is; `known` is what it said before, and what takes a while is done at `workplace`.
    fn ask(
        channel: Channel,
        known: Option<Arc<Self>>,
        workplace: Workplace,
    ) -> impl Future<Output = Result<Arc<Self>, Fault>> + Send;

    /// Sequences that the service runs at once, if it says so.
    fn slots(&self) -> Option<NonZeroUsize>;
}

/// What a service can be asked for, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It answers and takes sequences.
    Up,
    /// It answers, but says that it takes none.
    Draining,
    /// It did not answer when last asked, or was never asked.
    Down,
}

/// A service elsewhere, what it last said of itself, and what it does for this gateway.
#[derive(Debug)]
pub(crate) struct Peer<T> {
    url: String,
    line: Line,
    known: RwLock<Known<T>>,
    running: AtomicUsize,
    left: AtomicBool,
    /// Told when it has come up.
    ups: Arc<Notify>,
    /// Told when a sequence has lost it.
    missed: Notify,
}

#[derive(Debug)]
struct Known<T> {
    card: Option<Arc<T>>,
    standing: Standing,
    /// How often it has come up.
    ups: u64,
}

impl<T> Peer<T> {
    /// A service that was not asked yet; `ups` is told when it has come up.
    pub(crate) fn new(address: Address, ups: &Arc<Notify>) -> Self {
        Self {
            url: address.url,
            line: address.line,
            known: RwLock::new(Known { card: None, standing: Standing::Down, ups: 0 }),
            running: AtomicUsize::new(0),
            left: AtomicBool::new(false),
            ups: Arc::clone(ups),
            missed: Notify::new(),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn channel(&self) -> Channel {
        self.line.channel.clone()
    }

    /// What it last said of itself, if it ever did.
    pub(crate) fn card(&self) -> Option<Arc<T>> {
        self.known.read().card.clone()
    }

    /// What it can be asked for, as far as is known.
    pub(crate) fn standing(&self) -> Standing {
        self.known.read().standing
    }

    /// It did not answer. What it said before is kept: it may come back.
    fn lost(&self, fault: &Fault) {
        let before = std::mem::replace(&mut self.known.write().standing, Standing::Down);
        match before {
            Standing::Up => tracing::warn!(url = self.url, %fault, "a service is lost"),
            Standing::Draining => tracing::info!(url = self.url, "a service has ended"),
            Standing::Down => {}
        }
    }

    /// No sequence will be given to it any more; those that it runs may end.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
        tracing::info!(url = self.url, "a service leaves");
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    fn answered(&self, card: Arc<T>, standing: Standing) {
        let mut known = self.known.write();
        let before = std::mem::replace(&mut known.standing, standing);
        known.card = Some(card);
        known.ups += u64::from(before != Standing::Up && standing == Standing::Up);
        drop(known);
        if before != Standing::Up && standing == Standing::Up {
            self.ups.notify_waiters();
        }
        match (before, standing) {
            (Standing::Down, Standing::Up) => tracing::info!(url = self.url, "a service answers"),
            (Standing::Up, Standing::Draining) => {
                tracing::info!(url = self.url, "a service takes no sequences any more");
            }
            _ => {}
        }
    }
}

impl<T: Card> Peer<T> {
    /// Ready when a peer that was up has been lost: by a sequence, or because its connection has ended.
    pub(crate) async fn until_lost(&self) {
        tokio::select! {
            () = self.missed.notified() => {}
            () = self.line.connections.until_none() => {
                self.lost(&Fault::new(T::PARTY, FaultKind::Gone, "its connection has ended"));
            }
        }
    }

    /// What it has to do, as this gateway sees it.
    pub(crate) fn occupancy(&self, card: &T) -> PeerOccupancy {
        PeerOccupancy { running: self.running.load(Ordering::Relaxed), slots: card.slots() }
    }

    /// Asks the service whether it takes sequences, and what it is; whether it answered.
    pub(crate) async fn refresh(&self, workplace: Workplace) -> bool {
        let health = async {
            let serving = is_serving(self.channel(), outgoing(Some(Deadline::after(DESCRIBE_MAX)))).await;
            serving.map_err(|status| Fault::from_status(T::PARTY, &status))
        };
        let health = answered_within(DESCRIBE_MAX, T::PARTY, health);
        // Where one has failed, the other would only be waited for.
        match tokio::try_join!(health, T::ask(self.channel(), self.card(), workplace)) {
            Ok((serving, card)) => self.answered(card, if serving { Standing::Up } else { Standing::Draining }),
            Err(fault) => {
                self.lost(&fault);
                return false;
            }
        }
        true
    }
}

/// A peer with a sequence of ours, for as long as the sequence is there.
#[derive(Debug)]
pub(crate) struct Held<T> {
    peer: Arc<Peer<T>>,
    card: Arc<T>,
    /// How often the peer had come up when it was chosen.
    ups: u64,
}

impl<T> Held<T> {
    pub(crate) fn new(peer: &Arc<Peer<T>>, card: Arc<T>) -> Self {
        peer.running.fetch_add(1, Ordering::Relaxed);
        Self { peer: Arc::clone(peer), card, ups: peer.known.read().ups }
    }

    pub(crate) fn peer(&self) -> &Peer<T> {
        &self.peer
    }

    /// The sequence has lost the peer, which nobody tries any more until it has answered. That it has answered since it was
    /// chosen counts for more: of many sequences that lose it at once, the last may notice when it is back.
    pub(crate) fn lost(&self, fault: &Fault) {
        if self.peer.known.read().ups == self.ups {
            self.peer.lost(fault);
            self.peer.missed.notify_one();
        }
    }

    /// What the peer said of itself when it was chosen.
    pub(crate) fn card(&self) -> &T {
        &self.card
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.peer.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A target, as its verifier describes it, and its tokenizer.
#[derive(Debug)]
pub(crate) struct TargetInfo {
    pub(crate) card: VerifierCard,
    pub(crate) tokenizer: Tokenizer,
    /// What its texts can be held to.
    pub(crate) constraints: Constraints,
    /// How it writes calls of tools, once that was needed.
    pub(crate) call_form: OnceLock<CallForm>,
}

impl TargetInfo {
    /// Bytes of the longest text that can fit into the context: each token is of the longest ones.
    pub(crate) fn text_bytes_max(&self) -> usize {
        self.card.context.saturating_mul(self.tokenizer.longest_token())
    }

    /// Bytes that prompt and answer may take in a request, in whatever form: as text, as numbers, or as the messages of a
    /// conversation, of which each is a token at least. What the answer is held to comes on top.
    pub(crate) fn request_bytes_max(&self) -> usize {
        let beside = self.card.context.saturating_mul(TOKEN_BYTES_BESIDE).saturating_add(CONSTRAINT_BYTES_MAX);
        self.text_bytes_max().saturating_add(beside)
    }

    /// Whether a sequence of another verifier may go on here: equal weights in equal arithmetic, an equal tokenizer and equal
    /// end tokens give an equal text.
    pub(crate) fn stands_in_for(&self, other: &VerifierCard) -> bool {
        let card = &self.card;
        card.name == other.name
            && card.model.is_same_as(&other.model)
            && card.vocabulary.fingerprint == other.vocabulary.fingerprint
            && card.end_tokens == other.end_tokens
    }
}

impl Card for TargetInfo {
    const PARTY: Party = Party::Verifier;

    /// The tokenizer is fetched unless it is known.
    async fn ask(channel: Channel, known: Option<Arc<Self>>, workplace: Workplace) -> Result<Arc<Self>, Fault> {
        let card = answered_within(DESCRIBE_MAX, Self::PARTY, describe_verifier(channel.clone())).await?;
        match known {
            Some(known) if known.card == card => Ok(known),
            Some(known) if known.card.vocabulary.fingerprint == card.vocabulary.fingerprint => {
                let (tokenizer, constraints) = (known.tokenizer.clone(), known.constraints.clone());
                Ok(Arc::new(Self { card, tokenizer, constraints, call_form: known.call_form.clone() }))
            }
            _ => {
                let files = answered_within(TOKENIZER_MAX, Self::PARTY, fetch_tokenizer(channel)).await?;
                let tokenizer = build_tokenizer(files, workplace).await?;
                let constraints = Constraints::new(tokenizer.clone());
                Ok(Arc::new(Self { card, tokenizer, constraints, call_form: OnceLock::new() }))
            }
        }
    }

    fn slots(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.card.sequences_max)
    }
}

impl Card for DrafterCard {
    const PARTY: Party = Party::Drafter;

    async fn ask(channel: Channel, _: Option<Arc<Self>>, _: Workplace) -> Result<Arc<Self>, Fault> {
        Ok(Arc::new(answered_within(DESCRIBE_MAX, Self::PARTY, describe_drafter(channel)).await?))
    }

    fn slots(&self) -> Option<NonZeroUsize> {
        None
    }
}

async fn describe_verifier(channel: Channel) -> Result<VerifierCard, Fault> {
    let request = within(DESCRIBE_MAX, pb::DescribeVerifierRequest {});
    let answer =
        VerifierClient::new(channel).describe(request).await.map_err(|status| lost(Party::Verifier, &status))?;
    answer.into_inner().try_into().map_err(|error| broken(Party::Verifier, error))
}

async fn describe_drafter(channel: Channel) -> Result<DrafterCard, Fault> {
    let request = within(DESCRIBE_MAX, pb::DescribeDrafterRequest {});
    let answer = DrafterClient::new(channel).describe(request).await.map_err(|status| lost(Party::Drafter, &status))?;
    answer.into_inner().try_into().map_err(|error| broken(Party::Drafter, error))
}

async fn fetch_tokenizer(channel: Channel) -> Result<TokenizerFiles, Fault> {
    let lost = |status: Status| lost(Party::Verifier, &status);
    let request = within(TOKENIZER_MAX, pb::FetchTokenizerRequest {});
    let mut pieces = VerifierClient::new(channel).fetch_tokenizer(request).await.map_err(lost)?.into_inner();
    let mut collector = TokenizerCollector::default();
    while let Some(piece) = pieces.message().await.map_err(lost)? {
        collector.add(&piece).map_err(|error| broken(Party::Verifier, error))?;
    }
    collector.finish().map_err(|error| broken(Party::Verifier, error))
}

/// What a service answers, to its last byte, within `limit`. The deadline that it is told binds nobody who was stopped, and
/// no client once the headers are there.
async fn answered_within<T>(
    limit: Duration,
    party: Party,
    answer: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let late = |_| Fault::new(party, FaultKind::Gone, format_args!("no answer came within {limit:?}"));
    timeout(limit, answer).await.map_err(late)?
}

/// Large tokenizers take a while to build.
async fn build_tokenizer(files: TokenizerFiles, workplace: Workplace) -> Result<Tokenizer, Fault> {
    let parts = Parts { tokenizer: files.tokenizer, config: files.config, chat_template: files.chat_template };
    let panicked = || Fault::new(Party::Verifier, FaultKind::Internal, "the target's tokenizer could not be made");
    let built = workplace.compute(|| Tokenizer::from_parts(parts)).await.ok_or_else(panicked)?;
    built.map_err(|error| broken(Party::Verifier, error))
}

/// A request that must be answered within `time`.
pub(crate) fn within<T>(time: Duration, message: T) -> Request<T> {
    Request::from_parts(outgoing(Some(Deadline::after(time))), Extensions::new(), message)
}

fn lost(party: Party, status: &Status) -> Fault {
    Fault::from_status(party, status)
}

fn broken(party: Party, error: impl std::fmt::Display) -> Fault {
    Fault::new(party, FaultKind::Internal, error)
}
