//! Memory for weights, keys and values: large mappings on huge pages, cut into slabs.
//!
//! A decode step walks all weights, and all keys and values of a text. On small pages the processor's prefetcher stops at
//! every 4 KiB and addresses have to be translated thousands of times; matrices and blocks of their own would each be too
//! small for huge pages.

use std::alloc::{Layout, handle_alloc_error};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};

use crate::error::{ModelError, Result};

/// Bytes of one mapping; memory is taken page by page as it is written.
const MAPPING_BYTES: usize = 256 << 20;

/// Slabs begin at multiples of this: a huge page for the first of a mapping, a cache line and more for the others.
const ALIGNMENT: usize = 4096;

/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// A source of slabs. What it hands out stays valid after it is gone.
#[derive(Default)]
pub(crate) struct Arena {
    mapping: Option<Arc<MmapMut>>,
    /// Bytes of the mapping that are handed out, its alignment included.
    used: usize,
}

/// A zeroed slice of an arena that nobody else holds.
pub(crate) struct Slab<T> {
    mapping: Arc<MmapMut>,
    start: *mut T,
    len: usize,
    kind: PhantomData<T>,
}

// SAFETY: a slab is the only holder of its part of the mapping, like a `Box<[T]>`; slabs hold plain numbers.
unsafe impl<T: Send> Send for Slab<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Slab<T> {}

/// Plain numbers whose zero is all zero bits.
pub(crate) trait Number: Copy {}

impl Number for f32 {}
impl Number for u16 {}
impl Number for u8 {}

impl Arena {
    /// `len` zeros.
    ///
    /// # Errors
    /// [`ModelError::Memory`] when the system has none left.
    pub(crate) fn slab<T: Number>(&mut self, len: usize) -> Result<Slab<T>> {
        let bytes = (len * size_of::<T>()).next_multiple_of(ALIGNMENT);
        let mapping = match self.mapping.take() {
            Some(mapping) if mapping.len() - self.used >= bytes => mapping,
            _ => self.map(bytes)?,
        };
        // SAFETY: `used + bytes` lies inside the mapping and this part is handed out once.
        let start = unsafe { mapping.as_ptr().add(self.used) }.cast_mut().cast();
        self.used += bytes;
        self.mapping = Some(mapping.clone());
        Ok(Slab { mapping, start, len, kind: PhantomData })
    }

    /// A new mapping with room for `bytes` from a huge page's border on.
    fn map(&mut self, bytes: usize) -> Result<Arc<MmapMut>> {
        let mapping = map(bytes.max(MAPPING_BYTES)).map_err(ModelError::Memory)?;
        self.used = mapping.as_ptr().align_offset(HUGE_PAGE);
        Ok(Arc::new(mapping))
    }
}

/// A mapping with room for `bytes` from a huge page's border on.
fn map(bytes: usize) -> io::Result<MmapMut> {
    let mapping = MmapOptions::new().len(bytes + HUGE_PAGE).no_reserve_swap().map_anon()?;
    #[cfg(target_os = "linux")]
    // Advice only: small pages work as well.
    let _ = mapping.advise(memmap2::Advice::HugePage);
    Ok(mapping)
}

impl<T: Number> Slab<T> {
    /// `len` zeros in a mapping of their own, on huge pages if they fill one. Where the system has no memory left the
    /// process ends, as it does for whatever else is collected.
    pub(crate) fn alone(len: usize) -> Self {
        let bytes = len * size_of::<T>();
        let fills_one = bytes >= HUGE_PAGE;
        let mapped = if fills_one { map(bytes) } else { MmapOptions::new().len(bytes.max(1)).map_anon() };
        let wanted = Layout::array::<T>(len).unwrap_or(Layout::new::<T>());
        let mapping = mapped.unwrap_or_else(|_| handle_alloc_error(wanted));
        let at = if fills_one { mapping.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        let start = mapping.as_ptr().wrapping_add(at).cast_mut().cast();
        Self { mapping: Arc::new(mapping), start, len, kind: PhantomData }
    }
}

impl<T> Slab<T> {
    /// Where it begins.
    pub(crate) fn start(&self) -> *mut T {
        self.start
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        debug_assert!(!self.mapping.is_empty());
        // SAFETY: the slab lies inside its mapping, aligned, and holds numbers.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else holds this part.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_zeroed_apart_and_outlive_the_arena() {
        let mut arena = Arena::default();
        let mut slabs: Vec<Slab<f32>> = (1..20).map(|i| arena.slab(i * 1000).unwrap()).collect();
        drop(arena);
        assert!(slabs.iter().all(|slab| slab.as_slice().iter().all(|&v| v == 0.0)));
        for (i, slab) in slabs.iter_mut().enumerate() {
            slab.as_mut_slice().fill(i as f32);
        }
        for (i, slab) in slabs.iter().enumerate() {
            assert_eq!(slab.as_slice().len(), (i + 1) * 1000);
            assert!(slab.as_slice().iter().all(|&v| v == i as f32));
        }
    }

    #[test]
    fn a_slab_may_be_larger_than_a_mapping() {
        let slab: Slab<u16> = Arena::default().slab(MAPPING_BYTES).unwrap();
        assert_eq!(slab.as_slice()[MAPPING_BYTES - 1], 0);
    }

    #[test]
    fn a_slab_of_its_own_begins_on_a_huge_page_if_it_fills_one() {
        for (len, aligned) in [(1, 64), (HUGE_PAGE, HUGE_PAGE), (5 * HUGE_PAGE + 1, HUGE_PAGE)] {
            let mut slab = Slab::<u8>::alone(len);
            assert_eq!((slab.start() as usize % aligned, slab.as_slice().len()), (0, len));
            assert!(slab.as_slice().iter().all(|byte| *byte == 0));
            slab.as_mut_slice().fill(7);
        }
    }

    #[test]
    fn the_first_slab_begins_on_a_huge_page() {
        let slab: Slab<u16> = Arena::default().slab(10).unwrap();
        assert_eq!(slab.as_slice().as_ptr() as usize % HUGE_PAGE, 0);
    }
}
