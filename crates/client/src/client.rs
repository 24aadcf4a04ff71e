//! A connection to a gateway.

use std::time::Duration;

use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::{
    API_KEY_HEADER, ApiKey, Begun, CLIENT_NAME_KEY, Completion, Fault, FaultKind, GeneratedToken, GenerationEvent,
    GenerationRequest, Party, SystemStatus, TargetCard, pb,
};
use espalier_service_kit::{Deadline, Dialer, outgoing};
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Extensions, Request, Status};

use crate::answer::Answer;
use crate::error::ClientError;
use crate::resume::Heard;

/// The longest that a status may take.
const STATUS_MAX: Duration = Duration::from_secs(5);

/// A connection to a gateway; clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    stub: GenerationClient<Channel>,
    name: Option<MetadataValue<Ascii>>,
    key: Option<ApiKey>,
    limit: Option<Duration>,
    /// How long a broken answer is asked for again without coming any further.
    patience: Duration,
}

/// What a call to the gateway ended with.
#[expect(clippy::needless_pass_by_value, reason = "what `map_err` calls takes its argument")]
fn fault(status: Status) -> Fault {
    Fault::from_status(Party::Gateway, &status)
}

impl Client {
    /// A client of the gateway at `http://host:port`; it connects when it is first used.
    ///
    /// # Errors
    /// [`ClientError::Connect`] if the text is no such address.
    pub fn new(gateway: &str) -> Result<Self, ClientError> {
        Self::over(&Dialer::default(), gateway)
    }

    /// A client of the gateway at `http://host:port`, or `https://host:port` under TLS; it connects when it is first used.
    ///
    /// # Errors
    /// [`ClientError::Connect`] if the text is no such address.
    pub fn over(dialer: &Dialer, gateway: &str) -> Result<Self, ClientError> {
        let stub = GenerationClient::new(dialer.channel(gateway)?);
        Ok(Self { stub, name: None, key: None, limit: None, patience: Duration::ZERO })
    }

    /// The same connection for requests in the name of one client: a gateway is fair between names, not requests.
    ///
    /// # Errors
    /// [`ClientError::Name`] for what is not printable ASCII.
    pub fn named(self, name: &str) -> Result<Self, ClientError> {
        let name = name.parse().map_err(|_| ClientError::Name { name: name.to_owned() })?;
        Ok(Self { name: Some(name), ..self })
    }

    /// The same connection for calls that show this key, to a gateway that asks for one. Then that is who asks, whatever
    /// name is given besides.
    #[must_use]
    pub fn with_key(self, key: ApiKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The same connection for requests that are of use for so long only.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// The same connection for requests that are gone on with when they were let in and their stream breaks, at whatever
    /// gateway then answers, until they have not come any further for so long. The text is that of an unbroken stream (by
    /// rejection, of the same distribution).
    #[must_use]
    pub fn resuming(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same call, with the key that it needs.
    fn with_own_key<T>(&self, mut call: Request<T>) -> Request<T> {
        if let Some(key) = &self.key {
            call.metadata_mut().insert(API_KEY_HEADER, key.to_header());
        }
        call
    }

    /// A call with all that travels beside its message, of a request that is so old.
    fn call<T>(&self, message: T, age: Duration) -> Request<T> {
        let mut request = self.with_own_key(Request::new(message));
        if let Some(name) = &self.name {
            request.metadata_mut().insert(CLIENT_NAME_KEY, name.clone());
        }
        if let Some(limit) = self.limit {
            request.set_timeout(limit.saturating_sub(age));
        }
        request
    }

    /// The targets that answer at present.
    ///
    /// # Errors
    /// [`ClientError`] if the gateway cannot be reached or makes no sense.
    pub async fn targets(&mut self) -> Result<Vec<TargetCard>, ClientError> {
        let answer =
            self.stub.list_targets(self.with_own_key(Request::new(pb::ListTargetsRequest {}))).await.map_err(fault)?;
        Ok(answer.into_inner().targets.into_iter().map(TargetCard::try_from).collect::<Result<_, _>>()?)
    }

    /// What the gateway and the services behind it are doing and have done.
    ///
    /// # Errors
    /// [`ClientError`] if the gateway does not answer within five seconds or makes no sense.
    pub async fn status(&mut self) -> Result<SystemStatus, ClientError> {
        let metadata = outgoing(Some(Deadline::after(STATUS_MAX)));
        let request = self.with_own_key(Request::from_parts(metadata, Extensions::new(), pb::SystemStatusRequest {}));
        let answer = tokio::time::timeout(STATUS_MAX, self.stub.status(request)).await;
        let answer = answer.map_err(|_| Fault::new(Party::Gateway, FaultKind::Late, "the gateway does not answer"))?;
        Ok(answer.map_err(fault)?.into_inner().try_into()?)
    }

    /// Asks, hands tokens to `see` as they come, and returns the whole answer. Dropping the future cancels the
    /// request.
    ///
    /// # Errors
    /// [`ClientError`] says who refused or failed, and why.
    pub async fn generate(
        &mut self,
        request: GenerationRequest,
        mut see: impl FnMut(&[GeneratedToken]),
    ) -> Result<Answer, ClientError> {
        let mut heard = Heard::new(request, self.patience);
        loop {
            let error = match self.hear(&mut heard, &mut see).await {
                Ok(completion) => return Ok(heard.answer(completion)),
                Err(error) => error,
            };
            match heard.pause_after(&error, Instant::now()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    /// Hears what is left of an answer, from one stream.
    async fn hear(
        &mut self,
        heard: &mut Heard,
        see: &mut impl FnMut(&[GeneratedToken]),
    ) -> Result<Completion, ClientError> {
        let (age, limit) = (heard.begun.elapsed(), self.limit);
        let (call, begun) = (self.call(heard.request.clone().into(), age), heard.begun);
        // This side's clock may strike first, and calls that a cancellation.
        let fault = |status: Status| match limit.filter(|&limit| begun.elapsed() >= limit) {
            Some(_) if status.code() == Code::Cancelled => {
                Fault::new(Party::Gateway, FaultKind::Late, status.message())
            }
            _ => fault(status),
        };
        let mut events = self.stub.generate(call).await.map_err(fault)?.into_inner();
        while let Some(event) = events.message().await.map_err(fault)? {
            match GenerationEvent::try_from(event)? {
                GenerationEvent::Begun(Begun { seed, .. }) => heard.begin(seed),
                GenerationEvent::Tokens(chunk) => {
                    see(&chunk.tokens);
                    heard.push(chunk);
                }
                GenerationEvent::Finished(completion) => return Ok(*completion),
            }
        }
        Err(ClientError::Cut)
    }
}
