//! When a process is asked to end.

use std::future::Future;
use std::io;

use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal as listen};

/// The process may not listen for signals.
#[derive(Debug, Error)]
#[error("cannot listen for {name}")]
pub struct ShutdownError {
    /// The signal's name.
    pub name: &'static str,
    /// What the system said.
    pub source: io::Error,
}

/// A future that is ready at the first SIGINT or SIGTERM after this call.
///
/// # Errors
/// [`ShutdownError`] if the system refuses to deliver one of them.
pub fn signal() -> Result<impl Future<Output = ()> + Send, ShutdownError> {
    let mut interrupt = hear(SignalKind::interrupt(), "SIGINT")?;
    let mut terminate = hear(SignalKind::terminate(), "SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => tracing::info!(signal = "SIGINT", "asked to end"),
            _ = terminate.recv() => tracing::info!(signal = "SIGTERM", "asked to end"),
        }
    })
}

fn hear(kind: SignalKind, name: &'static str) -> Result<Signal, ShutdownError> {
    listen(kind).map_err(|source| ShutdownError { name, source })
}
