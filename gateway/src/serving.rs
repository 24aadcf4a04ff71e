//! A gateway at its address: gRPC behind the guard, and HTTP beside it.

use std::future::Future;
use std::sync::Arc;

use espalier_proto::FILE_DESCRIPTOR_SET;
use espalier_proto::pb::generation_server::GenerationServer;
use espalier_service_kit::{Bound, ServeError};

use crate::counts::GatewaySource;
use crate::guard::Guarded;
use crate::http::{Http, routes};
use crate::intake::Intake;
use crate::service::{Gateway, Parts};

/// Serves until `shutdown` is ready, and keeps an eye on verifiers, drafters and the file of keys meanwhile.
///
/// # Errors
/// [`ServeError`] when the transport fails.
pub async fn serve(
    gateway: Gateway,
    bound: Bound,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let Parts { directory, keys, counts, door } = gateway.parts();
    bound.tells(GatewaySource { counts: Arc::clone(&counts), door, directory: Arc::clone(&directory) });
    let mut watching = directory.watch();
    if let Some(keys) = &keys {
        watching.spawn(keys.watch());
    }
    let intake = Intake::default();
    let http = Http { gateway: gateway.clone(), keys: keys.clone(), intake: intake.clone(), monitor: bound.monitor() };
    let server = GenerationServer::new(gateway);
    bound
        .with_http(routes(http))
        .serve(Guarded { server, keys, counts, directory, intake }, FILE_DESCRIPTOR_SET, shutdown)
        .await
}
