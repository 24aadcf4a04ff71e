//! What verifiers and drafters say of themselves.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{DrafterCard, Fault, FaultKind, Party, TokenizerCollector, TokenizerFiles, VerifierCard, pb};
use espalier_service_kit::{Deadline, outgoing};
use espalier_text::{Parts, Tokenizer};
use tonic::transport::Channel;
use tonic::{Extensions, Request, Status};

use crate::config::Address;

/// A service that does not describe itself within this time counts as lost.
const DESCRIBE_MAX: Duration = Duration::from_secs(2);

/// A tokenizer that does not arrive within this time is not to be had.
const TOKENIZER_MAX: Duration = Duration::from_secs(60);

/// A service elsewhere, and what it last said of itself.
#[derive(Debug)]
pub(crate) struct Peer<T> {
    url: String,
    channel: Channel,
    known: RwLock<Known<T>>,
}

#[derive(Debug)]
struct Known<T> {
    card: Option<Arc<T>>,
    up: bool,
}

impl<T> Peer<T> {
    pub(crate) fn new(address: Address) -> Self {
        let known = RwLock::new(Known { card: None, up: false });
        Self { url: address.url, channel: address.channel, known }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// What it last said of itself, if it ever did.
    pub(crate) fn card(&self) -> Option<Arc<T>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).card.clone()
    }

    /// Whether it answered when last asked.
    pub(crate) fn is_up(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).up
    }

    /// It did not answer. What it said before is kept: it may come back.
    pub(crate) fn lost(&self, fault: &Fault) {
        let was_up = std::mem::replace(&mut self.write().up, false);
        if was_up {
            tracing::warn!(url = self.url, %fault, "a service is lost");
        }
    }

    fn answered(&self, card: Arc<T>) {
        let mut known = self.write();
        if !known.up {
            tracing::info!(url = self.url, "a service answers");
        }
        *known = Known { card: Some(card), up: true };
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Known<T>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A target, as its verifier describes it, and its tokenizer.
#[derive(Debug)]
pub(crate) struct TargetInfo {
    pub(crate) card: VerifierCard,
    pub(crate) tokenizer: Tokenizer,
}

impl Peer<TargetInfo> {
    /// Asks the verifier what it is; fetches its tokenizer unless it is known.
    pub(crate) async fn refresh(&self) {
        match self.ask().await {
            Ok(info) => self.answered(info),
            Err(fault) => self.lost(&fault),
        }
    }

    async fn ask(&self) -> Result<Arc<TargetInfo>, Fault> {
        let card = describe_verifier(self.channel()).await?;
        match self.card() {
            Some(known) if known.card == card => Ok(known),
            Some(known) if known.card.vocabulary.fingerprint == card.vocabulary.fingerprint => {
                Ok(Arc::new(TargetInfo { card, tokenizer: known.tokenizer.clone() }))
            }
            _ => {
                let tokenizer = build_tokenizer(fetch_tokenizer(self.channel()).await?).await?;
                Ok(Arc::new(TargetInfo { card, tokenizer }))
            }
        }
    }
}

impl Peer<DrafterCard> {
    /// Asks the drafter what it is.
    pub(crate) async fn refresh(&self) {
        match describe_drafter(self.channel()).await {
            Ok(card) => self.answered(Arc::new(card)),
            Err(fault) => self.lost(&fault),
        }
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

/// Large tokenizers take a while to build, so a thread for such work does it.
async fn build_tokenizer(files: TokenizerFiles) -> Result<Tokenizer, Fault> {
    let parts = Parts { tokenizer: files.tokenizer, config: files.config, chat_template: files.chat_template };
    let built = tokio::task::spawn_blocking(move || Tokenizer::from_parts(parts)).await;
    let built = built.map_err(|error| Fault::new(Party::Gateway, FaultKind::Internal, error))?;
    built.map_err(|error| broken(Party::Verifier, error))
}

fn within<T>(time: Duration, message: T) -> Request<T> {
    Request::from_parts(outgoing(Some(Deadline::after(time))), Extensions::new(), message)
}

fn lost(party: Party, status: &Status) -> Fault {
    Fault::from_status(party, status)
}

fn broken(party: Party, error: impl std::fmt::Display) -> Fault {
    Fault::new(party, FaultKind::Internal, error)
}
