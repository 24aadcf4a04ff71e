//! `espalier doctor`: whether a system can be started here, and what to do where it cannot.
//!
//! What is there is looked at in this file, in [`survey`] and in [`ports::look`]; what that comes to is judged by functions
//! that are told what was found.

mod certificates;
mod configuration;
mod facts;
mod finding;
mod memory;
mod models;
mod ports;
mod processor;
mod survey;
mod threads;

use std::path::{Path, PathBuf};

use espalier_command::{Verdict, report};
use espalier_local::{DrafterChoice, LockArgs, SystemArgs, models_folder, processors};
use espalier_model::{DeviceKind, Processor};
use espalier_service_kit::{Bytes, IdentityFiles, MonitorArgs, TlsFiles, inspect};
use jiff::Timestamp;

use self::certificates::Shown;
use self::facts::{Kind, Part, Seen, readable};
use self::finding::{Finding, Findings, Level, counted};
use self::memory::{Memory, Need};
use self::ports::Listener;
use self::threads::Threads;
use crate::error::CliError;
use crate::serve::Layout;

/// The options of `espalier doctor`: those of `espalier serve`, and of a gateway's locks.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    layout: Layout,
    #[command(flatten)]
    monitor: MonitorArgs,
    #[command(flatten)]
    locks: LockArgs,
    /// A name or an IP address by which clients reach the gateway, which its certificate must have; may be given several
    /// times.
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// The gateway's file of API keys.
    #[arg(long, env = "ESPALIER_GATEWAY_KEYS", value_name = "FILE.json")]
    keys: Option<PathBuf>,
    /// Take no fingerprints, for which all weights are read: whether a drafter was made for these very weights is left out.
    #[arg(long)]
    quick: bool,
    /// Print JSON: one object.
    #[arg(long)]
    json: bool,
}

/// What a single checkpoint is.
pub(crate) struct Examined {
    /// What it is, in words.
    pub(crate) says: String,
    /// Whether it can be a target.
    pub(crate) is_target: bool,
}

/// Looks at a checkpoint by itself.
///
/// # Errors
/// What keeps it from being used.
pub(crate) fn examine(path: &Path) -> Result<Examined, CliError> {
    let facts = survey::examine(path)?;
    Ok(Examined { says: models::described(&facts), is_target: facts.kind == Kind::Model })
}

pub(crate) async fn run(system: &SystemArgs, args: &Doctor) -> Result<Verdict, CliError> {
    let seen = survey::survey(&args.layout, system, !args.quick)?;
    let mut checks = vec![processor::judge(&Processor::detect())];
    checks.extend(device(system));
    checks.push(threads::judge(look_at_threads(system)));
    checks.extend(memory::judge(&look_at_memory(system, &seen)));
    checks.push(models::judge_folder(&models_folder(system), &seen));
    checks.extend(models::judge(&seen));
    // What is wrong with a checkpoint has been said.
    if asked_for(&seen).all(|seen| seen.found.is_ok()) {
        checks.push(configuration::judge_plan(&misfits(system, args)));
    }
    for listener in listeners(args) {
        checks.push(ports::judge(&listener, &ports::look(listener.address).await));
    }
    checks.extend(certificates(args));
    checks.extend(args.keys.as_deref().map(|keys| configuration::judge_keys(&configuration::read_keys(keys))));
    let findings = Findings::new(checks);
    match args.json {
        true => report::json(&findings),
        false => print(&findings),
    }
    Ok((findings.verdict < Level::Fault).into())
}

/// That models are to run on what this program was not built for, or what cannot be looked at from here.
fn device(system: &SystemArgs) -> Option<Finding> {
    const CHECK: &str = "device";
    let device =
        [system.device, system.draft_device()].into_iter().find(|device| matches!(device, DeviceKind::Cuda(_)))?;
    if cfg!(feature = "cuda") {
        return Some(Finding::ok(CHECK, format!("{device} is looked at when models are loaded")));
    }
    let advice = "build it with `--features cuda`, or run models on the processor (--device cpu)";
    Some(Finding::fault(CHECK, format!("{device} is asked for, and this program was built without CUDA"), advice))
}

fn look_at_threads(system: &SystemArgs) -> Threads {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Threads { asked: system.threads(), usable: processors(), machine: threads::processors_told(&told) }
}

fn look_at_memory(system: &SystemArgs, seen: &[Seen]) -> Memory {
    let used = readable(seen, Part::Target).chain(readable(seen, Part::Drafter));
    let need = |named: facts::NamedFacts<'_>| {
        let size = named.facts.size.as_ref()?;
        let (name, sequences) = (named.name.to_owned(), espalier_local::SEQUENCES_MAX);
        Some(Need { name, weights: size.weights, context: size.of_context, sequences })
    };
    let free = Bytes::available().map(|Bytes(free)| free);
    Memory { free, budget: system.kv_memory, needs: used.filter_map(need).collect() }
}

fn asked_for(seen: &[Seen]) -> impl Iterator<Item = &Seen> {
    seen.iter().filter(|seen| seen.part != Part::Beside)
}

fn misfits(system: &SystemArgs, args: &Doctor) -> Result<Vec<configuration::Misfit>, espalier_local::LocalError> {
    let plan = args.layout.plan(system)?;
    Ok(configuration::misfits(&plan, &DrafterChoice::parse_all(&args.layout.drafter, system)?))
}

/// All that would listen on a port that is known beforehand.
fn listeners(args: &Doctor) -> Vec<Listener> {
    let layout = &args.layout;
    let gateway = layout.addresses_from(layout.port).take(1).map(|address| Listener {
        name: "gateway".to_owned(),
        address,
        option: "--port",
    });
    let targets = layout.targets.iter().zip(layout.addresses_from(layout.verifier_port));
    let verifiers = targets.map(|(target, address)| Listener {
        name: format!("verifier of `{target}`"),
        address,
        option: "--verifier-port",
    });
    let models = layout.drafter.iter().filter(|drafter| !["ngram", "none"].contains(&drafter.as_str()));
    let drafters = models.zip(layout.addresses_from(layout.drafter_port));
    let drafters = drafters.map(|(drafter, address)| Listener {
        name: format!("drafter `{drafter}`"),
        address,
        option: "--drafter-port",
    });
    let metrics = args.monitor.metrics_listen.into_iter();
    let metrics = metrics.map(|address| Listener { name: "metrics".to_owned(), address, option: "--metrics-listen" });
    let all = gateway.chain(verifiers).chain(drafters).chain(metrics);
    all.filter(|listener| listener.address.port() != 0).collect()
}

/// What certificates were given come to.
fn certificates(args: &Doctor) -> Vec<Finding> {
    let (locks, now) = (&args.locks, Timestamp::now());
    let door = locks.door_cert.clone().zip(locks.door_key.clone()).map(|(cert, key)| IdentityFiles { cert, key });
    let of_door = door.map(|identity| TlsFiles { identity: Some(identity), authorities: locks.door_ca.clone() });
    // Without a certificate of its own the door shows that of services.
    let names_of_services: &[String] = if of_door.is_some() { &[] } else { &args.names };
    let services =
        locks.tls.files().map(|files| certificates::judge(Shown::ToServices, &inspect(&files, names_of_services, now)));
    let door = of_door.map(|files| certificates::judge(Shown::ToClients, &inspect(&files, &args.names, now)));
    services.into_iter().chain(door).collect()
}

fn print(findings: &Findings) {
    let width = findings.checks.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
    for Finding { check, level, says, advice } in &findings.checks {
        let mark = match level {
            Level::Ok => report::styled(report::GOOD, "ok     "),
            Level::Warning => report::styled(report::DOUBTFUL, "warning"),
            Level::Fault => report::styled(report::BAD, "fault  "),
        };
        anstream::println!("{mark}  {check:width$}  {says}");
        if let Some(advice) = advice {
            anstream::println!("{:9}{:width$}  {}", "", "", report::styled(report::FAINT, format!("-> {advice}")));
        }
    }
    let (faults, warnings) = (findings.count(Level::Fault), findings.count(Level::Warning));
    let counts = [(findings.checks.len(), "check"), (faults, "fault"), (warnings, "warning")];
    let [checks, faults, warnings] = counts.map(|(count, what)| counted(count, what));
    anstream::println!("{checks}: {faults}, {warnings}");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    /// A command with nothing but these options.
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        doctor: Doctor,
    }

    #[test]
    fn what_listens_is_known_by_the_options_of_serve() {
        let listening = |args: &[&str]| -> Vec<String> {
            let line = Line::try_parse_from(["doctor"].iter().chain(args)).unwrap();
            listeners(&line.doctor)
                .iter()
                .map(|listener| format!("{} {}", listener.address.port(), listener.name))
                .collect()
        };
        let usual =
            ["50051 gateway", "50071 verifier of `small`", "50072 verifier of `medium`", "50061 drafter `sorted`"];
        assert_eq!(listening(&[]), usual);
        let ports = ["--port", "0", "--verifier-port", "0", "--drafter", "ngram", "--metrics-listen", "127.0.0.1:9"];
        assert_eq!(listening(&ports), ["9 metrics"]);
    }
}
