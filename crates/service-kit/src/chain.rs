//! An error and its causes in one line.

use std::error::Error;
use std::fmt::Write;

/// `error` and everything beneath it, outermost first: `what failed: why: why that`.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| (*cause).source()) {
        // Writing to a string does not fail.
        let _ = write!(text, ": {cause}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::ServeError;

    #[test]
    fn causes_follow_what_they_caused() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let source = std::io::Error::other("no such luck");
        let error = ServeError::Listen { address, source };
        assert_eq!(chain(&error), "cannot listen on 127.0.0.1:80: no such luck");
    }
}
