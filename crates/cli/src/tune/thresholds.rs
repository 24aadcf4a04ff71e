//! `espalier tune thresholds`: which confidence each exit of a drafter should have for a target.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use espalier_command::{Answers, Decoding, Form, PolicyArg, PromptArgs, Verdict, report, request, start};
use espalier_local::{DrafterChoice, Plan, Profiles, SystemArgs};
use espalier_speculation::ExitThresholds;
use serde::Serialize;

use super::descent::Descent;
use super::measure::{Bench, Measured};
use crate::error::CliError;

/// The options of `espalier tune thresholds`.
#[derive(Debug, clap::Args)]
pub(crate) struct Thresholds {
    /// The model that answers.
    #[arg(long, value_name = "T")]
    pub(crate) target: String,
    /// Who drafts: a drafter with several exits, by name in the folder of models or by path.
    #[arg(long, value_name = "D")]
    pub(crate) drafter: String,
    #[command(flatten)]
    pub(crate) asked: PromptArgs<10>,
    /// Answer each prompt so many times under each value.
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) repeats: NonZeroUsize,
    /// Go over all thresholds so many times at most; it ends when none changes any more.
    #[arg(long, default_value = "2", value_name = "N")]
    pub(crate) passes: NonZeroUsize,
    #[command(flatten)]
    pub(crate) answers: Answers,
    #[command(flatten)]
    pub(crate) policy: PolicyArg,
    /// Write the profile; what the file says of other targets and drafters is kept.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON, one object for each measurement and one for the result.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One measurement, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// The exit whose threshold was set, counted from 0.
    exit: usize,
    thresholds: &'a [f64],
    tokens: usize,
    seconds: f64,
    tokens_per_second: Option<f64>,
    /// Answers that differ from those under other thresholds.
    different: usize,
    /// Whether it was the fastest, from which the search went on.
    chosen: bool,
}

/// The result, as JSON.
#[derive(Serialize)]
struct Found<'a> {
    target: &'a str,
    drafter: &'a str,
    thresholds: &'a [f64],
}

/// What was measured while one threshold was set.
struct Setting {
    exit: usize,
    measured: Vec<Measured>,
    chosen: ExitThresholds,
}

pub(crate) async fn run(system: &SystemArgs, args: &Thresholds) -> Result<Verdict, CliError> {
    // What is wrong with the request is said before anything is loaded.
    let prompts = args.asked.read()?;
    let choice = DrafterChoice::parse(&args.drafter, system)?;
    let descent = Descent::new(exits(&choice)?, args.passes.get())?;
    let decoding = Decoding { policy: args.policy.clone(), ..Decoding::of(args.answers) };
    request(&args.target, "", Form::Chat, &decoding)?;
    let mut profiles = args.out.as_deref().map(known).transpose()?.unwrap_or_default();

    let drafter = choice.name();
    let plan = Plan::new(&[&args.target], &[choice], system)?;
    let target = plan.targets().into_iter().next().unwrap_or_default();
    let running = start(plan).await?;
    let (names, repeats) = ((target.clone(), drafter.clone()), args.repeats.get());
    let searched = search(&Bench { system: &running, target, drafter, decoding, prompts, repeats }, descent).await;
    running.stop().await?;
    let ((target, drafter), (best, settings)) = (names, searched?);

    if let Some(path) = &args.out {
        profiles.set(&target, &drafter, best.clone());
        report::write(path, &profiles.to_json())?;
    }
    print(&settings, &Found { target: &target, drafter: &drafter, thresholds: best.thresholds() }, args.json);
    let same = settings.iter().flat_map(|setting| &setting.measured).all(|measured| measured.different == 0);
    Ok(same.into())
}

/// How many exits the drafter has.
fn exits(choice: &DrafterChoice) -> Result<usize, CliError> {
    match choice.exits() {
        1 => Err(CliError::NoExits { drafter: choice.name() }),
        exits => Ok(exits),
    }
}

/// The profiles that a file holds already; none where there is no file.
fn known(path: &Path) -> Result<Profiles, CliError> {
    if path.exists() { Ok(Profiles::read(path)?) } else { Ok(Profiles::default()) }
}

/// Searches under a bar that shows the time left.
async fn search(bench: &Bench<'_>, descent: Descent) -> Result<(ExitThresholds, Vec<Setting>), CliError> {
    let bar = report::progress(0, "answers");
    let searched = settings(bench, descent, &bar).await;
    bar.finish_and_clear();
    searched
}

async fn settings(
    bench: &Bench<'_>,
    mut descent: Descent,
    bar: &indicatif::ProgressBar,
) -> Result<(ExitThresholds, Vec<Setting>), CliError> {
    let mut settings = Vec::new();
    loop {
        let candidates = descent.candidates()?;
        if candidates.is_empty() {
            return Ok((descent.best().clone(), settings));
        }
        bar.set_length(bar.position() + (descent.left() * bench.answers(candidates.len())) as u64);
        let measured = bench.measure(&candidates, || bar.inc(1)).await?;
        let exit = descent.exit();
        descent.choose(&rates(&measured)?);
        settings.push(Setting { exit, measured, chosen: descent.best().clone() });
    }
}

/// Tokens per second under each of the thresholds.
fn rates(measured: &[Measured]) -> Result<Vec<(ExitThresholds, f64)>, CliError> {
    let rate = |one: &Measured| Some((one.thresholds.clone(), one.pace.rate()?));
    measured.iter().map(|one| rate(one).ok_or(CliError::NothingTimed)).collect()
}

fn print(settings: &[Setting], found: &Found<'_>, json: bool) {
    if json {
        settings.iter().for_each(print_lines);
        return report::json(found);
    }
    for setting in settings {
        anstream::println!("the threshold of exit {}", setting.exit + 1);
        anstream::println!("{}", table(setting));
    }
    let thresholds: Vec<String> = found.thresholds.iter().map(f64::to_string).collect();
    anstream::println!("{} for {}: {}", found.drafter, found.target, thresholds.join(","));
}

fn print_lines(setting: &Setting) {
    for Measured { thresholds, pace, different } in &setting.measured {
        report::json(&Line {
            exit: setting.exit,
            thresholds: thresholds.thresholds(),
            tokens: pace.tokens,
            seconds: pace.seconds,
            tokens_per_second: pace.rate(),
            different: *different,
            chosen: *thresholds == setting.chosen,
        });
    }
}

fn table(setting: &Setting) -> comfy_table::Table {
    let rows = setting.measured.iter().map(|Measured { thresholds, pace, different }| {
        let chosen = if *thresholds == setting.chosen { "fastest" } else { "" };
        vec![
            thresholds.to_string(),
            pace.tokens.to_string(),
            report::figure(pace.rate(), 1),
            report::yes(*different == 0),
            chosen.to_owned(),
        ]
    });
    report::table(&["thresholds", "tokens", "tokens/s", "same text", ""], rows)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use espalier_speculation::THRESHOLD_GRID;

    use super::*;

    /// A system of the models of this repository.
    fn shipped() -> SystemArgs {
        let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models");
        SystemArgs { models: Some(models), ..SystemArgs::default() }
    }

    /// `small` with an exit after its second layer, as a drafter.
    fn sorted(folder: &Path) {
        let small = shipped().models.unwrap().join("small");
        for entry in std::fs::read_dir(small).unwrap().map(Result::unwrap) {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
        let config = folder.join("config.json");
        let mut read: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
        read["espalier_exits"] = serde_json::json!([2, read["num_hidden_layers"]]);
        std::fs::write(config, read.to_string()).unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_fastest_is_written_beside_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let [drafter, out] = ["twice", "profiles.json"].map(|name| folder.path().join(name));
        std::fs::create_dir(&drafter).unwrap();
        sorted(&drafter);
        std::fs::write(&out, r#"{"medium": {"other": [0.7]}}"#).unwrap();
        let mut prompts = tempfile::NamedTempFile::new().unwrap();
        writeln!(prompts, r#"{{"prompt": "What is 2 + 3?"}}"#).unwrap();
        let one = NonZeroUsize::MIN;
        let args = Thresholds {
            target: "small".to_owned(),
            drafter: drafter.to_string_lossy().into_owned(),
            asked: PromptArgs { prompts: prompts.path().to_owned(), limit: one },
            repeats: one,
            passes: one,
            answers: Answers { max_tokens: 12, temperature: 0.0, seed: 0 },
            policy: PolicyArg { policy: Some("constant,k=2".to_owned()) },
            out: Some(out.clone()),
            json: true,
        };
        assert_eq!(run(&shipped(), &args).await.unwrap(), Verdict::Good);
        let profiles = Profiles::read(&out).unwrap();
        let found = profiles.thresholds("small", "twice").unwrap().thresholds();
        assert!(found.len() == 1 && THRESHOLD_GRID.contains(&found[0]), "{found:?}");
        assert!(profiles.thresholds("medium", "other").is_some());

        let whole = Thresholds { drafter: "small".to_owned(), ..args };
        let refusal = run(&shipped(), &whole).await.unwrap_err().to_string();
        assert_eq!(refusal, "drafter `small` has one exit only, so it has no thresholds to tune");
    }
}
