//! Rows of packed text, ready for a forward pass.

use candle_core::{DType, Device, Tensor};
use espalier_speculation::Token;

use super::pack::Row;
use crate::error::Result;

/// The token in positions that hold no text.
const PADDING: Token = 0;

/// A run of positions that hold one text, or one piece of it. Texts in one row do not see each other, and each begins at
/// position 0, as it does when it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The row.
    pub row: usize,
    /// The first column.
    pub start: usize,
    /// The number of tokens, at least 1.
    pub length: usize,
}

/// Some rows of packed text.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    rows: usize,
    length: usize,
    tokens: Vec<Token>,
    labels: Vec<Option<Token>>,
    spans: Vec<Span>,
}

impl Batch {
    /// A batch of whole texts, one a row.
    pub fn of_texts(texts: &[Vec<Token>]) -> Self {
        let mut batch = Self::empty(texts.len(), texts.iter().map(Vec::len).max().unwrap_or(0));
        for (row, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            batch.put(Span { row, start: 0, length: text.len() }, text, None);
        }
        batch
    }

    /// A batch of rows of whole texts, side by side.
    #[cfg(test)]
    pub(crate) fn of_pieces(rows: &[&[&[Token]]]) -> Self {
        let used = |row: &&[&[Token]]| row.iter().map(|text| text.len()).sum();
        let mut batch = Self::empty(rows.len(), rows.iter().map(used).max().unwrap_or(0));
        for (row, texts) in rows.iter().enumerate() {
            let mut start = 0;
            for text in *texts {
                batch.put(Span { row, start, length: text.len() }, text, None);
                start += text.len();
            }
        }
        batch
    }

    /// The pieces of packed rows, as narrow as the fullest row allows.
    pub(super) fn of_rows(rows: &[Row], texts: &[Vec<Token>]) -> Self {
        let used = |row: &Row| row.iter().map(|piece| piece.length).sum();
        let mut batch = Self::empty(rows.len(), rows.iter().map(used).max().unwrap_or(0));
        for (row, pieces) in rows.iter().enumerate() {
            let mut start = 0;
            for piece in pieces {
                let (text, end) = (&texts[piece.text], piece.start + piece.length);
                batch.put(Span { row, start, length: piece.length }, &text[piece.start..end], text.get(end).copied());
                start += piece.length;
            }
        }
        batch
    }

    /// The rows in at most `parts` groups of about equal size, in order.
    pub(crate) fn split(&self, parts: usize) -> Vec<Self> {
        let size = self.rows.div_ceil(parts.max(1)).max(1);
        let part = |first: usize| {
            let rows = size.min(self.rows - first);
            let cells = first * self.length..(first + rows) * self.length;
            let own = self.spans.iter().filter(|span| (first..first + rows).contains(&span.row));
            Self {
                rows,
                length: self.length,
                tokens: self.tokens[cells.clone()].to_vec(),
                labels: self.labels[cells].to_vec(),
                spans: own.map(|span| Span { row: span.row - first, ..*span }).collect(),
            }
        };
        (0..self.rows).step_by(size).map(part).collect()
    }

    fn empty(rows: usize, length: usize) -> Self {
        let cells = rows * length;
        Self { rows, length, tokens: vec![PADDING; cells], labels: vec![None; cells], spans: Vec::new() }
    }

    /// Writes a span's tokens; `next` is the token that follows the last of them.
    fn put(&mut self, span: Span, tokens: &[Token], next: Option<Token>) {
        let first = span.row * self.length + span.start;
        self.tokens[first..][..span.length].copy_from_slice(tokens);
        let labels = tokens.iter().skip(1).copied().map(Some).chain([next]);
        self.labels[first..].iter_mut().zip(labels).for_each(|(slot, label)| *slot = label);
        self.spans.push(span);
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The positions of a row.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The texts in it, row by row.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// (rows * length): the tokens, row after row; positions without text hold some token or other.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// (rows * length): the token that follows each, where there is one.
    pub fn labels(&self) -> &[Option<Token>] {
        &self.labels
    }

    /// Positions that hold text.
    pub fn token_count(&self) -> usize {
        self.spans.iter().map(|span| span.length).sum()
    }

    /// (rows * length): whether each position holds text.
    pub(crate) fn holds_text(&self) -> Vec<bool> {
        let mut holds = vec![false; self.rows * self.length];
        for span in &self.spans {
            holds[self.first_of(span)..][..span.length].fill(true);
        }
        holds
    }

    /// Where a span begins in the flat order of [`Self::tokens`].
    pub(crate) fn first_of(&self, span: &Span) -> usize {
        span.row * self.length + span.start
    }

    /// (rows * length): the place of each token in its own text; 0 where there is no text.
    pub(crate) fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.rows * self.length];
        for span in &self.spans {
            let first = self.first_of(span);
            (0..span.length).for_each(|i| positions[first + i] = i);
        }
        positions
    }

    /// (rows, length)
    pub(crate) fn token_tensor(&self, device: &Device) -> Result<Tensor> {
        Ok(Tensor::from_slice(&self.tokens, (self.rows, self.length), device)?)
    }

    /// (rows, 1, length, length): what is added to the scores, 0 where a position sees another and minus infinity where
    /// it does not. A position sees those of its own text up to itself; one without text sees itself alone, so that no
    /// row of scores is minus infinity throughout.
    pub(crate) fn causal_mask(&self, dtype: DType, device: &Device) -> Result<Tensor> {
        let length = self.length;
        let mut mask = vec![f32::NEG_INFINITY; self.rows * length * length];
        for cell in 0..self.rows * length {
            mask[cell * length + cell % length] = 0.0;
        }
        for span in &self.spans {
            for i in 0..span.length {
                let query = (self.first_of(span) + i) * length;
                mask[query + span.start..][..=i].fill(0.0);
            }
        }
        Ok(Tensor::from_vec(mask, (self.rows, 1, length, length), device)?.to_dtype(dtype)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::pack::Piece;
    use super::*;

    /// Row 0: all of text 0, then the first two tokens of text 1. Row 1: the rest of text 1.
    fn packed() -> Batch {
        let texts = [vec![10, 11], vec![20, 21, 22]];
        let piece = |text, start, length| Piece { text, start, length };
        Batch::of_rows(&[vec![piece(0, 0, 2), piece(1, 0, 2)], vec![piece(1, 2, 1)]], &texts)
    }

    #[test]
    fn a_cut_text_still_knows_its_next_token() {
        let batch = packed();
        assert_eq!((batch.rows(), batch.length(), batch.token_count()), (2, 4, 5));
        assert_eq!(batch.tokens(), [10, 11, 20, 21, 22, PADDING, PADDING, PADDING]);
        assert_eq!(batch.labels(), [Some(11), None, Some(21), Some(22), None, None, None, None]);
        assert_eq!(batch.positions(), [0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(batch.holds_text(), [true, true, true, true, true, false, false, false]);
    }

    #[test]
    fn texts_in_one_row_do_not_see_each_other() {
        let mask = packed().causal_mask(DType::F32, &Device::Cpu).unwrap();
        let sees: Vec<String> = mask
            .reshape((8, 4))
            .unwrap()
            .to_vec2::<f32>()
            .unwrap()
            .iter()
            .map(|row| row.iter().map(|score| if *score == 0.0 { 'x' } else { '.' }).collect())
            .collect();
        assert_eq!(sees, ["x...", "xx..", "..x.", "..xx", "x...", ".x..", "..x.", "...x"]);
    }

    #[test]
    fn parts_hold_all_rows_in_order() {
        let texts: Vec<Vec<u32>> = (1..=5).map(|length| vec![length; length as usize]).collect();
        let batch = Batch::of_texts(&texts);
        let parts = batch.split(2);
        assert_eq!(parts.iter().map(Batch::rows).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(parts.iter().flat_map(|part| part.tokens().to_vec()).collect::<Vec<_>>(), batch.tokens());
        assert_eq!(parts.iter().flat_map(|part| part.labels().to_vec()).collect::<Vec<_>>(), batch.labels());
        assert_eq!(parts[1].spans(), [Span { row: 0, start: 0, length: 4 }, Span { row: 1, start: 0, length: 5 }]);
        assert_eq!(batch.split(9).len(), 5);
        assert!(Batch::of_texts(&[]).split(2).is_empty());
    }

    #[test]
    fn whole_texts_stand_one_in_a_row() {
        let batch = Batch::of_texts(&[vec![1, 2], vec![], vec![3]]);
        assert_eq!((batch.rows(), batch.length(), batch.spans().len()), (3, 2, 2));
        assert_eq!(batch.tokens(), [1, 2, PADDING, PADDING, 3, PADDING]);
    }
}
