//! One process, and the network before it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use espalier_service_kit::{Deadline, channel, is_serving, outgoing};
use espalier_tests::Proxy;
use tokio::time::{sleep, timeout};

use crate::fault::Kind;

/// How long a service may take to say that it does its work.
const CHECK_MAX: Duration = Duration::from_secs(1);

/// How often it is asked.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// How a process is started.
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) listen: SocketAddr,
}

/// A process that others reach through a proxy.
pub(crate) struct Service {
    /// Those of one group stand in for each other.
    pub(crate) group: String,
    start: Start,
    log: File,
    proxy: Proxy,
    child: Mutex<Child>,
    well: AtomicBool,
}

impl Service {
    /// Starts it.
    pub(crate) async fn start(group: &str, start: Start, logs: &Path) -> Self {
        let log = File::create(logs.join(format!("{group}-{}.log", start.listen.port()))).unwrap();
        let child = Mutex::new(spawn(&start, &log));
        let (proxy, well) = (Proxy::start(start.listen).await, AtomicBool::new(false));
        Self { group: group.to_owned(), start, log, proxy, child, well }
    }

    /// What it is, and where.
    pub(crate) fn name(&self) -> String {
        format!("{} at {}", self.group, self.start.listen.port())
    }

    /// Where others find it.
    pub(crate) fn url(&self) -> &str {
        self.proxy.url()
    }

    /// Whether it does its work.
    pub(crate) fn is_well(&self) -> bool {
        self.well.load(Ordering::SeqCst)
    }

    /// Takes it away and brings it back; returns when it does its work again.
    pub(crate) async fn suffer(&self, kind: Kind, away: Duration) {
        self.well.store(false, Ordering::SeqCst);
        match kind {
            Kind::Killed => {
                let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
                child.kill().unwrap();
                child.wait().unwrap();
                *child = spawn(&self.start, &self.log);
            }
            Kind::Restarted => {
                self.signal("-TERM");
                while !self.has_ended() {
                    sleep(CHECK_EVERY).await;
                }
                *self.child.lock().unwrap_or_else(PoisonError::into_inner) = spawn(&self.start, &self.log);
            }
            Kind::Stopped => {
                self.signal("-STOP");
                sleep(away).await;
                self.signal("-CONT");
            }
            Kind::CutOff => {
                self.proxy.stall();
                sleep(away).await;
                self.proxy.mend();
            }
        }
        self.recover().await;
    }

    /// Returns when it does its work.
    pub(crate) async fn recover(&self) {
        // A new connection for each question: an old one may be one that was cut off.
        while !timeout(CHECK_MAX, self.serves()).await.unwrap_or(false) {
            assert!(!self.has_ended(), "{} ended by itself", self.name());
            sleep(CHECK_EVERY).await;
        }
        self.well.store(true, Ordering::SeqCst);
    }

    fn has_ended(&self) -> bool {
        let ended = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().unwrap();
        ended.is_some()
    }

    async fn serves(&self) -> bool {
        let channel = channel(self.url()).unwrap();
        is_serving(channel, outgoing(Some(Deadline::after(CHECK_MAX)))).await.unwrap_or(false)
    }

    fn signal(&self, signal: &str) {
        let id = self.child.lock().unwrap_or_else(PoisonError::into_inner).id();
        assert!(Command::new("kill").args([signal, &id.to_string()]).status().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It may have ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(start: &Start, log: &File) -> Child {
    let mut command = Command::new(&start.program);
    command.args(&start.args).args(["--listen", &start.listen.to_string()]);
    let (out, err) = (log.try_clone().unwrap(), log.try_clone().unwrap());
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    command.spawn().unwrap_or_else(|error| panic!("{} cannot be started: {error}", start.program.display()))
}
