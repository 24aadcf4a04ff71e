//! What was made of files, and is made anew when they change.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::error::TlsError;
use super::files::{Contents, Material};
use super::paths::TlsFiles;
use crate::chain;

/// How often files are looked at.
const LOOK_EVERY: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(3) };

/// A configuration as the files have it; clones share it.
pub(super) struct Fresh<T>(Arc<Shared<T>>);

impl<T> Clone for Fresh<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// How a configuration is made.
pub(super) type Make<T> = Box<dyn Fn(Material) -> Result<T, TlsError> + Send + Sync>;

struct Shared<T> {
    files: TlsFiles,
    make: Make<T>,
    current: RwLock<Arc<T>>,
}

impl<T: Send + Sync + 'static> Fresh<T> {
    /// What is made of the files now; from now on it follows them, until the last clone is gone. Must be called within a
    /// tokio runtime.
    pub(super) fn load(files: TlsFiles, make: Make<T>) -> Result<Self, TlsError> {
        let contents = Contents::read(&files)?;
        let material = contents.parse(&files, Timestamp::now())?;
        let current = RwLock::new(Arc::new(make(material)?));
        let shared = Arc::new(Shared { files, make, current });
        tokio::spawn(follow(Arc::downgrade(&shared), contents));
        Ok(Self(shared))
    }

    pub(super) fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.current.read())
    }
}

impl<T> Shared<T> {
    /// Takes what the files have now, if that is something else; what they have now. What is of no use changes nothing: a
    /// certificate may be there before its key.
    fn look(&self, seen: Contents) -> Contents {
        let files = &self.files;
        let found = match Contents::read(files) {
            Ok(found) if found == seen => return seen,
            Ok(found) => found,
            // It may be in the middle of being replaced.
            Err(error) => {
                tracing::warn!(error = chain(&error), "certificates cannot be read; the last ones are kept");
                return seen;
            }
        };
        match found.parse(files, Timestamp::now()).and_then(|material| (self.make)(material)) {
            Ok(made) => {
                *self.current.write() = Arc::new(made);
                tracing::info!(?files, "certificates were replaced");
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "new certificates are of no use; the last ones are kept");
            }
        }
        found
    }

    /// Says, once, that the certificate of this end ends soon.
    fn warn(&self, contents: &Contents, now: Timestamp) -> bool {
        let Ok(Material { identity: Some(identity), .. }) = contents.parse(&self.files, now) else { return false };
        let ending = identity.validity.filter(|validity| validity.is_ending_at(now));
        if let Some(validity) = ending {
            let path = &identity.files.cert;
            tracing::warn!(path = %path.display(), until = %validity.until, "a certificate ends soon, and was not replaced");
        }
        ending.is_some()
    }
}

/// Looks at the files again and again for as long as somebody needs them.
async fn follow<T: Send + Sync + 'static>(shared: Weak<Shared<T>>, mut seen: Contents) {
    let mut warned = None;
    while let Some(shared) = shared.upgrade() {
        let look = spawn_blocking(move || {
            let found = shared.look(seen);
            if warned.as_ref() != Some(&found) && shared.warn(&found, Timestamp::now()) {
                warned = Some(found.clone());
            }
            (found, warned)
        });
        // Only the runtime's end, or a fault of ours, ends it.
        let Ok(found) = look.await else { return };
        (seen, warned) = found;
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::path::Path;
    use std::time::SystemTime;

    use espalier_certs::{Authority, write_authority, write_signed};

    use super::super::paths::IdentityFiles;
    use super::*;

    fn write(folder: &Path, name: &str) {
        let now = SystemTime::now();
        let authority = Authority::new("test", now..now + Duration::from_secs(1000)).unwrap();
        write_authority(folder, &authority).unwrap();
        write_signed(folder, "host", &authority.sign(&[name]).unwrap()).unwrap();
    }

    #[tokio::test]
    async fn what_is_of_no_use_changes_nothing_and_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join(file);
        let identity = IdentityFiles { cert: at("host.pem"), key: at("host.key") };
        let files = TlsFiles { identity: Some(identity), authorities: Some(at("ca.pem")) };
        write(folder.path(), "one");
        let contents = Contents::read(&files).unwrap();
        let chain_of = |material: Material| Ok(material.identity.unwrap().chain);
        let first = chain_of(contents.parse(&files, Timestamp::now()).unwrap()).unwrap();
        let (make, current): (Make<_>, _) = (Box::new(chain_of), RwLock::new(Arc::new(first.clone())));
        let shared = Shared { files, make, current };

        fs::write(at("host.pem"), "no certificate").unwrap();
        let seen = shared.look(contents);
        fs::remove_file(at("host.key")).unwrap();
        let seen = shared.look(seen);
        assert_eq!(**shared.current.read(), first);

        write(folder.path(), "two");
        let seen = shared.look(seen);
        assert_ne!(**shared.current.read(), first);
        assert!(!shared.warn(&seen, Timestamp::now()));
        assert!(shared.warn(&seen, Timestamp::now() + Duration::from_secs(800)), "a fifth of its time is left");
    }
}
