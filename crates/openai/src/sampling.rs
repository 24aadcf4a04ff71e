//! How tokens are chosen.

use std::collections::HashMap;

use espalier_proto::pb;

use crate::error::RequestError;
use crate::fields::Fields;

/// The API's own default, unlike the gateway's.
const TEMPERATURE: f64 = 1.0;

/// Takes what says how tokens are chosen. The gateway sees to what each number may be.
pub(crate) fn take(fields: &mut Fields, own: &mut Option<Fields>) -> Result<pb::Sampling, RequestError> {
    let bias: HashMap<String, f64> = fields.take("logit_bias")?.unwrap_or_default();
    let token = |(token, bias): (String, f64)| match token.parse() {
        Ok(token) => Ok((token, bias)),
        Err(_) => {
            let (field, found) = (fields.named("logit_bias"), format!("of `{token}`"));
            Err(RequestError::Unsupported { field, found, supported: "a token's number" })
        }
    };
    let logit_bias = bias.into_iter().map(token).collect::<Result<_, _>>()?;
    let seed: Option<i64> = fields.take("seed")?;
    let mut sampling = pb::Sampling {
        temperature: fields.take("temperature")?.unwrap_or(TEMPERATURE),
        top_p: fields.take("top_p")?,
        presence_penalty: fields.take("presence_penalty")?.unwrap_or_default(),
        frequency_penalty: fields.take("frequency_penalty")?.unwrap_or_default(),
        // All numbers of 64 bits name noise.
        seed: seed.map(i64::cast_unsigned),
        logit_bias,
        ..pb::Sampling::default()
    };
    if let Some(own) = own {
        sampling.top_k = own.take("top_k")?.unwrap_or_default();
        sampling.min_p = own.take("min_p")?.unwrap_or_default();
        sampling.repetition_penalty = own.take("repetition_penalty")?;
        let acceptance: Option<String> = own.take("acceptance")?;
        sampling.acceptance = match acceptance.as_deref() {
            None | Some("coupled") => pb::Acceptance::Coupled,
            Some("rejection") => pb::Acceptance::Rejection,
            Some(other) => {
                let (field, found) = (own.named("acceptance"), format!("\"{other}\""));
                return Err(RequestError::Unsupported { field, found, supported: "coupled or rejection" });
            }
        }
        .into();
    }
    Ok(sampling)
}
