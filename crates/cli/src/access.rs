//! How commands reach a gateway that runs: under TLS where its address says so, and with an API key if it asks for one.
//! Arguments are seen by all who list processes, so there is none for a key.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use espalier_client::Client;
use espalier_proto::{API_KEY_BYTES_MAX, ApiKey};
use espalier_service_kit::CallerTlsArgs;

use crate::error::CliError;

/// Holds the key itself where no file is given. `clap` is not told of it, as its help shows the values of variables.
const KEY_VARIABLE: &str = "ESPALIER_API_KEY";

/// The options of commands that ask a running gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct Access {
    #[command(flatten)]
    tls: CallerTlsArgs,
    /// The file that holds the API key for the running gateway; `ESPALIER_API_KEY` holds the key itself if this is absent.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Access {
    /// A client of the gateway at `url`, with the certificates and the key that were given, if any.
    pub(crate) fn client(&self, url: &str) -> Result<Client, CliError> {
        let client = Client::over(&self.tls.dialer(url)?, url)?;
        match key(self.key_file.as_deref(), std::env::var_os(KEY_VARIABLE))? {
            Some(key) => {
                if is_read_on_the_way(url) {
                    anstream::eprintln!(
                        "the API key goes to {url} in the clear: at an https:// address nobody on the way could read it"
                    );
                }
                Ok(client.with_key(key))
            }
            None => Ok(client),
        }
    }
}

/// Whether what is sent to an address leaves this machine unencrypted.
fn is_read_on_the_way(url: &str) -> bool {
    let Some(authority) = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()) else { return false };
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The key of a file, or else of the environment. An empty variable is none.
fn key(file: Option<&Path>, variable: Option<OsString>) -> Result<Option<ApiKey>, CliError> {
    if let Some(path) = file {
        let text = read(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
        let key = ApiKey::new(text.trim_ascii());
        return key.map(Some).map_err(|source| CliError::KeyFile { path: path.to_owned(), source });
    }
    let variable = variable.filter(|text| !text.is_empty());
    let key = variable.map(|text| ApiKey::new(text.to_string_lossy().trim_ascii()));
    key.transpose().map_err(|source| CliError::KeyVariable { name: KEY_VARIABLE, source })
}

/// No more of a file than shows whether it holds a key and nothing else.
fn read(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(2 * API_KEY_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::error::Error;

    use super::*;

    #[test]
    fn the_file_goes_before_the_environment_and_neither_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "esp_file\n").unwrap();
        let revealed = |file, variable: Option<&str>| {
            key(file, variable.map(OsString::from)).unwrap().map(|key| key.reveal().to_owned())
        };
        assert_eq!(revealed(Some(&*path), Some("esp_environment")).as_deref(), Some("esp_file"));
        assert_eq!(revealed(None, Some("esp_environment")).as_deref(), Some("esp_environment"));
        assert_eq!((revealed(None, None), revealed(None, Some(""))), (None, None));
    }

    #[test]
    fn who_sends_a_key_over_a_network_in_the_clear_is_warned_and_nobody_else() {
        for url in ["http://gateway:50051", "http://10.0.0.1:50051", "http://[2001:db8::1]:50051/", "http://gateway"] {
            assert!(is_read_on_the_way(url), "{url}");
        }
        let own = ["http://localhost:50051", "http://127.0.0.1:50051", "http://[::1]:50051", "https://gateway:50051"];
        for url in own {
            assert!(!is_read_on_the_way(url), "{url}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_without_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for text in ["", "secret words", "secret\nsecret"] {
            std::fs::write(&path, text).unwrap();
            let error = key(Some(&path), None).unwrap_err();
            assert_eq!(error.to_string(), format!("{} holds no API key", path.display()));
            assert!(!error.source().unwrap().to_string().contains("secret"));
        }
        let error = key(None, Some("secret words".into())).unwrap_err();
        assert_eq!(error.to_string(), "ESPALIER_API_KEY holds no API key");
        assert!(matches!(key(Some(Path::new("/nowhere")), None), Err(CliError::Read { .. })));
    }
}
