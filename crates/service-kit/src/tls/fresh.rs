//! What was made of certificates, and is made anew when their files change.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::RwLock;

use super::error::TlsError;
use super::files::{Contents, Material};
use super::paths::TlsFiles;
use crate::follow::{Followed, Seen, follow};

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
        tokio::spawn(follow(Arc::downgrade(&shared), Seen::first(contents)));
        Ok(Self(shared))
    }

    pub(super) fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.current.read())
    }
}

impl<T: Send + Sync + 'static> Followed for Shared<T> {
    type Contents = Contents;
    type Error = TlsError;
    const WHAT: &'static str = "the certificates";

    fn read(&self) -> Result<Contents, TlsError> {
        Contents::read(&self.files)
    }

    /// A certificate may be there before its key.
    fn replace(&self, contents: &Contents) -> Result<(), TlsError> {
        let material = contents.parse(&self.files, Timestamp::now())?;
        *self.current.write() = Arc::new((self.make)(material)?);
        Ok(())
    }

    fn concern(&self, contents: &Contents) -> Option<String> {
        ending(contents, &self.files, Timestamp::now())
    }
}

/// That the certificate of this end ends soon, if it does.
fn ending(contents: &Contents, files: &TlsFiles, now: Timestamp) -> Option<String> {
    let own = contents.parse(files, now).ok()?.identity?;
    let validity = own.validity.filter(|validity| validity.is_ending_at(now))?;
    let path = own.files.cert.display();
    Some(format!("the certificate in {path} ends at {}, and was not replaced", validity.until))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

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
    async fn what_is_of_no_use_changes_nothing_and_an_end_is_told_of_before_it_comes() {
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
        assert!(shared.replace(&shared.read().unwrap()).is_err());
        fs::remove_file(at("host.key")).unwrap();
        assert!(shared.read().is_err());
        assert_eq!(**shared.current.read(), first);

        write(folder.path(), "two");
        let contents = shared.read().unwrap();
        shared.replace(&contents).unwrap();
        assert_ne!(**shared.current.read(), first);
        let ending = |after| ending(&contents, &shared.files, Timestamp::now() + Duration::from_secs(after));
        assert_eq!(ending(0), None);
        let told = ending(800).expect("a fifth of its time is left");
        assert!(told.starts_with(&format!("the certificate in {} ends at 2", at("host.pem").display())), "{told}");
    }
}
