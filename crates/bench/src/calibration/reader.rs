//! One sequence in a model, read from its first token to its last.

use espalier_model::{Asked, Decoder, KvCache, Logits, Row, Segment, States, Workspace};
use espalier_proto::HiddenStates;
use espalier_speculation::Token;

use crate::error::BenchError;

/// Positions of one forward pass.
const ROWS: usize = 128;

/// One sequence in a model.
pub(super) struct Reader<'a> {
    decoder: &'a Decoder,
    cache: KvCache,
    /// The layer, counted from 1, whose hidden states are kept, and those of all tokens read.
    tapped: Option<(usize, HiddenStates)>,
}

impl<'a> Reader<'a> {
    /// Nothing read yet.
    pub(super) fn new(decoder: &'a Decoder) -> Self {
        Self { decoder, cache: decoder.new_cache(), tapped: None }
    }

    /// The same; the hidden states after `layer`, if there is one, are kept.
    pub(super) fn tapping(decoder: &'a Decoder, layer: Option<usize>) -> Self {
        let tapped = layer.map(|layer| (layer, HiddenStates::new(0, decoder.config().hidden)));
        Self { tapped, ..Self::new(decoder) }
    }

    /// The hidden states of all tokens read, rounded as on their way to a drafter; none if none were kept.
    pub(super) fn into_states(self) -> Option<HiddenStates> {
        self.tapped.map(|(_, states)| states)
    }

    /// Runs `tokens` after all that was read before; `see` gets the place of a token among them and the logits after it,
    /// if `logits` wants them of all.
    pub(super) fn read(
        &mut self,
        work: &mut Workspace,
        tokens: &[Token],
        logits: Logits,
        mut see: impl FnMut(usize, &[f32]) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        for (chunk, first) in tokens.chunks(ROWS).zip((0..).step_by(ROWS)) {
            let rows = Row::chain(chunk, 0);
            let segment = Segment { cache: &mut self.cache, rows: &rows, logits };
            let layer = self.tapped.as_ref().map(|(layer, _)| *layer);
            let output =
                self.decoder.forward(work, &mut [segment], Asked { taps: layer.as_slice(), ..Asked::default() })?;
            if let Some((_, states)) = &mut self.tapped {
                (0..chunk.len()).for_each(|row| states.push(output.tap(0, 0, row)));
            }
            if logits == Logits::All {
                (0..chunk.len()).try_for_each(|row| see(first + row, output.logits(0, row)))?;
            }
            self.cache.keep_path(&(0..chunk.len()).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Reads `tokens` with another model's hidden states of them as the next positions. What was peeked at is forgotten.
    pub(super) fn read_states(
        &mut self,
        work: &mut Workspace,
        tokens: &[Token],
        mut states: HiddenStates,
    ) -> Result<(), BenchError> {
        for tokens in tokens.chunks(ROWS) {
            let states = states.split_front(tokens.len()).to_f32();
            self.decoder.append_states(work, &mut [States { cache: &mut self.cache, tokens, states: &states }])?;
        }
        Ok(())
    }

    /// The logits after `token`, which is not counted as read.
    pub(super) fn peek<T>(
        &mut self,
        work: &mut Workspace,
        token: Token,
        see: impl FnOnce(&[f32]) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let rows = Row::chain(&[token], 0);
        let segment = Segment { cache: &mut self.cache, rows: &rows, logits: Logits::Last(1) };
        let seen = see(self.decoder.forward(work, &mut [segment], Asked::default())?.logits(0, 0));
        self.cache.keep_path(&[])?;
        seen
    }
}
