//! API keys: how a client shows one, and what a gateway keeps of it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};

/// The metadata in which a client shows its key.
pub const API_KEY_HEADER: &str = "authorization";

/// The longest API key, in bytes.
pub const API_KEY_BYTES_MAX: usize = 512;

/// What stands before a key in the metadata; in letters of either case.
const SCHEME: &str = "Bearer ";

/// What keys that [`ApiKey::from_random`] makes begin with: so that programs that look for leaked secrets know them, and
/// nobody takes one for its hash.
const PREFIX: &str = "esp_";

/// A text that cannot be an API key. It does not say which text: that may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an API key of {bytes} bytes; it must be 1 to {API_KEY_BYTES_MAX} visible ASCII characters")]
pub struct ApiKeyError {
    /// Its length.
    pub bytes: usize,
}

/// The secret that a client shows. It is never printed but by who asks for it by [`Self::reveal`].
#[derive(Clone)]
pub struct ApiKey(Box<str>);

impl ApiKey {
    /// Reads a key.
    ///
    /// # Errors
    /// What is empty, too long, or not visible ASCII.
    pub fn new(text: &str) -> Result<Self, ApiKeyError> {
        let bytes = text.len();
        if !(1..=API_KEY_BYTES_MAX).contains(&bytes) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ApiKeyError { bytes });
        }
        Ok(Self(text.into()))
    }

    /// The key that these random bytes make.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(format!("{PREFIX}{}", hex(&bytes)).into())
    }

    /// Reads what [`API_KEY_HEADER`] holds; nothing if that is no key.
    pub fn from_header(value: &[u8]) -> Option<Self> {
        let (scheme, key) = std::str::from_utf8(value).ok()?.split_at_checked(SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return None;
        }
        Self::new(key.trim_ascii()).ok()
    }

    /// What [`API_KEY_HEADER`] holds, marked as a secret for whoever prints or compresses headers.
    pub fn to_header(&self) -> MetadataValue<Ascii> {
        let mut value: MetadataValue<Ascii> = format!("{SCHEME}{}", self.0).parse().expect("visible ASCII can be sent");
        value.set_sensitive(true);
        value
    }

    /// What a gateway knows the key by.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.0.as_bytes()).into())
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A text that is no hash. It does not say which text: somebody may have written the key itself there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a hash of {characters} characters, {wrong} of them no hexadecimal digits; it must be {HASH_DIGITS} such digits"
)]
pub struct KeyHashError {
    /// Its length.
    pub characters: usize,
    /// Characters that are no digits.
    pub wrong: usize,
}

/// Hexadecimal digits of a hash.
const HASH_DIGITS: usize = 64;

/// The SHA-256 of a key. Keys are 256 random bits, which nobody can guess, so a hash that is slow to compute or salted
/// would protect them no better.
#[derive(Clone, Copy, Eq)]
pub struct KeyHash([u8; 32]);

/// Takes as long for hashes that differ early as for those that differ late or not at all.
impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        let differences = self.0.iter().zip(other.0).fold(0, |all, (&one, other)| black_box(all | (one ^ other)));
        black_box(differences) == 0
    }
}

impl Hash for KeyHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl FromStr for KeyHash {
    type Err = KeyHashError;

    fn from_str(text: &str) -> Result<Self, KeyHashError> {
        let digits: Vec<u8> = text.chars().filter_map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
        let characters = text.chars().count();
        let error = KeyHashError { characters, wrong: characters - digits.len() };
        if error.wrong > 0 {
            return Err(error);
        }
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
        if characters != HASH_DIGITS { Err(error) } else { bytes.try_into().map(Self).map_err(|_| error) }
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({self})")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_hidden_wherever_it_is_printed() {
        let key = ApiKey::from_random([0xab; 32]);
        assert_eq!((format!("{key:?}"), key.to_string()), ("ApiKey(hidden)".to_owned(), "(hidden)".to_owned()));
        assert_eq!(key.reveal(), format!("esp_{}", "ab".repeat(32)));
        assert_eq!(format!("{:?}", key.to_header()), "Sensitive");
    }

    #[test]
    fn what_is_sent_is_read_back() {
        let key = ApiKey::new("esp_7").unwrap();
        let sent = key.to_header();
        assert_eq!(sent.as_bytes(), b"Bearer esp_7");
        assert_eq!(ApiKey::from_header(sent.as_bytes()).unwrap().reveal(), "esp_7");
        assert_eq!(ApiKey::from_header(b"bearer esp_7").unwrap().reveal(), "esp_7");
        for wrong in [&b""[..], b"esp_7", b"Bearer", b"Bearer ", b"Basic esp_7", b"Bearer a b", b"Bearer \xff"] {
            assert!(ApiKey::from_header(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_text_that_is_no_key_is_refused_without_its_words() {
        for text in ["", "secret words", "gehe\u{ef}m", &"x".repeat(API_KEY_BYTES_MAX + 1)] {
            let error = ApiKey::new(text).unwrap_err();
            assert_eq!(error.bytes, text.len());
            assert!(!error.to_string().contains("secret"));
        }
        let words = "an API key of 0 bytes; it must be 1 to 512 visible ASCII characters";
        assert_eq!(ApiKey::new("").unwrap_err().to_string(), words);
    }

    #[test]
    fn the_hash_is_that_of_other_programs() {
        // `printf abc | sha256sum`
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = ApiKey::new("abc").unwrap().hash();
        assert_eq!(hash.to_string(), known);
        assert_eq!(known.parse(), Ok(hash));
        assert_eq!(known.to_uppercase().parse(), Ok(hash));
    }

    #[test]
    fn what_is_no_hash_is_refused_without_its_words() {
        let error = |text: &str| text.parse::<KeyHash>().unwrap_err().to_string();
        let secret = ApiKey::from_random([7; 32]);
        let expected = "a hash of 68 characters, 3 of them no hexadecimal digits; it must be 64 such digits";
        assert_eq!(error(secret.reveal()), expected);
        assert!(error(&"0".repeat(63)).starts_with("a hash of 63 characters, 0 of them"));
        assert!(error(&"0".repeat(66)).starts_with("a hash of 66 characters, 0 of them"));
        assert!(error("").starts_with("a hash of 0 characters"));
    }

    proptest! {
        #[test]
        fn hashes_are_equal_if_all_their_bytes_are(one: [u8; 32], place in 0..32usize, other: u8) {
            let mut changed = one;
            changed[place] = other;
            prop_assert_eq!(KeyHash(one) == KeyHash(changed), one == changed);
            prop_assert_eq!(KeyHash(one).to_string().parse(), Ok(KeyHash(one)));
        }

        #[test]
        fn no_header_is_more_than_a_key_can_hold(value: Vec<u8>) {
            if let Some(key) = ApiKey::from_header(&value) {
                prop_assert!(ApiKey::new(key.reveal()).is_ok());
            }
        }
    }
}
