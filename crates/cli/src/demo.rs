//! The demonstration: two targets served by one drafter, compared with plain decoding.

use espalier_bench::{Comparison, compare};
use espalier_client::Client;
use espalier_command::{Decoding, Form, Verdict, report, request, start};
use espalier_local::{DEFAULT_DRAFTER, DrafterChoice, Plan, SystemArgs};
use espalier_proto::GenerationRequest;

use crate::error::CliError;
use crate::generate;

/// A problem of GSM8K's test set (MIT licence, openai/grade-school-math).
const QUESTION: &str = "Carla is downloading a 200 GB file. Normally she can download 2 GB/minute, but 40% of the way \
    through the download, Windows forces a restart to install updates, which takes 20 minutes. Then Carla has to \
    restart the download from the beginning. How load does it take to download the file?";

const TARGETS: [&str; 2] = ["small", "medium"];

pub(crate) async fn run(system: &SystemArgs) -> Result<Verdict, CliError> {
    let drafter = DrafterChoice::parse(DEFAULT_DRAFTER, system)?;
    let running = start(Plan::new(&TARGETS, &[drafter], system)?).await?;
    let verdict = show(Client::new(running.gateway())?).await;
    running.stop().await?;
    verdict
}

async fn show(mut client: Client) -> Result<Verdict, CliError> {
    anstream::println!("{}", report::styled(report::FAINT, QUESTION));
    let mut compared = Vec::new();
    for target in TARGETS {
        anstream::println!("\n{target}, {} drafted by another model:", report::styled(report::DRAFTED, "green tokens"));
        let request = ask(target)?;
        client.generate(request.clone(), generate::show).await?;
        anstream::println!();
        // What the text itself offers needs no model: beside a small one it is the mark to beat.
        let copied = GenerationRequest { drafter: Some("ngram".to_owned()), ..request.clone() };
        compared.push(measure(&mut client, request).await?);
        compared.push(measure(&mut client, copied).await?);
    }
    anstream::println!("\n{}", table(&compared));
    Ok(compared.iter().all(Comparison::identical).into())
}

fn ask(target: &str) -> Result<GenerationRequest, CliError> {
    Ok(request(target, QUESTION, Form::Chat, &Decoding::greedy(128))?)
}

/// Plain and speculative decoding in turns.
async fn measure(client: &mut Client, request: GenerationRequest) -> Result<Comparison, CliError> {
    const TURNS: usize = 5;
    Ok(compare(client, vec![request; TURNS], || {}).await?)
}

fn table(compared: &[Comparison]) -> comfy_table::Table {
    let header = [
        "target",
        "drafter",
        "tokens",
        "rounds",
        "tau",
        "tokens/s",
        "plain tokens/s",
        "speed-up",
        "identical to plain decoding",
    ];
    let rows = compared.iter().map(|target| {
        vec![
            target.target.clone(),
            target.drafter.clone(),
            (target.tokens / target.prompts).to_string(),
            (target.rounds as usize / target.prompts).to_string(),
            report::figure(Some(target.tau), 2),
            report::figure(Some(target.speculative_tokens_per_second), 0),
            report::figure(Some(target.plain_tokens_per_second), 0),
            format!("{}x", report::figure(Some(target.speedup), 2)),
            report::yes(target.identical()),
        ]
    });
    report::table(&header, rows)
}
