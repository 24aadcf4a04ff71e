//! From committed tokens to text, as far as characters are complete.

use espalier_proto::{Fault, FaultKind, GeneratedToken, Party, RoundReport};
use espalier_text::{Detokenizer, TextError, Tokenizer};

/// The text of one answer.
#[derive(Debug)]
pub(crate) struct TextStream(Detokenizer);

impl TextStream {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        Self(tokenizer.decoder())
    }

    /// The tokens of a round, each with the text that it completes.
    pub(crate) fn push(&mut self, report: &RoundReport) -> Result<Vec<GeneratedToken>, Fault> {
        let token = |(index, &id): (usize, &u32)| {
            let text = self.0.push(id).map_err(internal)?.unwrap_or_default();
            Ok(GeneratedToken { id, text, drafted: index < report.accepted })
        };
        report.tokens.iter().enumerate().map(token).collect()
    }

    /// What is left of a character that was never completed.
    pub(crate) fn finish(&mut self) -> Result<String, Fault> {
        Ok(self.0.finish().map_err(internal)?.unwrap_or_default())
    }
}

fn internal(error: TextError) -> Fault {
    Fault::new(Party::Gateway, FaultKind::Internal, error)
}
