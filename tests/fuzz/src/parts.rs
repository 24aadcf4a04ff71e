//! Inputs of several texts and, last, of bytes: texts cannot have a byte 0, so one stands between.

/// So many parts; the last has all that is left.
pub(crate) fn split<const N: usize>(bytes: &[u8]) -> [&[u8]; N] {
    let mut parts = bytes.splitn(N, |&byte| byte == 0);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// The other way round.
pub(crate) fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.join(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_split_again() {
        let parts: [&[u8]; 3] = [b"ab", b"", b"\0c\0"];
        assert_eq!(split(&joined(&parts)), parts);
        assert_eq!(split(b"ab"), [&b"ab"[..], b"", b""]);
    }
}
