//! Metrics that are sent by OTLP over gRPC.

use std::time::{Duration, SystemTime};

use espalier_metrics::{Reporter, Span, export};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic::Status;
use tonic::transport::Channel;

use crate::monitor::Monitor;

/// How often they are sent: as often as Prometheus usually asks.
const INTERVAL: Duration = Duration::from_secs(15);

/// How long sending may take.
const SENDING_MAX: Duration = Duration::from_secs(5);

/// Sends metrics in the background, for as long as it is there.
#[derive(Debug)]
pub(super) struct Sending {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Sending {
    /// Begins; needs a running tokio runtime.
    pub(super) fn begin(channel: Channel, reporter: Reporter, monitor: Monitor) -> Self {
        let (stop, stopped) = oneshot::channel();
        let sender =
            Sender { client: MetricsServiceClient::new(channel), reporter, monitor, started: SystemTime::now() };
        Self { stop, task: tokio::spawn(sender.run(stopped)) }
    }

    /// Sends the last ones.
    pub(super) async fn end(self) {
        // It may have ended by itself, with the runtime.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

struct Sender {
    client: MetricsServiceClient<Channel>,
    reporter: Reporter,
    monitor: Monitor,
    started: SystemTime,
}

impl Sender {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut turns = interval(INTERVAL);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            let last = tokio::select! {
                _ = &mut stopped => true,
                _ = turns.tick() => false,
            };
            let late = || Status::deadline_exceeded(format!("it took longer than {SENDING_MAX:?}"));
            let sent = timeout(SENDING_MAX, self.send()).await.unwrap_or_else(|_| Err(late()));
            // Each is told once.
            match (&sent, failing) {
                (Err(status), false) => tracing::warn!(%status, "metrics cannot be sent"),
                (Ok(()), true) => tracing::info!("metrics are sent again"),
                _ => {}
            }
            failing = sent.is_err();
            if last {
                return;
            }
        }
    }

    async fn send(&mut self) -> Result<(), Status> {
        let span = Span { from: self.started, to: SystemTime::now() };
        let message = export(&self.monitor.registry().snapshot(), &self.reporter, span);
        self.client.export(message).await.map(drop)
    }
}
