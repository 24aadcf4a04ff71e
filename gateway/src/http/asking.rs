//! A request on its way to the targets.

use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use espalier_openai::{Asked, ErrorReply, Kind, Names};
use espalier_proto::pb::generation_server::Generation;
use espalier_proto::{CLIENT_NAME_KEY, Fault, Party, pb};
use espalier_service_kit::CallerAddress;
use tonic::metadata::MetadataMap;

use super::rates::add_rates;
use super::reply::Refused;
use super::telling::{Choices, Texts};
use super::{Http, now};
use crate::keys::Holder;
use crate::service::Gateway;
use crate::session::SESSION_HEADER;

/// What names the request in the logs of all services, in its response.
const ID_HEADER: &str = "x-request-id";

/// Headers that mean the same as in gRPC.
const HEADERS: [&str; 3] = [CLIENT_NAME_KEY, SESSION_HEADER, "grpc-timeout"];

/// Who asks, and how.
struct Caller {
    holder: Option<Holder>,
    address: Option<CallerAddress>,
    metadata: MetadataMap,
}

impl Http {
    /// Answers a request for texts.
    pub(super) async fn generate(&self, kind: Kind, request: Request<Body>) -> Result<Response, Refused> {
        let (Parts { headers, extensions, .. }, body) = request.into_parts();
        let holder = self.holder(&headers)?;
        let asked = Asked::parse(kind, &self.read(&headers, body).await?)?;
        self.check_model(&asked.model)?;
        let address = extensions.get::<CallerAddress>().copied();
        let caller =
            Arc::new(Caller { holder: holder.clone(), address, metadata: metadata(&headers, asked.user.as_deref()) });
        let call = |choice| begin(self.gateway.clone(), choice, Arc::clone(&caller));
        let field = asked.constraint_field.as_deref();
        let choices = Choices::begin(asked.choices.into_iter().map(call), asked.of_each).await;
        let choices = choices.map_err(|fault| ErrorReply::of_call(&fault, field))?;
        let id = choices.id().to_owned();
        let prefix = match kind {
            Kind::Chat => "chatcmpl-",
            Kind::Completion => "cmpl-",
        };
        let names = Names { kind, id: format!("{prefix}{id}"), created: now(), model: asked.model };
        let mut response = match asked.streams {
            true => choices.stream(names, asked.tells_usage),
            false => choices.whole(&names).await?,
        };
        if let Ok(id) = id.parse() {
            response.headers_mut().insert(ID_HEADER, id);
        }
        if let Some(holder) = &holder {
            add_rates(response.headers_mut(), holder);
        }
        Ok(response)
    }

    /// A target that nobody has heard of is told by the name that the API has for it.
    pub(super) fn check_model(&self, model: &str) -> Result<(), Refused> {
        match self.gateway.check_known(model) {
            Err(error) if error.missing().is_none() => Err(ErrorReply::no_model(error).into()),
            _ => Ok(()),
        }
    }
}

/// Gets one choice under way.
async fn begin(gateway: Gateway, choice: pb::GenerateRequest, caller: Arc<Caller>) -> Result<Texts, Fault> {
    let mut request = tonic::Request::new(choice);
    *request.metadata_mut() = caller.metadata.clone();
    if let Some(holder) = &caller.holder {
        request.extensions_mut().insert(holder.clone());
    }
    if let Some(address) = caller.address {
        request.extensions_mut().insert(address);
    }
    let answered = gateway.generate(request).await;
    answered.map(tonic::Response::into_inner).map_err(|status| Fault::from_status(Party::Gateway, &status))
}

/// What the headers of a request say in terms of gRPC. Its `user` is the client, where no header names one.
fn metadata(headers: &HeaderMap, user: Option<&str>) -> MetadataMap {
    let mut known = HeaderMap::new();
    for name in HEADERS {
        if let Some(value) = headers.get(name) {
            known.insert(name, value.clone());
        }
    }
    // It was read as the name of a client.
    if let Some(user) = user.and_then(|user| user.parse().ok()) {
        known.entry(CLIENT_NAME_KEY).or_insert(user);
    }
    MetadataMap::from_headers(known)
}
