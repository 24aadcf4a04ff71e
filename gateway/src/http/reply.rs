//! Responses.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use espalier_openai::{ErrorReply, RequestError};
use espalier_proto::Fault;
use serde::Serialize;

/// A call that gets no answer.
#[derive(Debug)]
pub(super) struct Refused(Box<ErrorReply>);

impl From<ErrorReply> for Refused {
    fn from(reply: ErrorReply) -> Self {
        Self(Box::new(reply))
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        ErrorReply::from(&fault).into()
    }
}

impl From<RequestError> for Refused {
    fn from(error: RequestError) -> Self {
        ErrorReply::from(&error).into()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let ErrorReply { status, body, retry_after } = *self.0;
        let mut response = json(&body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(after) = retry_after {
            // Whole seconds, as HTTP has them: who comes a little late finds room.
            let seconds = after.as_secs_f64().ceil() as u64;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An object. None of those that are told can fail to be written.
pub(super) fn json(object: &impl Serialize) -> Response {
    let written = serde_json::to_vec(object).unwrap_or_default();
    let mut response = Response::new(Body::from(written));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
