//! What a client sends, read to its end.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use espalier_openai::ErrorReply;
use tokio::time::timeout;

use super::Http;
use super::reply::Refused;
use crate::intake::DELIVERY_MAX;

impl Http {
    /// Reads a body when there is room for it. One that is longer than any request may be is refused by the length that it
    /// says, before it is read.
    pub(super) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Refused> {
        let limit = self.gateway.json_bytes_max();
        let said = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let length = said.unwrap_or(limit);
        if length > limit {
            return Err(ErrorReply::too_long(limit).into());
        }
        let _room = self.intake.room(length).await;
        match timeout(DELIVERY_MAX, to_bytes(body, length)).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) if said.is_none() => Err(ErrorReply::too_long(limit).into()),
            Ok(Err(error)) => Err(ErrorReply::unread(error).into()),
            Err(_) => Err(ErrorReply::unread(format_args!("it took longer than {DELIVERY_MAX:?}")).into()),
        }
    }
}
