//! A process that renders one template.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use espalier_text::{Conversation, TemplateSource};
use parking_lot::Mutex;

use super::error::RenderError;
use super::frames::{self, Answer, Ready};
use super::program::MODE;

/// How long a process may take to start, on a machine that is busy.
const START_MAX: Duration = Duration::from_secs(10);

/// A process with its template. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Process {
    child: Mutex<Child>,
    link: UnixStream,
}

/// What a process that fails on a conversation failed of.
#[derive(Debug)]
pub(super) struct JobFault(io::Error);

impl JobFault {
    /// The same as it is told, where so much time was given.
    pub(super) fn told(self, limit: Duration) -> RenderError {
        match self.0.kind() {
            io::ErrorKind::TimedOut => RenderError::Late { limit },
            _ => RenderError::Ended,
        }
    }
}

impl Process {
    /// Starts a process and hands it its template, which it parses when there is a conversation to wait for.
    pub(super) fn start(program: &Path, template: &TemplateSource) -> Result<Self, RenderError> {
        let started = || {
            let process = Self::spawn(program)?;
            let mut link = Timed { link: &process.link, until: Instant::now() + START_MAX };
            let ready: Ready = frames::read(&mut link)?;
            if ready.version != Ready::of_this_program().version {
                return Err(io::Error::other(format!("it is version {}", ready.version)));
            }
            frames::write(&mut link, template)?;
            Ok(process)
        };
        started().map_err(|fault| RenderError::Start { fault })
    }

    fn spawn(program: &Path) -> io::Result<Self> {
        let (link, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(program);
        command.arg(MODE).env_clear().current_dir("/");
        command.stdin(theirs.try_clone()?).stdout(theirs).stderr(Stdio::null());
        // Signals of a terminal are for the services alone: what they still do may need this process.
        command.process_group(0);
        let child = Mutex::new(command.spawn()?);
        Ok(Self { child, link })
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.child.lock().try_wait(), Ok(None))
    }

    pub(super) fn render(&mut self, conversation: &Conversation, until: Instant) -> Result<Answer, JobFault> {
        let mut link = Timed { link: &self.link, until };
        frames::write(&mut link, conversation).and_then(|()| frames::read(&mut link)).map_err(JobFault)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A connection that is used until some instant.
struct Timed<'a> {
    link: &'a UnixStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.link.set_read_timeout(Some(self.left()?))?;
        self.link.read(bytes).map_err(timed_out)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.link.set_write_timeout(Some(self.left()?))?;
        self.link.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sockets say that they would block.
fn timed_out(fault: io::Error) -> io::Error {
    if fault.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { fault }
}
