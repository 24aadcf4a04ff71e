//! The command line: what all commands have in common, and which one is wanted.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};
use espalier_bench::Bench;
use espalier_local::SystemArgs;
use espalier_service_kit::TelemetryArgs;

use crate::certs::Certs;
use crate::chat::Chat;
use crate::completions::Completions;
use crate::convert::Convert;
use crate::doctor::Doctor;
use crate::explain::Explain;
use crate::folder::Folder;
use crate::generate::Generate;
use crate::key::Key;
use crate::man::Man;
use crate::plan::Plan;
use crate::probe::Probe;
use crate::pull::Pull;
use crate::serve::Serve;
use crate::top::Top;
use crate::train::Train;
use crate::tune::Tune;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Serves large language models faster by distributed speculative decoding: a small drafter proposes a tree of tokens,
/// the target checks it in one pass, and the text is exactly the target's own.
///
/// Without a command it runs a demonstration: two targets served by one drafter over gRPC, compared with plain
/// decoding.
#[derive(Debug, Parser)]
#[command(name = "espalier", version, styles = STYLES, mut_arg("log", |log| log.default_value("warn")))]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    /// Logs and traces.
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep a whole system up: a drafter, a verifier for each target, and the gateway.
    Serve(Serve),
    /// Continue prompts, through a running gateway or a system started for the purpose.
    Generate(Generate),
    /// Draw the trees that were drafted for an answer, and what became of them.
    Explain(Explain),
    /// Talk with a target in the terminal; drafted tokens are green.
    ///
    /// After each answer a line says how many tokens a second it had, how many tokens a round (tau), and what share was
    /// drafted. `/help` lists what can be changed meanwhile. Where standard input is no terminal, each of its lines is a
    /// message, and the first failure ends the program.
    Chat(Chat),
    /// Show what a running system does: targets, drafters, sequences, queues, tau, tokens per second and memory.
    ///
    /// `q`, Esc or Ctrl-C leave. Where there is no terminal, `--once` prints a table and `--json` an object a reading.
    Top(Top),
    /// Say whether a system can be started here, and what to do where it cannot.
    ///
    /// Takes the options of `espalier serve`, and those of a gateway's certificates and keys, and looks at processor, memory,
    /// threads, models, ports and files without starting anything. One line for each check: ok, warning, or fault with what
    /// to do. The exit code is 1 where something is a fault.
    Doctor(Doctor),
    /// Ask a running service whether it takes calls, by the standard health protocol.
    ///
    /// The exit code is 0 if it does, and 1 if it does not or nobody answers.
    Probe(Probe),
    /// Fetch a checkpoint from an address.
    ///
    /// Files that break off are gone on with by the same command, those that are there are kept, and none is replaced. Each is
    /// held against its checksum where there is one. Nothing else of this program downloads anything.
    Pull(Pull),
    /// Write certificates to try a system under TLS with: an authority, and one for each kind of service.
    Certs(Certs),
    /// Make an API key for a gateway that asks for them.
    ///
    /// The first line is the key, a random one that is kept nowhere. The second is the entry for the file that
    /// `espalier-gateway --keys` reads: it has the key's hash, and may be given limits.
    Key(Key),
    /// Print a script that has a shell complete command lines of this program.
    ///
    /// For bash it belongs into `~/.local/share/bash-completion/completions/espalier`, for zsh into a folder of `fpath` as
    /// `_espalier`, for fish into `~/.config/fish/completions/espalier.fish`.
    Completions(Completions),
    /// Write pages for the manual, one for each command.
    ///
    /// `~/.local/share/man/man1` is where `man` finds them on most systems.
    Man(Man),
    /// Check every checkpoint folder in a folder against its golden logits and its golden text.
    Golden(Folder),
    /// Write a checkpoint as a GGUF file, which llama.cpp reads too.
    ///
    /// Norms and biases stay 32-bit floats. The file holds the tokenizer if it is byte-level BPE of a known kind; otherwise
    /// the tokenizer's files are written beside it.
    Convert(Convert),
    /// Check the algorithms against vectors of an independent implementation.
    Vectors(Folder),
    /// Find the settings that are fastest, by measuring.
    #[command(subcommand)]
    Tune(Tune),
    /// Train a model or a drafter.
    #[command(subcommand)]
    Train(Train),
    /// Measure.
    #[command(subcommand)]
    Bench(Bench),
    /// Say how many drafters and verifiers a load needs, what tau and latency to expect, and where drafting stops paying.
    ///
    /// A simulation by a seed runs the real policies, gate, balancing and admission over devices whose passes take what the
    /// scenario says. Where the scenario has goals, the fewest services that keep to them are searched for, with drafters
    /// and without. docs/scale.md explains scenarios and says how far the simulation is off.
    Plan(Plan),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
