//! From an answer's text to its words and its calls.

use std::fmt;

use espalier_proto::CallForm;
use espalier_speculation::SplitMix64;

/// What a text turns out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// Words.
    Words(String),
    /// A call begins: the tool's name.
    Call(String),
    /// Of the arguments of the last call.
    Arguments(String),
}

/// Where in an answer a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Words,
    Name,
    Arguments,
    BehindArguments,
    Over,
}

/// Reads an answer piece by piece. It is told whole, and in order, as soon as it is clear what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallReader {
    form: CallForm,
    place: Place,
    /// Text of which it is not clear yet what it is.
    left: String,
    /// Whether words were told.
    any_words: bool,
    json: Json,
}

impl CallReader {
    pub(crate) fn new(form: CallForm) -> Self {
        Self { form, place: Place::Words, left: String::new(), any_words: false, json: Json::default() }
    }

    /// Reads the next piece.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Said> {
        self.left.push_str(text);
        let mut said = Vec::new();
        while let Some(found) = self.step() {
            said.extend(Some(found).filter(|found| !found.is_empty()));
        }
        said
    }

    /// What is left when an answer ends: one that was cut may hold the beginning of a call.
    pub(crate) fn finish(&mut self) -> Option<Said> {
        let left = std::mem::take(&mut self.left);
        let said = match self.place {
            Place::Words => Said::Words(left),
            Place::Arguments => Said::Arguments(left),
            Place::Name | Place::BehindArguments | Place::Over => return None,
        };
        Some(said).filter(|said| !said.is_empty())
    }

    /// What can be told of what is left; none if that takes more text.
    fn step(&mut self) -> Option<Said> {
        match self.place {
            Place::Words => self.words(),
            Place::Name => self.name(),
            Place::Arguments => self.arguments(),
            Place::BehindArguments => self.behind_arguments(),
            Place::Over => None,
        }
    }

    /// Words up to where a call may begin.
    fn words(&mut self) -> Option<Said> {
        let anywhere = self.form.mark().is_some();
        if let Some(at) = self.opening(anywhere) {
            let words = self.take(at);
            self.take(self.form.open.len());
            self.place = Place::Name;
            return Some(Said::Words(words));
        }
        let waits = anywhere || !self.any_words;
        let held = if waits { held_back(&self.left, &self.form.open, anywhere) } else { 0 };
        let free = self.left.len() - held;
        if free == 0 {
            return None;
        }
        self.any_words = true;
        Some(Said::Words(self.take(free)))
    }

    /// Where a call begins in what is left.
    fn opening(&self, anywhere: bool) -> Option<usize> {
        match anywhere {
            true => self.left.find(&self.form.open),
            false => (!self.any_words && self.left.starts_with(&self.form.open)).then_some(0),
        }
    }

    fn name(&mut self) -> Option<Said> {
        let end = self.left.find(&self.form.middle)?;
        let name = self.take(end);
        self.take(self.form.middle.len());
        (self.place, self.json) = (Place::Arguments, Json::default());
        Some(Said::Call(name))
    }

    fn arguments(&mut self) -> Option<Said> {
        if self.left.is_empty() {
            return None;
        }
        let end = self.left.bytes().position(|byte| self.json.ends_with(byte));
        if end.is_some() {
            self.place = Place::BehindArguments;
        }
        let all = self.left.len();
        Some(Said::Arguments(self.take(end.map_or(all, |end| end + 1))))
    }

    /// Goes on to the next call, if there is one, or to the end.
    fn behind_arguments(&mut self) -> Option<Said> {
        let (left, between) = (self.left.as_str(), self.form.between.as_deref());
        let next = between.is_some_and(|between| left.starts_with(between));
        if next {
            self.take(between.map_or(0, str::len));
            self.place = Place::Name;
            return self.name();
        }
        if !between.is_some_and(|between| between.starts_with(left)) {
            self.place = Place::Over;
        }
        None
    }

    fn take(&mut self, bytes: usize) -> String {
        let rest = self.left.split_off(bytes);
        std::mem::replace(&mut self.left, rest)
    }
}

/// Bytes at the end of a text that may be the beginning of `open`; where calls are not `anywhere`, the text is that or none.
fn held_back(text: &str, open: &str, anywhere: bool) -> usize {
    let ends = text.char_indices().map(|(at, _)| &text[at..]);
    let mut ends = ends.take(if anywhere { usize::MAX } else { 1 });
    ends.find(|end| open.starts_with(end)).map_or(0, str::len)
}

impl Said {
    fn is_empty(&self) -> bool {
        match self {
            Self::Words(text) | Self::Arguments(text) => text.is_empty(),
            Self::Call(_) => false,
        }
    }
}

/// A JSON object as it is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Json {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Json {
    /// Whether the object ends with this byte, the next one.
    fn ends_with(&mut self, byte: u8) -> bool {
        match (self.in_string, byte) {
            (true, _) if std::mem::take(&mut self.escaped) => {}
            (true, b'\\') => self.escaped = true,
            (_, b'"') => self.in_string = !self.in_string,
            (false, b'{' | b'[') => self.depth += 1,
            (false, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

/// What tells calls apart: nine letters and digits, as some templates demand, that differ from call to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallId(u64);

impl CallId {
    /// That of a call of a choice of an answer.
    pub(crate) fn new(answer: &str, choice: usize, call: usize) -> Self {
        let seed = answer.bytes().fold(choice as u64, |seed, byte| SplitMix64::new(seed ^ u64::from(byte)).next_u64());
        Self(SplitMix64::new(seed ^ call as u64).next_u64())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let digits = std::iter::successors(Some(self.0), |left| Some(left / 36)).take(9);
        digits.into_iter().try_for_each(|left| write!(f, "{}", char::from(DIGITS[(left % 36) as usize])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked() -> CallForm {
        let (open, close) = ("<tool_call>\n{\"name\": \"".to_owned(), "}\n</tool_call>".to_owned());
        CallForm { between: Some(format!("{close}\n{open}")), open, middle: "\", \"arguments\": ".to_owned(), close }
    }

    fn bare() -> CallForm {
        let (open, middle) = ("{\"name\": \"".to_owned(), "\", \"parameters\": ".to_owned());
        CallForm { open, middle, between: None, close: "}".to_owned() }
    }

    /// Words, and calls with their arguments, of a text that comes in pieces.
    fn read(form: CallForm, pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let mut reader = CallReader::new(form);
        let mut said: Vec<Said> = pieces.iter().flat_map(|piece| reader.push(piece)).collect();
        said.extend(reader.finish());
        let (mut words, mut calls) = (String::new(), Vec::<(String, String)>::new());
        for said in said {
            match said {
                Said::Words(text) => words.push_str(&text),
                Said::Call(name) => calls.push((name, String::new())),
                Said::Arguments(text) => calls.iter_mut().rev().take(1).for_each(|call| call.1.push_str(&text)),
            }
        }
        (words, calls)
    }

    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    const TWO: &str = "I add.\n<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\": \"}\\\"\", \"b\": [{}]}}\n</tool_call>\n\
        <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

    fn two() -> (String, Vec<(String, String)>) {
        ("I add.\n".to_owned(), vec![call("sum", "{\"a\": \"}\\\"\", \"b\": [{}]}"), call("now", "{}")])
    }

    #[test]
    fn words_and_calls_are_told_apart() {
        assert_eq!(read(marked(), &[TWO]), two());
        assert_eq!(read(marked(), &["a < b <tool"]), ("a < b <tool".to_owned(), vec![]));
        let one = "{\"name\": \"f\", \"parameters\": {\"x\": 1}}";
        assert_eq!(read(bare(), &[one]), (String::new(), vec![call("f", "{\"x\": 1}")]));
        let told = format!("so {one}");
        assert_eq!(read(bare(), &[&told]), (told.clone(), vec![]), "behind words there is no call without a mark");
    }

    #[test]
    fn an_answer_that_is_cut_holds_what_there_is() {
        let cut = |bytes: usize| read(marked(), &[&TWO[..bytes]]);
        let arguments = TWO.find("\"b\"").unwrap_or_default();
        assert_eq!(cut(arguments), ("I add.\n".to_owned(), vec![call("sum", "{\"a\": \"}\\\"\", ")]));
        assert_eq!(cut(12), (TWO[..12].to_owned(), vec![]));
    }

    #[test]
    fn ids_are_of_nine_letters_and_digits_and_differ() {
        let ids: Vec<String> =
            (0..3).flat_map(|choice| (0..3).map(move |call| CallId::new("a1", choice, call).to_string())).collect();
        assert!(ids.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())), "{ids:?}");
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 9, "{ids:?}");
    }

    proptest! {
        #[test]
        fn what_is_told_does_not_depend_on_the_pieces(cuts in proptest::collection::vec(0..TWO.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.extend([0, TWO.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &TWO[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(marked(), &pieces), two());
        }

        #[test]
        fn words_without_a_call_are_told_as_they_are(words in "[a<{tol_\": ]{0,40}", cut in 0..40usize) {
            let cut = cut.min(words.len());
            for form in [marked(), bare()] {
                prop_assume!(!words.starts_with(&form.open));
                prop_assert_eq!(read(form, &[&words[..cut], &words[cut..]]), (words.clone(), vec![]));
            }
        }
    }
}
