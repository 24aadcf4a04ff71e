//! The verifiers that sequences are sent to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{Fault, FaultKind, Party, VerifierCard, pb};
use espalier_service_kit::{Deadline, Dialer, outgoing};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Extensions, Request};

use crate::allowed::AllowedHost;
use crate::error::SequenceError;

/// Verifiers that connections are kept to; with more, all are made anew.
pub(crate) const VERIFIERS_MAX: usize = 256;

/// Verifiers that are asked at once what they are: who names one holds no slot yet.
const ASKED_MAX: usize = 64;

/// A verifier that does not describe itself within this time is not reached.
const DESCRIBE_MAX: Duration = Duration::from_secs(2);

/// What a verifier said of itself may not hold any more after so much time: another model may be served there.
const CARD_MAX: Duration = Duration::from_secs(1);

/// A verifier that has described itself.
#[derive(Clone)]
pub(crate) struct Verifier {
    pub(crate) channel: Channel,
    pub(crate) card: Arc<VerifierCard>,
    described: Instant,
}

/// Those that were met so far, by address, and which may be met.
pub(crate) struct Verifiers {
    allowed: Vec<AllowedHost>,
    dialer: Dialer,
    known: Mutex<HashMap<String, Verifier>>,
    asked: Semaphore,
}

impl Verifiers {
    /// None was met so far; those on other hosts than these are not, if there are any.
    pub(crate) fn new(allowed: Vec<AllowedHost>, dialer: Dialer) -> Self {
        Self { allowed, dialer, known: Mutex::default(), asked: Semaphore::new(ASKED_MAX) }
    }

    /// The verifier at an address, asked what it is unless it has just said so.
    pub(crate) async fn at(&self, address: &str) -> Result<Verifier, Fault> {
        if !AllowedHost::any_admits(&self.allowed, address) {
            let allowed: Vec<String> = self.allowed.iter().map(ToString::to_string).collect();
            let (verifier, allowed) = (address.to_owned(), allowed.join(", "));
            return Err(SequenceError::NotAllowed { verifier, allowed }.into());
        }
        let known = self.known.lock().get(address).cloned();
        let channel = match known {
            Some(verifier) if verifier.described.elapsed() < CARD_MAX => return Ok(verifier),
            Some(verifier) => verifier.channel,
            None => self.dialer.channel(address).map_err(SequenceError::from)?,
        };
        let _asking = self.asked.try_acquire().map_err(|_| SequenceError::Asked { limit: ASKED_MAX })?;
        let card = Arc::new(describe(channel.clone()).await?);
        let verifier = Verifier { channel, card, described: Instant::now() };
        let mut known = self.known.lock();
        if known.len() >= VERIFIERS_MAX {
            known.clear();
        }
        known.insert(address.to_owned(), verifier.clone());
        Ok(verifier)
    }

    /// What answers at this address next may be another verifier.
    pub(crate) fn forget(&self, address: &str) {
        self.known.lock().remove(address);
    }
}

async fn describe(channel: Channel) -> Result<VerifierCard, Fault> {
    let metadata = outgoing(Some(Deadline::after(DESCRIBE_MAX)));
    let request = Request::from_parts(metadata, Extensions::new(), pb::DescribeVerifierRequest {});
    let mut client = VerifierClient::new(channel);
    // The deadline that it is told binds nobody who was stopped.
    let described = timeout(DESCRIBE_MAX, client.describe(request)).await;
    let late = || Fault::new(Party::Verifier, FaultKind::Gone, "it did not say in time what it is");
    let described = described.map_err(|_| late())?.map_err(|status| Fault::from_status(Party::Verifier, &status));
    // It is the drafter's own time that ran out, and not the sequence's.
    let described = described.map_err(|fault| if fault.kind == FaultKind::Late { late() } else { fault })?.into_inner();
    VerifierCard::try_from(described).map_err(|error| Fault::new(Party::Verifier, FaultKind::Internal, error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;

    use futures::future::join_all;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;

    #[tokio::test]
    async fn addresses_that_never_answer_are_known_side_by_side_and_soon() {
        // One takes connections and never reads; of the other, whoever wants one hears nothing.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let full = socket.listen(0).unwrap();
        let _takes_all_room = TcpStream::connect(full.local_addr().unwrap()).await.unwrap();
        let verifiers = Verifiers::new(Vec::new(), Dialer::default());
        let addresses = [&silent, &full].map(|hole| format!("http://{}", hole.local_addr().unwrap()));
        let begun = Instant::now();
        let asked = addresses.iter().cycle().take(20).map(|address| verifiers.at(address));
        for answer in join_all(asked).await {
            let fault = answer.err().unwrap();
            assert_eq!((fault.party, fault.kind), (Party::Verifier, FaultKind::Gone), "{fault}");
        }
        let took = begun.elapsed();
        println!("twenty sequences knew within {took:?} that their verifiers never answer");
        assert!(took < DESCRIBE_MAX * 3 / 4, "{took:?}");
    }
}
