//! `espalier chat`: a conversation in the terminal, which shows who proposed each token.

mod conversation;
mod lines;
mod order;
mod settings;
mod talk;

use espalier_client::Client;
use espalier_command::{Decoding, Verdict, start};
use espalier_local::{DEFAULT_DRAFTER, DEFAULT_TARGETS, DrafterChoice, Plan, System, SystemArgs};

use self::settings::Settings;
use self::talk::Talk;
use crate::access::Access;
use crate::error::CliError;
use crate::generate::PATIENCE;

/// The options of `espalier chat`.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("max_tokens", |arg| arg.default_value("512")),
    mut_arg("drafter", |arg| arg.value_name("D[,D…]").help(DRAFTER_HELP).long_help(DRAFTER_HELP)),
)]
pub(crate) struct Chat {
    /// The target that answers, by name or, without `--gateway`, by path; when absent one of those that come with the program,
    /// or the first of the gateway's.
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// What is said before all else, in the role `system`.
    #[arg(long = "system", value_name = "TEXT")]
    first: Option<String>,
    #[command(flatten)]
    decoding: Decoding,
    /// A running gateway; without it the system is started in this process.
    #[arg(long, env = "ESPALIER_GATEWAY", value_name = "URL")]
    gateway: Option<String>,
    #[command(flatten)]
    access: Access,
}

const DRAFTER_HELP: &str = "Who drafts: drafters by name in the folder of models or by path, `NAME:LAYERS` for first \
                            layers, `ngram` for proposals from the text itself, or `none`. The first is used until \
                            `/drafter` names another; when absent any that suits";

impl Chat {
    /// Who is to draft, as far as anybody was named.
    fn drafters(&self) -> impl Iterator<Item = &str> {
        self.decoding.drafter.iter().flat_map(|given| given.split(','))
    }
}

pub(crate) async fn run(system: &SystemArgs, args: &Chat) -> Result<Verdict, CliError> {
    match &args.gateway {
        Some(gateway) => {
            let client = args.access.client(gateway)?.resuming(PATIENCE);
            talk(client, args.target.clone(), args.drafters().next().map(str::to_owned), args).await
        }
        None => {
            let own = Own::start(system, args).await?;
            let verdict = talk(Client::new(own.system.gateway())?, own.target, own.drafter, args).await;
            own.system.stop().await?;
            verdict
        }
    }
}

async fn talk(
    mut client: Client,
    target: Option<String>,
    drafter: Option<String>,
    args: &Chat,
) -> Result<Verdict, CliError> {
    let known = client.targets().await?;
    let first = known.first().map(|card| card.name.clone());
    let target = target.or(first).ok_or(CliError::NoTargets)?;
    let mut settings = Settings { known, target: String::new(), drafter: None, decoding: args.decoding.clone() };
    settings.take_target(target)?;
    settings.take_drafter(drafter)?;
    // What is wrong with the options is said before the first line.
    settings.decoding(|_| {})?;
    Talk::new(client, settings, args.first.clone())?.run().await
}

/// A system of this process, and how requests name what they use of it at first.
struct Own {
    system: System,
    target: Option<String>,
    drafter: Option<String>,
}

impl Own {
    async fn start(system: &SystemArgs, args: &Chat) -> Result<Self, CliError> {
        let targets: Vec<&str> = match &args.target {
            Some(target) => vec![target],
            None => DEFAULT_TARGETS.into_iter().rev().collect(),
        };
        let given: Vec<String> = args.drafters().map(str::to_owned).collect();
        let drafters = match &given[..] {
            // A target from elsewhere needs none of those that come with the program.
            [] => DrafterChoice::parse(DEFAULT_DRAFTER, system).into_iter().collect(),
            given => DrafterChoice::parse_all(given, system)?,
        };
        let drafter = drafters.first().map(DrafterChoice::name).filter(|_| !given.is_empty());
        let plan = Plan::new(&targets, &drafters, system)?;
        let target = plan.targets().into_iter().next();
        let system = start(plan).await?;
        Ok(Self { system, target, drafter })
    }
}
