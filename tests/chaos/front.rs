//! One address for several gateways, as a load balancer has it: connections go to those in turns that are in health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use espalier_local::ANY_PORT;
use espalier_service_kit::{Deadline, channel, is_serving, outgoing};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How often gateways are asked whether they are in health, and how soon they must answer.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// The address; dropping it closes all connections.
pub(crate) struct Front {
    url: String,
    _tasks: JoinSet<()>,
}

/// A gateway, and whether it answered when it was last asked.
struct Gateway {
    url: String,
    well: AtomicBool,
}

impl Front {
    /// Takes connections for gateways.
    pub(crate) async fn start(gateways: Vec<String>) -> Self {
        let listener = TcpListener::bind(ANY_PORT).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let gateway = |url| Arc::new(Gateway { url, well: AtomicBool::new(false) });
        let gateways: Vec<_> = gateways.into_iter().map(gateway).collect();
        let mut tasks = JoinSet::new();
        for gateway in &gateways {
            tasks.spawn(watch(Arc::clone(gateway)));
        }
        tasks.spawn(forward(listener, gateways));
        Self { url, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

async fn watch(gateway: Arc<Gateway>) {
    loop {
        // A new connection for each question, as the next client has.
        let serving = is_serving(channel(&gateway.url).unwrap(), outgoing(Some(Deadline::after(CHECK_EVERY))));
        let well = matches!(timeout(CHECK_EVERY, serving).await, Ok(Ok(true)));
        gateway.well.store(well, Ordering::SeqCst);
        sleep(CHECK_EVERY).await;
    }
}

async fn forward(listener: TcpListener, mut gateways: Vec<Arc<Gateway>>) {
    // Connections end with this set.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        gateways.rotate_left(1);
        let well = gateways.iter().find(|gateway| gateway.well.load(Ordering::SeqCst));
        // Without any in health, one may be all the same.
        if let Some(gateway) = well.or(gateways.first()) {
            connections.spawn(pipe(client, Arc::clone(gateway)));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn pipe(mut client: TcpStream, gateway: Arc<Gateway>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut service = TcpStream::connect(gateway.url.trim_start_matches("http://")).await?;
    service.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut service).await?;
    Ok(())
}
