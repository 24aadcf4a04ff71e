//! The tokens of a prompt.

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Parts;
use axum::response::Response;
use espalier_openai::{Tokens, TokensAsked};
use espalier_proto::{Fault, Prompt};

use super::Http;
use super::reply::{Refused, json};
use crate::error::{GatewayError, RequestError};
use crate::service::Tokenized;

impl Http {
    /// Tells the tokens of a prompt.
    pub(super) async fn tokenize(&self, request: Request<Body>) -> Result<Response, Refused> {
        let (Parts { headers, .. }, body) = request.into_parts();
        self.holder(&headers)?;
        let TokensAsked { model, prompt } = TokensAsked::parse(&self.read(&headers, body).await?)?;
        self.check_model(&model)?;
        let prompt = Prompt::try_from(prompt).map_err(|error| GatewayError::from(RequestError::from(error)));
        let prompt = prompt.map_err(Fault::from)?;
        let told = self.gateway.tokenize(model, prompt).await.map_err(Fault::from)?;
        let Tokenized { context, tokens, texts } = told;
        Ok(json(&Tokens { count: tokens.len(), max_model_len: context, tokens, token_strs: texts }))
    }
}
