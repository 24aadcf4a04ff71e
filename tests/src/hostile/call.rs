//! What goes over a connection for one case.

use std::time::Duration;

/// A header, which may be nonsense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: &'static str,
    pub(super) value: Vec<u8>,
}

/// How the caller's side of a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Closed,
    /// It is taken back so long after the last piece.
    Reset(Duration),
}

/// All that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<Header>,
    /// The body, in the pieces in which it is sent.
    pub(super) pieces: Vec<Vec<u8>>,
    pub(super) end: End,
}

impl Call {
    /// A call as gRPC has it.
    pub(super) fn new(path: &str, pieces: Vec<Vec<u8>>) -> Self {
        let headers = vec![
            Header { name: "content-type", value: b"application/grpc".to_vec() },
            Header { name: "te", value: b"trailers".to_vec() },
        ];
        Self { method: "POST", path: path.to_owned(), headers, pieces, end: End::Closed }
    }

    /// The whole body.
    pub(super) fn body(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// Bytes of path and headers.
    pub(super) fn head_bytes(&self) -> usize {
        self.path.len() + self.headers.iter().map(|header| header.name.len() + header.value.len()).sum::<usize>()
    }

    /// Replaces a header, or adds it.
    pub(super) fn set(&mut self, name: &'static str, value: Vec<u8>) {
        self.headers.retain(|header| header.name != name);
        self.headers.push(Header { name, value });
    }
}
