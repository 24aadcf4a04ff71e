//! Texts that end an answer, wherever the boundaries of tokens and rounds fall.

/// The most stop strings that one request may name.
pub const STOP_STRINGS_MAX: usize = 16;

/// The longest stop string, in bytes.
pub const STOP_STRING_BYTES_MAX: usize = 256;

/// Why stop strings were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopStringError {
    /// There are too many.
    #[error("{found} stop strings exceed the limit of {STOP_STRINGS_MAX}")]
    Many {
        /// How many there are.
        found: usize,
    },
    /// One would end every text before it begins.
    #[error("stop string {index} is empty")]
    Empty {
        /// Which one, from 0.
        index: usize,
    },
    /// One is too long.
    #[error("stop string {index} has {bytes} bytes, beyond the limit of {STOP_STRING_BYTES_MAX}")]
    Long {
        /// Which one, from 0.
        index: usize,
        /// Its length.
        bytes: usize,
    },
}

/// A request's stop strings: at most [`STOP_STRINGS_MAX`] of 1 to [`STOP_STRING_BYTES_MAX`] bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopStrings(Vec<String>);

impl StopStrings {
    /// These strings, in this order.
    ///
    /// # Errors
    /// Too many, or one that is empty or too long.
    pub fn new(strings: Vec<String>) -> Result<Self, StopStringError> {
        if strings.len() > STOP_STRINGS_MAX {
            return Err(StopStringError::Many { found: strings.len() });
        }
        for (index, string) in strings.iter().enumerate() {
            match string.len() {
                0 => return Err(StopStringError::Empty { index }),
                1..=STOP_STRING_BYTES_MAX => {}
                bytes => return Err(StopStringError::Long { index, bytes }),
            }
        }
        Ok(Self(strings))
    }

    /// The strings.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Of all occurrences in `text` the one that is complete first, of several the longest: its string, and where it
    /// begins.
    fn first_in(&self, text: &str) -> Option<(&str, usize)> {
        let found = self.0.iter().filter_map(|string| Some((string.as_str(), text.find(string.as_str())?)));
        found.min_by_key(|&(string, begin)| (begin + string.len(), begin))
    }

    /// Where in `text` the part begins that may still become a stop string: its longest end that one begins with.
    fn first_open(&self, text: &str) -> usize {
        let opens = |&begin: &usize| self.0.iter().any(|string| string.starts_with(&text[begin..]));
        let longest = self.0.iter().map(String::len).max().unwrap_or_default();
        let mut near = text.char_indices().map(|(begin, _)| begin).filter(|begin| text.len() - begin < longest);
        near.find(opens).unwrap_or(text.len())
    }
}

impl From<StopStrings> for Vec<String> {
    fn from(strings: StopStrings) -> Self {
        strings.0
    }
}

/// Looks for stop strings in a text that comes in pieces.
///
/// What might be the beginning of a stop string is held back until it is known not to be one, so that nothing of a stop
/// string is ever given out, and nothing behind it. Less is held than the longest stop string has bytes. What is given
/// out depends on the text alone and not on how it was cut into pieces.
#[derive(Debug, Clone, Default)]
pub struct StopScanner {
    strings: StopStrings,
    held: String,
    found: Option<String>,
}

impl StopScanner {
    /// A text in which nothing has been said yet.
    pub fn new(strings: StopStrings) -> Self {
        Self { strings, held: String::new(), found: None }
    }

    /// Adds a piece of text and returns what may be given out: all up to the first stop string, or up to what may
    /// still become one. The stop string that is complete first counts, of several the longest; it is not given out
    /// itself. After it nothing is.
    pub fn push(&mut self, piece: String) -> String {
        if self.found.is_some() {
            return String::new();
        }
        if self.strings.0.is_empty() {
            return piece;
        }
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&piece);
        if let Some((string, begin)) = self.strings.first_in(&text) {
            self.found = Some(string.to_owned());
            text.truncate(begin);
        } else {
            self.held = text.split_off(self.strings.first_open(&text));
        }
        text
    }

    /// Ends the text: returns what is still held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The stop string that ended the text, once one did.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn scanner(strings: &[&str]) -> StopScanner {
        StopScanner::new(StopStrings::new(strings.iter().map(|&string| string.to_owned()).collect()).unwrap())
    }

    /// What each piece gives out, and last what the end does.
    fn given(strings: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let mut scanner = scanner(strings);
        let mut given: Vec<String> = pieces.iter().map(|&piece| scanner.push(piece.to_owned())).collect();
        given.push(scanner.finish());
        (given, scanner.found().map(str::to_owned))
    }

    fn stopped(strings: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let (given, found) = given(strings, pieces);
        (given.concat(), found)
    }

    #[test]
    fn without_stop_strings_all_passes_at_once() {
        assert_eq!(given(&[], &["one", " two"]).0, ["one", " two", ""]);
    }

    #[test]
    fn a_stop_string_within_a_piece_cuts_it_there() {
        assert_eq!(given(&["##"], &["one ## two", " three"]).0, ["one ", "", ""]);
    }

    #[test]
    fn a_stop_string_over_several_pieces_is_held_back_and_never_given_out() {
        let (given, found) = given(&["\n\nQ:"], &["4", "\n", "\n", "Q", ": what?"]);
        assert_eq!(given, ["4", "", "", "", "", ""]);
        assert_eq!(found.as_deref(), Some("\n\nQ:"));
    }

    #[test]
    fn what_turns_out_to_be_none_is_given_out() {
        let (given, found) = given(&["\n\nQ:"], &["4", "\n", "\nR", "\n"]);
        assert_eq!((given, found), (["4", "", "\n\nR", "", "\n"].map(str::to_owned).to_vec(), None));
        // The beginning was none, but it ends with one.
        assert_eq!(stopped(&["aab"], &["a", "a", "a", "b", "c"]).0, "a");
    }

    #[test]
    fn the_first_to_be_complete_counts_and_of_several_the_longest() {
        assert_eq!(stopped(&["abcd", "bc"], &["xabcd"]), ("xa".to_owned(), Some("bc".to_owned())));
        assert_eq!(stopped(&["c", "abc"], &["xabcd"]), ("x".to_owned(), Some("abc".to_owned())));
        assert_eq!(stopped(&["d", "b"], &["abcd"]).0, "a");
    }

    #[test]
    fn whole_characters_are_kept_whole() {
        assert_eq!(stopped(&["é中"], &["né", "é", "中n"]).0, "né");
        assert_eq!(given(&["中é"], &["aé中", "中"]).0, ["aé", "中", "中"]);
    }

    #[test]
    fn impossible_stop_strings_are_refused_with_the_limit() {
        let refusal = |strings: Vec<String>| StopStrings::new(strings).unwrap_err().to_string();
        assert_eq!(refusal(vec!["x".to_owned(); 17]), "17 stop strings exceed the limit of 16");
        assert_eq!(refusal(vec!["x".to_owned(), String::new()]), "stop string 1 is empty");
        assert_eq!(refusal(vec!["x".repeat(257)]), "stop string 0 has 257 bytes, beyond the limit of 256");
        assert!(StopStrings::new(vec!["x".repeat(256); 16]).is_ok());
    }

    /// What is given out of `text` according to the definition.
    fn by_definition(strings: &[String], text: &str) -> String {
        for (end, _) in text.char_indices().map(|(at, c)| (at + c.len_utf8(), c)) {
            let ending = strings.iter().filter(|string| text[..end].ends_with(string.as_str()));
            if let Some(longest) = ending.map(String::len).max() {
                return text[..end - longest].to_owned();
            }
        }
        text.to_owned()
    }

    proptest! {
        #[test]
        fn what_is_given_out_depends_on_the_text_alone(
            strings in prop::collection::vec("[abé]{1,4}", 1..4), pieces in prop::collection::vec("[abcé]{0,4}", 0..12)
        ) {
            let mut scanner = StopScanner::new(StopStrings::new(strings.clone()).unwrap());
            let mut found = String::new();
            let longest = strings.iter().map(String::len).max().unwrap();
            for piece in &pieces {
                found.push_str(&scanner.push(piece.clone()));
                prop_assert!(scanner.held.len() < longest);
            }
            found.push_str(&scanner.finish());
            let expected = by_definition(&strings, &pieces.concat());
            prop_assert_eq!(scanner.found().is_some(), expected.len() < pieces.concat().len());
            prop_assert_eq!(found, expected);
        }
    }
}
