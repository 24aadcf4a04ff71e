//! Which verifiers a drafter connects to.
//!
//! Whoever may open a sequence names the verifier that its trees go to. Without a limit that is any address that the
//! drafter's network reaches.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;
use ipnet::IpNet;
use thiserror::Error;

/// Hosts that verifiers may be on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHost {
    /// Any whose address is in a range.
    Range(IpNet),
    /// One by its name.
    Name(String),
}

/// What stands for no hosts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{found}` is neither an IP address, nor a range of them like 10.0.0.0/8, nor a host's name")]
pub struct AllowedHostError {
    /// What was given.
    pub found: String,
}

impl AllowedHost {
    /// Whether some of these hosts, or no limit at all, take in the host of an address `http://host:port`.
    pub(crate) fn any_admits(allowed: &[Self], address: &str) -> bool {
        allowed.is_empty()
            || address.parse::<Uri>().ok().is_some_and(|uri| {
                let host = uri.host().unwrap_or_default();
                allowed.iter().any(|allowed| allowed.admits(host))
            })
    }

    fn admits(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => name.eq_ignore_ascii_case(host),
            // An IPv6 address stands in brackets.
            Self::Range(range) => {
                let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
                address.is_ok_and(|address| range.contains(&address.to_canonical()))
            }
        }
    }
}

impl FromStr for AllowedHost {
    type Err = AllowedHostError;

    fn from_str(text: &str) -> Result<Self, AllowedHostError> {
        let range = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        if let Some(range) = range {
            return Ok(Self::Range(range));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        // What begins with a digit was meant to be an address.
        match text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_name) {
            true => Ok(Self::Name(text.to_owned())),
            false => Err(AllowedHostError { found: text.to_owned() }),
        }
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) => range.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn admits(allowed: &[&str], address: &str) -> bool {
        let allowed: Vec<AllowedHost> = allowed.iter().map(|text| text.parse().unwrap()).collect();
        AllowedHost::any_admits(&allowed, address)
    }

    #[test]
    fn addresses_are_taken_by_range_and_names_by_name() {
        let allowed = ["10.1.0.0/16", "127.0.0.1", "fd00::/8", "verifier.models.svc"];
        for address in [
            "http://10.1.2.3:50052",
            "http://127.0.0.1:1",
            "http://[fd00::7]:50052",
            "http://Verifier.models.svc:50052",
        ] {
            assert!(admits(&allowed, address), "{address}");
        }
        for address in [
            "http://10.2.0.1:50052",
            "http://127.0.0.2:1",
            "http://169.254.169.254:80",
            "http://verifier.models.svc.evil.org:50052",
            "http://10.1.2.3@169.254.169.254:80",
            "http://[::ffff:169.254.169.254]:80",
            "no address",
        ] {
            assert!(!admits(&allowed, address), "{address}");
        }
        assert!(admits(&["10.0.0.0/8"], "http://[::ffff:10.0.0.1]:80"), "the same host in another spelling");
        assert!(admits(&[], "http://anywhere:1"), "no limit was given");
    }

    #[test]
    fn what_stands_for_no_host_is_refused() {
        for text in ["10.0.0.0/8", "10.0.0.1/32", "fd00::/8", "verifier-1.models"] {
            assert_eq!(text.parse::<AllowedHost>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.0/33", "10.0.0", "http://verifier", "a b", "*"] {
            let refusal = text.parse::<AllowedHost>().unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("`{text}` is neither an IP address")), "{refusal}");
        }
    }
}
