//! Whether a service takes calls, as it says itself.

use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Extensions, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Whether the server behind a channel takes calls, by the standard health protocol. One that does not speak it does.
///
/// # Errors
/// The status with which the question failed.
pub async fn is_serving(channel: Channel, metadata: MetadataMap) -> Result<bool, Status> {
    let message = HealthCheckRequest { service: String::new() };
    let request = Request::from_parts(metadata, Extensions::new(), message);
    match HealthClient::new(channel).check(request).await {
        Ok(answer) => Ok(answer.into_inner().status() == ServingStatus::Serving),
        Err(status) if matches!(status.code(), Code::Unimplemented | Code::NotFound) => Ok(true),
        Err(status) => Err(status),
    }
}
