//! `espalier certs`: certificates to try a system under TLS with.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use espalier_certs::{Authority, write_authority, write_signed};
use espalier_command::{Verdict, report};
use espalier_service_kit::Role;

use crate::error::CliError;

/// Clocks of other machines may be behind this one's.
const CLOCKS_DIFFER: Duration = Duration::from_secs(300);

/// The options of `espalier certs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Certs {
    /// The folder to write to; it is made if it is not there.
    pub(crate) folder: PathBuf,
    /// A name or an IP address by which clients reach the gateway; may be given several times. When absent, those of this
    /// machine to itself.
    #[arg(long = "host", value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
    pub(crate) hosts: Vec<String>,
    /// Days for which they hold.
    #[arg(long, default_value_t = 90, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
}

pub(crate) fn run(args: &Certs) -> Result<Verdict, CliError> {
    let folder = &args.folder;
    // Who trusts the authority that is there would be trusted by nobody any more.
    let path = folder.join("ca.pem");
    if path.exists() {
        return Err(CliError::Exists { path });
    }
    fs::create_dir_all(folder).map_err(|source| CliError::Write { path: folder.clone(), source })?;
    let now = SystemTime::now();
    let lifetime = Duration::from_secs(u64::from(args.days) * 24 * 3600);
    let authority = Authority::new("Espalier, for trying it", now - CLOCKS_DIFFER..now + lifetime)?;
    for role in Role::ALL {
        // Clients know the gateway by its host.
        let hosts = args.hosts.iter().map(String::as_str).filter(|_| role == Role::Gateway);
        let names: Vec<&str> = hosts.chain([role.certificate_name()]).collect();
        write_signed(folder, role.name(), &authority.sign(&names)?)?;
    }
    write_authority(folder, &authority)?;
    let at = folder.display();
    println!("{at}: ca.pem, and a certificate and a key for each kind of service, for {} days.", args.days);
    println!("The authority's own key was not kept: it signs nothing more.\n");
    for role in Role::ALL {
        let name = role.name();
        println!("  espalier-{name} … --tls-cert {at}/{name}.pem --tls-key {at}/{name}.key --tls-ca {at}/ca.pem");
    }
    let host = args.hosts.first().map_or("localhost", String::as_str);
    println!("  espalier generate … --gateway https://{host}:50051 --tls-ca {at}/ca.pem");
    anstream::eprintln!(
        "\n{}",
        report::styled(report::FAINT, "They are for trying it; docs/security.md says what is for use.")
    );
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use espalier_service_kit::TlsArgs;

    use super::*;

    #[tokio::test]
    async fn each_service_can_use_its_own_and_none_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let args = Certs { folder: folder.path().to_owned(), hosts: vec!["localhost".to_owned()], days: 1 };
        run(&args).unwrap();
        for role in Role::ALL {
            let at = |end: &str| Some(folder.path().join(format!("{}.{end}", role.name())));
            let (tls_cert, tls_key) = (at("pem"), at("key"));
            let args = TlsArgs { tls_cert, tls_key, tls_ca: Some(folder.path().join("ca.pem")) };
            assert_eq!(args.dialer(role).unwrap().scheme(), "https");
        }
        assert!(matches!(run(&args), Err(CliError::Exists { .. })));
    }
}
