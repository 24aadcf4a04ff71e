//! The program as one that renders chat templates, and does nothing else.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::SystemTime;

use espalier_text::{ChatTemplate, Conversation, TemplateSource};
use rlimit::Resource;

use super::error::MEMORY_MIB_MAX;
use super::frames::{self, Answer, Ready};

/// The first argument of a process that renders.
pub(super) const MODE: &str = "render-chat-templates";

/// If the first argument says so, renders the chat templates of another process of this program until that has gone. To be
/// called at the beginning of `main`, before there are threads or arguments are read.
pub fn render_chat_templates() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != MODE {
        return None;
    }
    Some(match serve(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn serve(from: &mut impl Read, out: &mut impl Write) -> io::Result<()> {
    limit_myself()?;
    frames::write(out, &Ready::of_this_program())?;
    let template = ChatTemplate::parse(&frames::read::<TemplateSource>(from)?);
    loop {
        let conversation: Conversation = match frames::read(from) {
            Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            conversation => conversation?,
        };
        let rendered = template.as_ref().map(|template| template.render(&conversation, SystemTime::now()));
        let answer = match rendered {
            Ok(Ok(prompt)) => Answer::Prompt(prompt),
            Ok(Err(fault)) => Answer::of_fault(&fault),
            Err(fault) => Answer::of_fault(fault),
        };
        frames::write(out, &answer)?;
    }
}

/// Bounds this process's memory, and keeps it from leaving that on a disk.
fn limit_myself() -> io::Result<()> {
    lower(Resource::CORE, 0)?;
    let more = MEMORY_MIB_MAX << 20;
    if cfg!(target_os = "linux") {
        lower(Resource::AS, address_space()?.saturating_add(more))?;
    }
    lower(Resource::DATA, more)
}

/// Sets a limit, unless there is a lower one.
fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let (soft, hard) = resource.get()?;
    resource.set(soft.min(limit), hard.min(limit))
}

/// Bytes of addresses that this process has.
fn address_space() -> io::Result<u64> {
    let sizes = std::fs::read_to_string("/proc/self/status")?;
    let size =
        sizes.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(size.ok_or(io::ErrorKind::InvalidData)? << 10)
}
