//! Who tells what is measured.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::snapshot::Snapshot;

/// Something that measures itself.
pub trait Source: Send + Sync {
    /// Tells all that it measures, without waiting for anything.
    fn tell(&self, to: &mut Snapshot);
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn tell(&self, to: &mut Snapshot) {
        (**self).tell(to);
    }
}

/// The sources of a process; clones are the same registry.
#[derive(Clone, Default)]
pub struct Registry(Arc<RwLock<Vec<Arc<dyn Source>>>>);

impl Registry {
    /// One more source, from now on.
    pub fn add(&self, source: impl Source + 'static) {
        self.0.write().push(Arc::new(source));
    }

    /// What all sources tell now.
    pub fn snapshot(&self) -> Snapshot {
        // Sources are asked without the lock, so that one may be added meanwhile.
        let sources = self.0.read().clone();
        let mut snapshot = Snapshot::default();
        sources.iter().for_each(|source| source.tell(&mut snapshot));
        snapshot
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("sources", &self.0.read().len()).finish()
    }
}
