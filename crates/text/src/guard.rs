//! Libraries of others, which may panic on what nobody has thought of.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a library makes of something; where it panics, its words are the fault.
///
/// Files of tokenizers and templates come from strangers, and what reads them takes some for granted. Nothing that is
/// used after a panic is changed by what panicked: tokenizers and templates are read only, but for caches behind locks.
pub(crate) fn guarded<T>(library: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(library))
        .unwrap_or_else(|panic| Err(format!("the library panicked: {}", words(&*panic))))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_fault_with_its_words() {
        assert_eq!(guarded(|| Ok(7)), Ok(7));
        assert_eq!(guarded::<()>(|| Err("no".to_owned())), Err("no".to_owned()));
        assert_eq!(guarded::<()>(|| panic!("of {}", 7)), Err("the library panicked: of 7".to_owned()));
        assert_eq!(guarded::<()>(|| panic!("of all")), Err("the library panicked: of all".to_owned()));
        assert_eq!(guarded::<()>(|| std::panic::panic_any(7)), Err("the library panicked: without words".to_owned()));
    }
}
