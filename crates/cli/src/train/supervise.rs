//! Work that can be told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use espalier_service_kit::signal;
use espalier_trainer::TrainError;

use crate::error::CliError;

/// Works on a thread of its own that is told to stop at the first SIGINT or SIGTERM.
pub(super) async fn supervise<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, TrainError> + Send + 'static,
) -> Result<T, CliError> {
    let told = signal()?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let mut working = tokio::task::spawn_blocking(move || work(&flag));
    let outcome = tokio::select! {
        outcome = &mut working => outcome,
        () = told => {
            stop.store(true, Ordering::Relaxed);
            working.await
        }
    };
    // A panic of the work goes on here.
    Ok(outcome.unwrap_or_else(|fault| std::panic::resume_unwind(fault.into_panic()))?)
}
