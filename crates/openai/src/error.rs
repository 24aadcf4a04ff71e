//! What is wrong with a request, and how the API says so.

use std::fmt::Display;
use std::time::Duration;

use espalier_proto::{Fault, FaultKind, WireError};
use serde::Serialize;
use thiserror::Error;

/// A rule of the API that a request breaks.
#[derive(Debug, Error)]
pub enum RequestError {
    /// It is no JSON.
    #[error("the body is no JSON object: {0}")]
    Json(#[source] serde_json::Error),
    /// A field that must be there is not.
    #[error("`{field}` is missing")]
    Missing {
        /// Its name.
        field: String,
    },
    /// A field has a value of another kind.
    #[error("`{field}`: {source}")]
    Kind {
        /// Its name.
        field: String,
        /// What was found, and what is wanted.
        source: serde_json::Error,
    },
    /// A rule of the protocol is broken.
    #[error("`{field}`: {source}")]
    Wire {
        /// The field's name.
        field: String,
        /// What was found, and what is wanted.
        source: WireError,
    },
    /// A number is not where it may be.
    #[error("`{field}` is {found}; it must be {low} to {high}")]
    Range {
        /// Its name.
        field: String,
        /// What was found.
        found: f64,
        /// The least that it may be.
        low: f64,
        /// The most.
        high: f64,
    },
    /// There are too many of something, or none.
    #[error("`{field}` holds {found}; it must hold 1 to {most}")]
    Count {
        /// Its name.
        field: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// A value that cannot be had here.
    #[error("`{field}` is {found}, which is not supported{}", known(.supported))]
    Unsupported {
        /// Its name.
        field: String,
        /// What was found.
        found: String,
        /// What can be had; nothing is said if empty.
        supported: &'static str,
    },
    /// A field that nothing is known of.
    #[error("`{field}` is not supported")]
    Unknown {
        /// Its name.
        field: String,
    },
}

fn known(supported: &&'static str) -> String {
    if supported.is_empty() { String::new() } else { format!("; {supported} is") }
}

impl RequestError {
    /// The field that is to blame.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Json(_) => None,
            Self::Missing { field }
            | Self::Kind { field, .. }
            | Self::Wire { field, .. }
            | Self::Range { field, .. }
            | Self::Count { field, .. }
            | Self::Unsupported { field, .. }
            | Self::Unknown { field } => Some(field),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "invalid_json",
            Self::Missing { .. } => "missing_required_parameter",
            Self::Kind { .. } => "invalid_type",
            Self::Wire { .. } | Self::Range { .. } | Self::Count { .. } => "invalid_value",
            Self::Unsupported { .. } => "unsupported_value",
            Self::Unknown { .. } => "unsupported_parameter",
        }
    }
}

/// An error as the API tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorReply {
    /// The HTTP status.
    pub status: u16,
    /// What the client reads.
    pub body: ErrorBody,
    /// When a further try may succeed, if that is known.
    pub retry_after: Option<Duration>,
}

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    error: Described,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Described {
    message: String,
    r#type: &'static str,
    param: Option<String>,
    code: Option<&'static str>,
}

/// What the API calls an error of a client's own making.
const INVALID: &str = "invalid_request_error";

/// And what it calls others.
const SERVER: &str = "server_error";

impl ErrorReply {
    fn new(status: u16, message: impl Display, r#type: &'static str, code: Option<&'static str>) -> Self {
        let error = Described { message: message.to_string(), r#type, param: None, code };
        Self { status, body: ErrorBody { error }, retry_after: None }
    }

    /// A call failed that has this field for what answers are held to, if it has one.
    pub fn of_call(fault: &Fault, constraint_field: Option<&str>) -> Self {
        let mut reply = Self::from(fault);
        if fault.in_constraint {
            reply.body.error.param = constraint_field.map(str::to_owned);
        }
        reply
    }

    /// There is no such target.
    pub fn no_model(message: impl Display) -> Self {
        let mut reply = Self::new(404, message, INVALID, Some("model_not_found"));
        reply.body.error.param = Some("model".to_owned());
        reply
    }

    /// There is nothing under an address.
    pub fn no_route(method: impl Display, path: &str) -> Self {
        Self::new(404, format_args!("there is no `{method} {path}`"), INVALID, Some("not_found"))
    }

    /// What is under an address is not called so.
    pub fn no_method(method: impl Display, path: &str) -> Self {
        Self::new(405, format_args!("`{path}` is not called by {method}"), INVALID, Some("method_not_allowed"))
    }

    /// The body is longer than any request may be.
    pub fn too_long(limit: usize) -> Self {
        Self::new(413, format_args!("the body has more than {limit} bytes, the limit"), INVALID, Some("too_long"))
    }

    /// The body did not come to its end.
    pub fn unread(why: impl Display) -> Self {
        Self::new(400, format_args!("the body could not be read: {why}"), INVALID, None)
    }
}

impl From<&RequestError> for ErrorReply {
    fn from(error: &RequestError) -> Self {
        let mut reply = Self::new(400, error, INVALID, Some(error.code()));
        reply.body.error.param = error.field().map(str::to_owned);
        reply
    }
}

impl From<&Fault> for ErrorReply {
    fn from(fault: &Fault) -> Self {
        let (status, r#type, code) = match fault.kind {
            FaultKind::BadInput => (400, INVALID, None),
            FaultKind::Unauthenticated => (401, INVALID, Some("invalid_api_key")),
            FaultKind::PermissionDenied => (403, INVALID, Some("permission_denied")),
            FaultKind::Overloaded => (429, "rate_limit_error", Some("rate_limit_exceeded")),
            FaultKind::Gone | FaultKind::LostSequence => (503, SERVER, Some("unavailable")),
            FaultKind::Late => (504, SERVER, Some("timeout")),
            FaultKind::Cancelled => (499, SERVER, Some("cancelled")),
            FaultKind::Internal => (500, SERVER, None),
        };
        Self { retry_after: fault.retry_after, ..Self::new(status, &fault.message, r#type, code) }
    }
}

#[cfg(test)]
mod tests {
    use espalier_proto::Party;
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_have_the_shape_of_the_api() {
        let error = RequestError::Unknown { field: "frobnicate".to_owned() };
        let ErrorReply { status, body, .. } = ErrorReply::from(&error);
        let described = json!({
            "message": "`frobnicate` is not supported", "type": "invalid_request_error",
            "param": "frobnicate", "code": "unsupported_parameter",
        });
        assert_eq!((status, serde_json::to_value(body).ok()), (400, Some(json!({"error": described}))));
    }

    #[test]
    fn who_is_refused_for_want_of_room_is_told_when_to_come_again() {
        let fault = Fault::new(Party::Gateway, FaultKind::Overloaded, "full").retry_after(Duration::from_secs(2));
        let reply = ErrorReply::from(&fault);
        assert_eq!((reply.status, reply.retry_after), (429, Some(Duration::from_secs(2))));
    }
}
