//! `espalier pull`: a checkpoint from an address that the user names. Nothing else of this program downloads anything.

mod error;
mod fetch;
mod files;
mod part;
mod source;
mod sums;
mod web;

use std::fs;
use std::path::{Path, PathBuf};

use espalier_command::{Verdict, report};
use espalier_local::{SystemArgs, models_home};
use espalier_model::model_name;
use espalier_service_kit::Bytes;

pub(crate) use self::error::PullError;
use self::fetch::{Fetched, Fetcher};
use self::files::{INDEX, INDEX_BYTES_MAX, SINGLE, SMALL, shards};
use self::source::Source;
use self::sums::Sums;
use self::web::Web;
use crate::doctor::{Examined, examine};
use crate::error::CliError;

/// The list of checksums that a source may have.
const SUMS: &str = "SHA256SUMS";

/// Bytes that it may have.
const SUMS_BYTES_MAX: u64 = 1 << 20;

/// The options of `espalier pull`.
#[derive(Debug, clap::Args)]
pub(crate) struct Pull {
    /// A folder of a web server with the files of a checkpoint, like `https://HOST/org/model/resolve/main/`, or a `.gguf`
    /// file.
    #[arg(value_name = "URL")]
    url: String,
    /// The folder to write to; when absent one of the model's name in the folder of models, and for a `.gguf` file the folder
    /// of models itself.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Checksums to hold files against: files as `sha256sum` writes them, `NAME=HEX`, or `HEX` of a single `.gguf` file. When
    /// absent, those of `SHA256SUMS` at the address, if there is such a file: these tell what broke on the way, and not what
    /// was put there by somebody else.
    #[arg(long, num_args = 1.., value_name = "FILE|NAME=HEX|HEX")]
    sha256: Vec<String>,
    /// Most bytes of a file.
    #[arg(long, default_value_t = Bytes(256 << 30), value_name = "BYTES")]
    size_max: Bytes,
    /// The certificates in PEM of the authorities that the server is checked by; those of this machine when absent.
    #[arg(long, env = "ESPALIER_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Fetch over a network in the clear, too: what comes could be anybody's.
    #[arg(long)]
    insecure: bool,
}

pub(crate) async fn run(system: &SystemArgs, args: &Pull) -> Result<Verdict, CliError> {
    let source = Source::parse(&args.url, args.insecure)?;
    let home = models_home(system);
    let folder = match (&args.to, source.single()) {
        (Some(folder), _) => folder.clone(),
        (None, Some(_)) => home.clone(),
        (None, None) => home.join(source.name()?),
    };
    let sums = Sums::of_args(&args.sha256, source.single())?;
    let web = Web::open(args.tls_ca.as_deref(), args.insecure)?;
    fs::create_dir_all(&folder).map_err(|source| CliError::Write { path: folder.clone(), source })?;
    let mut fetcher = Fetcher { web, source, folder, sums };
    if fetcher.sums.is_empty() {
        fetcher.sums = listed(&fetcher).await?;
    }
    let limit = args.size_max.0 as u64;
    let path = match fetcher.source.single().map(str::to_owned) {
        Some(name) => {
            say(&needed(&fetcher, &name, limit).await?);
            fetcher.folder.join(name)
        }
        None => {
            pull_folder(&fetcher, limit).await?;
            fetcher.folder.clone()
        }
    };
    conclude(&fetcher, &path, &home)
}

/// The checksums that the source itself lists, if it does. They are not kept.
async fn listed(fetcher: &Fetcher) -> Result<Sums, PullError> {
    let Some(list) = fetcher.text(SUMS, SUMS_BYTES_MAX).await? else { return Ok(Sums::default()) };
    Sums::parse(&list, SUMS)
}

/// All files of a checkpoint, the small ones first: what is no checkpoint shows before much was fetched.
async fn pull_folder(fetcher: &Fetcher, limit: u64) -> Result<(), CliError> {
    for small in SMALL {
        let bytes_max = small.bytes_max.min(limit);
        match small.is_needed {
            true => say(&needed(fetcher, small.name, bytes_max).await?),
            false => fetcher.fetch(small.name, bytes_max).await?.iter().for_each(say),
        }
    }
    let Some(index) = fetcher.fetch(INDEX, INDEX_BYTES_MAX).await? else {
        say(&needed(fetcher, SINGLE, limit).await?);
        return Ok(());
    };
    say(&index);
    let path = fetcher.folder.join(INDEX);
    let text = fs::read_to_string(&path).map_err(|source| CliError::Read { path: path.clone(), source })?;
    let url = path.display().to_string();
    for name in shards(&text).map_err(|what| PullError::Index { url, what })? {
        say(&needed(fetcher, &name, limit).await?);
    }
    Ok(())
}

async fn needed(fetcher: &Fetcher, name: &str, limit: u64) -> Result<Fetched, PullError> {
    let missing = || Ok(PullError::Missing { url: fetcher.source.url(name)?.to_string() });
    match fetcher.fetch(name, limit).await? {
        Some(fetched) => Ok(fetched),
        None => Err(missing().unwrap_or_else(|error: PullError| error)),
    }
}

/// One line of a file that is there.
fn say(fetched: &Fetched) {
    let Fetched { name, bytes, sha256, kept, checked } = fetched;
    let how = match (kept, checked) {
        (true, true) => "kept, as expected",
        (true, false) => "kept",
        (false, true) => "as expected",
        (false, false) => "not checked",
    };
    anstream::println!("{} {name:32} {bytes:>12} bytes  sha256 {sha256}  {how}", report::mark(true));
}

/// Whether what was fetched is a whole checkpoint, and how it is served.
fn conclude(fetcher: &Fetcher, path: &Path, home: &Path) -> Result<Verdict, CliError> {
    if fetcher.sums.is_empty() {
        let words = "nothing was held against checksums: compare those above with what the publisher says";
        anstream::eprintln!("{}", report::styled(report::FAINT, words));
    }
    let Examined { says, is_target } = examine(path)?;
    anstream::println!("{}: {says}", path.display());
    let is_home = path.parent().is_some_and(|parent| parent == home);
    let name = match model_name(path).filter(|_| is_home) {
        Some(name) => name.to_owned(),
        None => path.display().to_string(),
    };
    match is_target {
        true => anstream::println!(
            "\n  espalier serve --targets {name} --drafter ngram\n  espalier chat {name} --drafter ngram"
        ),
        false => anstream::println!("\n  espalier serve --targets TARGET --drafter {name}"),
    }
    Ok(Verdict::Good)
}
