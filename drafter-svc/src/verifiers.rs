//! The verifiers that sequences are sent to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::{Fault, FaultKind, Party, VerifierCard, pb};
use espalier_service_kit::{Deadline, channel, outgoing};
use parking_lot::Mutex;
use tonic::transport::Channel;
use tonic::{Extensions, Request};

use crate::error::SequenceError;

/// Verifiers that connections are kept to; with more, all are made anew.
pub(crate) const VERIFIERS_MAX: usize = 256;

/// A verifier that does not describe itself within this time is not reached.
const DESCRIBE_MAX: Duration = Duration::from_secs(2);

/// A verifier that has described itself.
#[derive(Clone)]
pub(crate) struct Verifier {
    pub(crate) channel: Channel,
    pub(crate) card: Arc<VerifierCard>,
}

/// Those that were met so far, by address.
#[derive(Default)]
pub(crate) struct Verifiers(Mutex<HashMap<String, Verifier>>);

impl Verifiers {
    /// The verifier at an address; one that is met for the first time is asked what it is.
    pub(crate) async fn at(&self, address: &str) -> Result<Verifier, Fault> {
        if let Some(verifier) = self.0.lock().get(address) {
            return Ok(verifier.clone());
        }
        let channel = channel(address).map_err(SequenceError::from)?;
        let card = Arc::new(describe(channel.clone()).await?);
        let verifier = Verifier { channel, card };
        let mut known = self.0.lock();
        if known.len() >= VERIFIERS_MAX {
            known.clear();
        }
        known.insert(address.to_owned(), verifier.clone());
        Ok(verifier)
    }

    /// What answers at this address next may be another verifier.
    pub(crate) fn forget(&self, address: &str) {
        self.0.lock().remove(address);
    }
}

async fn describe(channel: Channel) -> Result<VerifierCard, Fault> {
    let metadata = outgoing(Some(Deadline::after(DESCRIBE_MAX)));
    let request = Request::from_parts(metadata, Extensions::new(), pb::DescribeVerifierRequest {});
    let described = VerifierClient::new(channel).describe(request).await;
    let described = described.map_err(|status| Fault::from_status(Party::Verifier, &status))?.into_inner();
    VerifierCard::try_from(described).map_err(|error| Fault::new(Party::Verifier, FaultKind::Internal, error))
}
