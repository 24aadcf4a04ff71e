//! Where a checkpoint is fetched from.

use std::net::IpAddr;

use reqwest::Url;

use super::error::PullError;

/// What the address of a single file ends in.
const GGUF: &str = ".gguf";

/// A folder of files, or a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// What the names of files are put behind.
    base: Url,
    /// The only file, and where it is.
    single: Option<Single>,
}

/// A single file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Single {
    name: String,
    url: Url,
}

impl Source {
    /// Reads an address. Over a network it must be one of `https://`, unless `insecure` ones were asked for.
    pub(crate) fn parse(given: &str, insecure: bool) -> Result<Self, PullError> {
        let wrong = || PullError::Address { given: shown(given) };
        let mut url = Url::parse(given).map_err(|_| wrong())?;
        let is_web = ["http", "https"].contains(&url.scheme());
        if !is_web || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong());
        }
        check_clear(&url, insecure)?;
        url.set_fragment(None);
        let name = url.path().rsplit('/').next().unwrap_or_default().to_owned();
        if name.ends_with(GGUF) && is_plain(&name) {
            let base = url.join(".").map_err(|_| wrong())?;
            return Ok(Self { base, single: Some(Single { name, url }) });
        }
        if url.query().is_some() {
            return Err(wrong());
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(Self { base: url, single: None })
    }

    /// The name of the only file, if it is one.
    pub(crate) fn single(&self) -> Option<&str> {
        self.single.as_ref().map(|single| single.name.as_str())
    }

    /// Where a file of a plain name is.
    pub(crate) fn url(&self, name: &str) -> Result<Url, PullError> {
        if let Some(single) = self.single.as_ref().filter(|single| single.name == name) {
            return Ok(single.url.clone());
        }
        // A colon would make a scheme of what is before it.
        self.base.join(&format!("./{name}")).map_err(|_| PullError::Address { given: name.to_owned() })
    }

    /// What the model is called: the last part of the folder, without what a hub puts behind it.
    pub(crate) fn name(&self) -> Result<&str, PullError> {
        let parts: Vec<&str> = self.base.path().split('/').filter(|part| !part.is_empty()).collect();
        let named = match parts[..] {
            [.., name, "resolve", _revision] => Some(name),
            [.., name] => Some(name),
            [] => None,
        };
        named.filter(|name| is_plain(name)).ok_or(PullError::NoName)
    }
}

/// That nothing is fetched in the clear over a network.
pub(crate) fn check_clear(url: &Url, insecure: bool) -> Result<(), PullError> {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_own = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    match url.scheme() == "https" || is_own || insecure {
        true => Ok(()),
        false => Err(PullError::Clear { host: host.to_owned() }),
    }
}

/// Whether a text names a file in a folder, and in no other.
pub(crate) fn is_plain(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.len() <= 200 && name.bytes().all(known)
}

/// An address without what may be secret in it.
fn shown(given: &str) -> String {
    let Ok(mut url) = Url::parse(given) else { return given.to_owned() };
    // An address without a host has neither.
    let _ = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(given: &str) -> Source {
        Source::parse(given, false).unwrap()
    }

    #[test]
    fn folders_and_single_files_are_told_apart_and_have_names() {
        let hub = parse("https://hub.example/org/Tiny-1B/resolve/main");
        assert_eq!((hub.name().unwrap(), hub.single()), ("Tiny-1B", None));
        assert_eq!(
            hub.url("config.json").unwrap().as_str(),
            "https://hub.example/org/Tiny-1B/resolve/main/config.json"
        );
        assert_eq!(parse("http://localhost:8000/models/tiny/").name().unwrap(), "tiny");
        assert!(matches!(parse("http://127.0.0.1:8000").name(), Err(PullError::NoName)));
        let file = parse("https://hub.example/org/tiny/resolve/main/tiny-q4.gguf?token=x");
        assert_eq!(file.single(), Some("tiny-q4.gguf"));
        assert!(file.url("tiny-q4.gguf").unwrap().as_str().ends_with("tiny-q4.gguf?token=x"));
        assert_eq!(file.url("SHA256SUMS").unwrap().as_str(), "https://hub.example/org/tiny/resolve/main/SHA256SUMS");
    }

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        for own in ["http://localhost/m/", "http://127.0.0.7:8000/m/", "http://[::1]:8000/m/"] {
            assert!(Source::parse(own, false).is_ok(), "{own}");
        }
        let foreign = "http://mirror.example/m/";
        assert!(matches!(Source::parse(foreign, false), Err(PullError::Clear { host }) if host == "mirror.example"));
        assert!(Source::parse(foreign, true).is_ok());
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        for wrong in
            ["tiny", "ftp://hub.example/m/", "https://me:secret@hub.example/m/", "https://hub.example/m?key=secret"]
        {
            let refusal = Source::parse(wrong, true).unwrap_err().to_string();
            assert!(refusal.contains("is not the address") && !refusal.contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn names_lead_out_of_no_folder() {
        for name in ["model.safetensors", "model-00001-of-00002.safetensors"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "..", ".hidden", "a/b", "a\\b", "a:b", "a b", "a%2fb"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
