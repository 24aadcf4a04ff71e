//! Whether anything panicked, wherever the panic went: a task's goes no further than the task.

use std::cell::Cell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Panics of this thread so far, on which a world runs.
pub(crate) fn panics() -> usize {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let told_before = take_hook();
        set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            told_before(panic);
        }));
    });
    PANICS.get()
}
