//! What sequences have in common that should run where others of their kind ran.

use espalier_speculation::Token;
use thiserror::Error;
use tonic::metadata::MetadataMap;

use crate::balance::hash;

/// The metadata that names a session.
pub(crate) const SESSION_HEADER: &str = "x-espalier-session";

/// The longest name of a session, in bytes.
pub const SESSION_BYTES_MAX: usize = 128;

/// So many tokens of a prompt tell which others it begins like: a block of a cache.
const PREFIX_TOKENS: usize = 64;

/// A name of a session that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{SESSION_HEADER} `{value}` is not 1 to {SESSION_BYTES_MAX} visible ASCII characters")]
pub struct SessionError {
    /// What was given.
    pub value: String,
}

/// Requests of one session reuse what the ones before them left in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session(u64);

impl Session {
    /// The session that a request's metadata names, if any.
    pub(crate) fn of(metadata: &MetadataMap) -> Result<Option<Self>, SessionError> {
        let Some(value) = metadata.get(SESSION_HEADER) else {
            return Ok(None);
        };
        let bytes = value.as_bytes();
        if !(1..=SESSION_BYTES_MAX).contains(&bytes.len()) || !bytes.iter().all(u8::is_ascii_graphic) {
            let shown = bytes.get(..SESSION_BYTES_MAX).unwrap_or(bytes);
            return Err(SessionError { value: String::from_utf8_lossy(shown).into_owned() });
        }
        Ok(Some(Self(hash(bytes))))
    }

    /// The key that peers are chosen by: that of the session, or else of how the prompt begins.
    pub(crate) fn key(session: Option<Self>, prompt: &[Token]) -> u64 {
        let bytes = || prompt.iter().take(PREFIX_TOKENS).flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>();
        let beginning = || hash(&bytes());
        session.map_or_else(beginning, |session| session.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn session(value: &str) -> Result<Option<Session>, SessionError> {
        let mut metadata = MetadataMap::new();
        metadata.insert(SESSION_HEADER, value.parse().unwrap());
        Session::of(&metadata)
    }

    #[test]
    fn a_session_is_named_by_metadata() {
        assert_eq!(Session::of(&MetadataMap::new()), Ok(None));
        assert_eq!(session("alice/7"), session("alice/7"));
        assert_ne!(session("alice/7"), session("alice/8"));
        assert!(session(&"x".repeat(SESSION_BYTES_MAX)).is_ok());
    }

    #[test]
    fn what_names_no_session_is_quoted_up_to_the_limit() {
        for (value, shown) in [(String::new(), String::new()), ("a b".to_owned(), "a b".to_owned())] {
            assert_eq!(session(&value), Err(SessionError { value: shown }));
        }
        let long = session(&"x".repeat(5000)).unwrap_err();
        assert_eq!(long.value.len(), SESSION_BYTES_MAX);
        assert!(long.to_string().ends_with("is not 1 to 128 visible ASCII characters"), "{long}");
    }

    #[test]
    fn without_a_session_prompts_that_begin_alike_have_one_key() {
        let prompt = |last| -> Vec<Token> { (0..PREFIX_TOKENS as Token).chain([last]).collect() };
        assert_eq!(Session::key(None, &prompt(1)), Session::key(None, &prompt(2)));
        assert_ne!(Session::key(None, &[1, 2]), Session::key(None, &[1, 3]));
        let named = session("alice").unwrap();
        assert_eq!(Session::key(named, &[1]), Session::key(named, &[2]));
    }
}
