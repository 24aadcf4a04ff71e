//! Who renders chat templates: this process, or processes of their own that may end.
//!
//! A template comes from whoever made the target. Its instructions are bounded, the memory of its values is not, and a
//! process that has no more memory ends. So the programs render in processes of their own: each is bounded in memory
//! and time, and renders one template, so that nobody waits for another target's.

mod error;
mod frames;
mod process;
mod program;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use espalier_text::{Conversation, TemplateSource, TextError, Tokenizer};
use parking_lot::Mutex;

pub use self::error::RenderError;
use self::process::Process;
pub use self::program::render_chat_templates;

/// How long one conversation may take, and how long it waits for those before it. A usual one takes less than a
/// millisecond.
const JOB_MAX: Duration = Duration::from_secs(2);

/// Templates that have processes; the one that was not used for longest gives its own up.
const PROCESSES_MAX: usize = 16;

/// Renders the chat templates of targets. Clones share their processes.
#[derive(Debug, Clone, Default)]
pub struct Renderer(Option<Arc<Elsewhere>>);

/// Renders in processes of this program.
#[derive(Debug)]
struct Elsewhere {
    program: PathBuf,
    /// The last used last.
    lanes: Mutex<Vec<Arc<Lane>>>,
}

/// A template and its process, once it was needed.
#[derive(Debug)]
struct Lane {
    template: TemplateSource,
    process: Mutex<Option<Process>>,
}

impl Renderer {
    /// Renders in this process, which a template can end: for targets that are trusted.
    pub fn in_process() -> Self {
        Self(None)
    }

    /// Renders in processes of the program that runs, whose `main` begins with [`render_chat_templates`].
    pub fn this_program() -> Self {
        // Stands for the very file that runs, even where another version has taken its place.
        let same = PathBuf::from("/proc/self/exe");
        let program = if same.exists() { same } else { std::env::current_exe().unwrap_or_default() };
        Self::program(program)
    }

    /// Renders in processes of a program whose `main` begins with [`render_chat_templates`]. Where it cannot be started,
    /// conversations are refused.
    pub fn program(program: PathBuf) -> Self {
        Self(Some(Arc::new(Elsewhere { program, lanes: Mutex::default() })))
    }

    /// The prompt that a tokenizer's template makes of a conversation. May block for a while.
    pub(crate) fn render(&self, tokenizer: &Tokenizer, conversation: &Conversation) -> Result<String, RenderError> {
        let Some(elsewhere) = &self.0 else { return Ok(tokenizer.chat(conversation)?) };
        let template = tokenizer.chat_template().ok_or(TextError::NoTemplate)?;
        elsewhere.lane(template).render(elsewhere, conversation)
    }
}

impl Elsewhere {
    /// The lane of a template. One that has to give way goes once nobody renders in it.
    fn lane(&self, template: &TemplateSource) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        let lane = match lanes.iter().position(|lane| lane.template == *template) {
            Some(known) => lanes.remove(known),
            None => Arc::new(Lane { template: template.clone(), process: Mutex::default() }),
        };
        lanes.push(Arc::clone(&lane));
        let first = lanes.len().saturating_sub(PROCESSES_MAX);
        let gone: Vec<_> = lanes.drain(..first).collect();
        drop(lanes);
        // Their processes end after the lock was given back.
        drop(gone);
        lane
    }
}

impl Lane {
    /// One conversation at a time. A process that fails is given up, and the next conversation gets another one.
    fn render(&self, elsewhere: &Elsewhere, conversation: &Conversation) -> Result<String, RenderError> {
        let mut process = self.process.try_lock_for(JOB_MAX).ok_or(RenderError::Busy { limit: JOB_MAX })?;
        let mut running = match process.take().filter(Process::is_running) {
            Some(running) => running,
            None => Process::start(&elsewhere.program, &self.template)?,
        };
        let answer = running.render(conversation, Instant::now() + JOB_MAX).map_err(|fault| fault.told(JOB_MAX))?;
        *process = Some(running);
        Ok(answer.into_prompt()?)
    }
}
