//! One buffer written by many tasks, each in its own place.

use std::marker::PhantomData;

/// A mutable slice whose parts are handed out to tasks that run side by side.
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: `slice` hands the duty of keeping parts apart to its callers.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData }
    }

    /// Elements `from .. from + len`.
    ///
    /// # Safety
    /// Parts that are alive at the same time do not overlap.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice(&self, from: usize, len: usize) -> &'a mut [T] {
        // SAFETY: inside the buffer; the caller keeps parts apart.
        unsafe { std::slice::from_raw_parts_mut(self.at(from, len), len) }
    }

    /// Where elements `from .. from + len` begin, for parts that lie between those of others.
    pub(crate) fn at(&self, from: usize, len: usize) -> *mut T {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len), "a part of the buffer");
        self.start.wrapping_add(from)
    }
}
