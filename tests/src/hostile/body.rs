//! The body of a call: messages, each in a frame of its own.

use espalier_proto::MESSAGE_BYTES_MAX;

use super::rpc::Rpc;

/// Bytes before each message: a flag and its length.
pub(super) const HEADER_BYTES: usize = 5;

/// A gateway takes messages of this length at least; of longer ones those that some target could serve.
const TAKEN_BYTES: usize = 256 << 10;

/// A message in its frame.
pub(super) fn frame(message: &[u8]) -> Vec<u8> {
    frame_as(0, message.len() as u32, message)
}

/// A message in a frame that may say something else of it.
pub(super) fn frame_as(flag: u8, length: u32, message: &[u8]) -> Vec<u8> {
    [&[flag], &length.to_be_bytes()[..], message].concat()
}

/// What a body is to who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Readable {
    /// Whether the first message can be read.
    pub(super) first: bool,
    /// Whether all can, and nothing is left over.
    pub(super) all: bool,
    /// Whether some message says that it is longer than what must be taken.
    pub(super) too_long: bool,
}

impl Readable {
    /// Reads a body as an RPC does.
    pub(super) fn of(rpc: Rpc, body: &[u8]) -> Self {
        let (mut rest, mut read, mut found) = (body, 0, Self { first: false, all: true, too_long: false });
        while !rest.is_empty() && found.all {
            found.too_long |= length(rest).is_some_and(|length| length > TAKEN_BYTES);
            let message = next(&mut rest);
            if message == Err(Broken::Over) {
                break;
            }
            found.all = message.is_ok_and(|message| rpc.decodes(message));
            found.first |= found.all && read == 0;
            read += 1;
        }
        found
    }
}

/// Why there is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// A body that ends with a header is read as if it had ended before it.
    Over,
    CutShort,
    Compressed,
    TooLong,
}

/// What the next header of a body says of the length of its message.
fn length(rest: &[u8]) -> Option<usize> {
    let [_, length @ ..] = rest.first_chunk::<HEADER_BYTES>()?;
    Some(u32::from_be_bytes(*length) as usize)
}

/// The next message of a body.
fn next<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], Broken> {
    let length = length(rest).ok_or(Broken::CutShort)?;
    let (header, body) = rest.split_at(HEADER_BYTES);
    if header[0] != 0 {
        return Err(Broken::Compressed);
    }
    if length > MESSAGE_BYTES_MAX {
        return Err(Broken::TooLong);
    }
    if body.is_empty() && length > 0 {
        return Err(Broken::Over);
    }
    let (message, after) = body.split_at_checked(length).ok_or(Broken::CutShort)?;
    *rest = after;
    Ok(message)
}
