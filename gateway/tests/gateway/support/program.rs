//! The gateway as a program.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command};
use std::time::Duration;

use espalier_service_kit::{channel, is_serving, outgoing};
use tokio::time::{sleep, timeout};

use super::Toy;

/// It answers within this time.
const START_MAX: Duration = Duration::from_secs(20);

/// The program, which ends with its test.
pub struct Program {
    child: Child,
    pub url: String,
}

impl Program {
    /// Starts it under `limits`, what a shell is told before: `ulimit -n 64;`, say. Ready when it answers.
    pub async fn start(verifiers: &[Toy], limits: &str) -> Self {
        Self::start_with(verifiers, limits, "").await
    }

    /// The same with its output going elsewhere: `>/dev/full`, say.
    pub async fn start_with(verifiers: &[Toy], limits: &str, output: &str) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let urls: Vec<&str> = verifiers.iter().map(|toy| toy.url.as_str()).collect();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{limits} exec \"$0\" \"$@\" {output}"), env!("CARGO_BIN_EXE_espalier-gateway")]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--verifier", &urls.join(",")]);
        let child = command.spawn().unwrap();
        let program = Self { child, url: format!("http://127.0.0.1:{port}") };
        timeout(START_MAX, program.answers()).await.unwrap();
        program
    }

    async fn answers(&self) {
        while !is_serving(channel(&self.url).unwrap(), outgoing(None)).await.unwrap_or(false) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
