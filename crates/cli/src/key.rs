//! `espalier key`: a new API key, and what a gateway's file of keys says of it.

use espalier_command::Verdict;
use espalier_proto::{ApiKey, CLIENT_NAME_BYTES_MAX, KeyHash, is_client_name};
use serde::Serialize;

use crate::error::CliError;

/// The options of `espalier key`.
#[derive(Debug, clap::Args)]
pub(crate) struct Key {
    /// Whose key it is; a gateway shares its slots between names.
    #[arg(value_parser = name, value_name = "NAME")]
    name: String,
}

/// An entry of a file of keys.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    sha256: String,
}

pub(crate) fn run(args: &Key) -> Result<Verdict, CliError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(CliError::Random)?;
    let key = ApiKey::from_random(bytes);
    anstream::println!("{}", key.reveal());
    anstream::println!("{}", entry(&args.name, &key.hash()));
    anstream::eprintln!(
        "The first line is the key: nobody can show it again. The second belongs into the gateway's file."
    );
    Ok(Verdict::Good)
}

/// What belongs into the list of a file of keys; limits may be added.
fn entry(name: &str, hash: &KeyHash) -> String {
    serde_json::json!(Entry { name, sha256: hash.to_string() }).to_string()
}

fn name(text: &str) -> Result<String, String> {
    let error = || format!("a name is 1 to {CLIENT_NAME_BYTES_MAX} printable ASCII characters");
    is_client_name(text).then(|| text.to_owned()).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_entry_has_the_name_and_the_hash() {
        let hash = ApiKey::new("abc").unwrap().hash();
        let expected = format!(r#"{{"name":"team \"a\"","sha256":"{hash}"}}"#);
        assert_eq!(entry("team \"a\"", &hash), expected);
    }

    #[test]
    fn a_name_is_what_a_gateway_takes() {
        assert_eq!(name("team a"), Ok("team a".to_owned()));
        for wrong in ["", "a\n", "\u{e4}", &"x".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }
}
