//! `espalier bench decode`: plain and speculative decoding, prompt by prompt in one run.

use espalier_command::{Decoding, Form, OneTarget, PromptArgs, Verdict, report, request};
use espalier_local::SystemArgs;
use espalier_proto::GenerationRequest;
use espalier_speculation::Acceptance;

use crate::comparison::{Comparison, compare};
use crate::error::BenchError;

/// The options of `espalier bench decode`.
#[derive(Debug, clap::Args)]
pub struct Decode {
    /// The model that answers.
    #[arg(long, default_value = "medium", value_name = "T")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) asked: PromptArgs,
    #[command(flatten)]
    pub(crate) decoding: Decoding,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(system: &SystemArgs, args: &Decode) -> Result<Verdict, BenchError> {
    let prompts = args.asked.read()?;
    let local = OneTarget::start(&args.target, &args.decoding, system).await?;
    let requests = prompts.iter().map(|prompt| {
        let request = request(&local.target, prompt, Form::Chat, &args.decoding)?;
        Ok(GenerationRequest { drafter: local.drafter.clone(), ..request })
    });
    let requests = requests.collect::<Result<Vec<_>, BenchError>>()?;
    let promised = requests.iter().all(|request| request.sampling.acceptance() == Acceptance::Coupled);
    let bar = report::progress(requests.len() as u64, "prompts");
    let compared = compare(&mut local.client()?, requests, || bar.inc(1)).await;
    bar.finish_and_clear();
    local.stop().await?;
    let compared = compared?;
    if args.json {
        report::json(&compared);
    } else {
        print(&compared, promised);
    }
    Ok((compared.identical() || !promised).into())
}

/// `promised`: whether the texts have to be alike.
fn print(compared: &Comparison, promised: bool) {
    let identical = if promised { report::yes(compared.identical()) } else { "not promised by rejection".to_owned() };
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let rows = [
        ("target", compared.target.clone()),
        ("drafter", compared.drafter.clone()),
        ("policy", compared.policy.clone()),
        ("prompts", compared.prompts.to_string()),
        ("tokens", compared.tokens.to_string()),
        ("rounds", compared.rounds.to_string()),
        ("tau", format!("{:.3}", compared.tau)),
        ("accepted / verified nodes", format!("{} / {}", compared.accepted, compared.verified)),
        ("time drafting", percent(compared.draft_share)),
        ("time verifying", percent(compared.verify_share)),
        ("time waiting", percent(compared.wait_share)),
        ("plain tokens/s (median)", format!("{:.0}", compared.plain_tokens_per_second)),
        ("speculative tokens/s (median)", format!("{:.0}", compared.speculative_tokens_per_second)),
        ("speed-up (median of prompts)", format!("{:.2}x", compared.speedup)),
        ("identical to plain decoding", identical),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    anstream::println!("{}", report::table(&["", ""], rows));
}
