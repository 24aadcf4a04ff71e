//! Asking and answering in turns.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use espalier_client::{Answer, Client, ClientError};
use espalier_command::{Verdict, report};
use espalier_proto::{FaultKind, GeneratedToken, GenerationRequest};
use tokio::signal::ctrl_c;

use super::conversation::Conversation;
use super::lines::Lines;
use super::order::{HELP, Order};
use super::settings::Settings;
use crate::error::CliError;
use crate::generate::show;

/// What a person sees where a line is waited for.
const PROMPT: &str = "> ";

/// What a gateway's refusals have in common of texts that do not fit a context.
const OF_CONTEXT: &str = "the context of";

/// A conversation and all that it needs.
pub(crate) struct Talk {
    client: Client,
    settings: Settings,
    conversation: Conversation,
    lines: Lines,
}

/// What came of a question.
enum Told {
    Whole(Box<Answer>),
    /// It was stopped after these tokens.
    Stopped(Vec<GeneratedToken>),
}

/// Whether there is a next line.
#[derive(PartialEq, Eq)]
enum Next {
    Line,
    End(Verdict),
}

impl Talk {
    pub(crate) fn new(client: Client, settings: Settings, system: Option<String>) -> Result<Self, CliError> {
        Ok(Self { client, settings, conversation: Conversation::new(system), lines: Lines::open()? })
    }

    /// Until the last line, or until it is told to end. Where nobody types, the first failure ends it.
    pub(crate) async fn run(mut self) -> Result<Verdict, CliError> {
        if self.lines.are_typed {
            let green = report::styled(report::DRAFTED, "green tokens");
            anstream::eprintln!(
                "{} answers; {green} were drafted. /help lists commands, Ctrl-D ends.",
                self.settings.target
            );
        }
        loop {
            let line = tokio::select! {
                line = self.lines.next(PROMPT) => line?,
                _ = ctrl_c(), if !self.lines.are_typed => return Ok(Verdict::Interrupted),
            };
            let Some(line) = line else { return Ok(Verdict::Good) };
            match self.follow(&line).await {
                Ok(Next::Line) => {}
                Ok(Next::End(verdict)) => return Ok(verdict),
                Err(error) if self.lines.are_typed => anstream::eprintln!("{}", report::failure(&error)),
                Err(error) => return Err(error),
            }
        }
    }

    async fn follow(&mut self, line: &str) -> Result<Next, CliError> {
        match Order::read(line).map_err(|what| CliError::Order { what })? {
            Order::Nothing => {}
            Order::Say(question) => return self.ask(question).await,
            Order::Policy(policy) => self.settings.decoding(|decoding| decoding.policy.policy = policy)?,
            Order::Drafter(drafter) => self.settings.take_drafter(drafter)?,
            Order::Target(target) => self.settings.take_target(target)?,
            Order::Temperature(x) => self.settings.decoding(|decoding| decoding.answers.temperature = x)?,
            Order::Seed(seed) => self.settings.decoding(|decoding| decoding.answers.seed = seed)?,
            Order::System(text) => self.conversation.system = text,
            Order::Reset => self.conversation.reset(),
            Order::Save(path) => self.save(&path)?,
            Order::Help => anstream::println!("{HELP}"),
            Order::Quit => return Ok(Next::End(Verdict::Good)),
        }
        Ok(Next::Line)
    }

    /// Asks, forgets the oldest exchanges if it does not fit otherwise, and shows the answer as it comes.
    async fn ask(&mut self, question: String) -> Result<Next, CliError> {
        let mut cut = false;
        let told = loop {
            let request = self.settings.request(self.conversation.messages(Some(&question)), cut)?;
            match self.hear(request).await {
                Err(error) if !cut && is_of_context(&error) => match self.conversation.forget_oldest() {
                    true => faint("the conversation no longer fits the context: its oldest exchange is left out"),
                    // What is left is asked for as much as fits.
                    false => cut = true,
                },
                told => break told,
            }
        };
        let (answer, next) = self.tell(told?);
        self.conversation.add(question, answer);
        Ok(next)
    }

    async fn hear(&mut self, request: GenerationRequest) -> Result<Told, ClientError> {
        let mut heard = Vec::new();
        let see = |tokens: &[GeneratedToken]| {
            show(tokens);
            heard.extend_from_slice(tokens);
        };
        tokio::select! {
            answer = self.client.generate(request, see) => return Ok(Told::Whole(Box::new(answer?))),
            _ = ctrl_c() => {}
        }
        Ok(Told::Stopped(heard))
    }

    /// Ends the answer on the screen, with its figures; gives its text.
    fn tell(&self, told: Told) -> (String, Next) {
        match told {
            Told::Whole(answer) => {
                anstream::println!("{}", answer.completion.text);
                faint(figures(&answer));
                (answer.text(), Next::Line)
            }
            Told::Stopped(tokens) => {
                anstream::println!();
                faint(format!("stopped after {} tokens", tokens.len()));
                let next = if self.lines.are_typed { Next::Line } else { Next::End(Verdict::Interrupted) };
                (tokens.into_iter().map(|token| token.text).collect(), next)
            }
        }
    }

    fn save(&self, path: &Path) -> Result<(), CliError> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let text = self.conversation.to_json(&self.settings.target);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => CliError::Exists { path: path.to_owned() },
            _ => CliError::Write { path: path.to_owned(), source },
        })?;
        faint(format!("written to {}", path.display()));
        Ok(())
    }
}

/// Whether a gateway refused a question because it does not fit the context.
fn is_of_context(error: &ClientError) -> bool {
    matches!(error, ClientError::Fault(fault) if fault.kind == FaultKind::BadInput && fault.message.contains(OF_CONTEXT))
}

/// An answer's figures in one line.
fn figures(answer: &Answer) -> String {
    let drafted = answer.tokens.iter().filter(|token| token.drafted).count();
    let share = 100.0 * drafted as f64 / answer.tokens.len().max(1) as f64;
    let speculation = &answer.completion.speculation;
    format!(
        "{:.0} tokens/s, tau {}, {share:.0} % drafted by {}",
        answer.tokens_per_second(),
        report::figure(speculation.tau, 2),
        speculation.drafter,
    )
}

fn faint(text: impl std::fmt::Display) {
    anstream::eprintln!("{}", report::styled(report::FAINT, text));
}
