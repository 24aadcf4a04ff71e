//! How much memory is held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts what each thread holds. A program that is to know must have it as its own; in
/// others nothing is counted.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    /// Less than 0 where memory is given back by another thread than that which took it.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn taken(bytes: usize) {
    let held = HELD.get().saturating_add_unsigned(bytes);
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

fn given_back(bytes: usize) {
    HELD.set(HELD.get().saturating_sub_unsigned(bytes));
}

// SAFETY: all calls are handed on as they came; what is counted is in cells of the thread's own that need no memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
        given_back(layout.size());
        // SAFETY: the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The most bytes that this thread holds while something is done, beyond those that it holds before.
pub(crate) fn peak_of(what: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    what();
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}
