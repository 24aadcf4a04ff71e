//! `espalier train text`: a target's own text.

use espalier_command::{Verdict, prompts, report};
use espalier_local::SystemArgs;
use espalier_trainer::{TextSummary, write_text};
use indicatif::ProgressBar;

use super::args::Text;
use super::folders::folder;
use super::supervise::supervise;
use crate::error::CliError;

/// Has the target answer the prompts.
pub(super) async fn run(system: &SystemArgs, args: &Text) -> Result<Verdict, CliError> {
    let prompts = prompts::read(&args.prompts, args.limit.map(usize::from))?;
    let recipe = args.recipe(folder(system, &args.target)?, system);
    let bar = report::progress(prompts.len() as u64, &format!("{} answers", args.target));
    let out = args.out.clone();
    let written = supervise(move |stop| {
        let written = write_text(&recipe, &prompts, &out, &mut |so_far| tick(&bar, so_far), stop);
        bar.finish_and_clear();
        written
    });
    match written.await? {
        Some(summary) => {
            show(&summary, args);
            Ok(Verdict::Good)
        }
        None => {
            anstream::eprintln!("interrupted; {} was not written", args.out.display());
            Ok(Verdict::Interrupted)
        }
    }
}

fn tick(bar: &ProgressBar, so_far: &TextSummary) {
    bar.set_position(so_far.answers as u64);
    bar.set_message(format!("{:.0} tok/s", speed(so_far)));
}

/// Tokens of answers in a second.
fn speed(summary: &TextSummary) -> f64 {
    summary.answer_tokens as f64 / summary.seconds.max(f64::MIN_POSITIVE)
}

/// The result, for people or for programs.
fn show(summary: &TextSummary, args: &Text) {
    if args.json {
        return report::json(summary);
    }
    let TextSummary { answers, ended, prompt_tokens, answer_tokens, seconds } = summary;
    let (out, speed) = (args.out.display(), speed(summary));
    anstream::println!("{out}: {answers} answers, {ended} of them ended by {}", args.target);
    anstream::println!("{prompt_tokens} tokens read, {answer_tokens} said in {seconds:.0} s, {speed:.0} a second");
}
