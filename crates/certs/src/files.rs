//! Certificates and keys in files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::{Authority, Signed};

/// A file that could not be written.
#[derive(Debug, Error)]
#[error("{} cannot be written", path.display())]
pub struct FilesError {
    /// Which.
    pub path: PathBuf,
    source: io::Error,
}

/// Writes `ca.pem` into a folder.
///
/// # Errors
/// [`FilesError`] names the file.
pub fn write_authority(folder: &Path, authority: &Authority) -> Result<(), FilesError> {
    let path = folder.join("ca.pem");
    fs::write(&path, authority.cert()).map_err(|source| FilesError { path, source })
}

/// Writes `NAME.pem`, and `NAME.key` which its owner alone may read, into a folder.
///
/// # Errors
/// [`FilesError`] names the file.
pub fn write_signed(folder: &Path, name: &str, signed: &Signed) -> Result<(), FilesError> {
    let path = folder.join(format!("{name}.pem"));
    fs::write(&path, &signed.cert).map_err(|source| FilesError { path, source })?;
    let path = folder.join(format!("{name}.key"));
    write_secret(&path, signed.key.as_bytes()).map_err(|source| FilesError { path, source })
}

fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Who may read a file is told when it is made: one that is there already is made anew.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, SystemTime};

    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_key_is_for_its_owner_alone_even_where_a_file_was_for_all() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let authority = Authority::new("test", now..now + Duration::from_secs(60)).unwrap();
        let key = folder.path().join("host.key");
        fs::write(&key, "old").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        write_authority(folder.path(), &authority).unwrap();
        write_signed(folder.path(), "host", &authority.sign(&["localhost", "127.0.0.1"]).unwrap()).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&key).unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
        assert!(fs::read_to_string(folder.path().join("ca.pem")).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    }
}
