//! Files that are either as they were or as they should be.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Result, TrainError};

/// Replaces a file by what `fill` writes: beside it first, then, once all of it has reached the disk, in its place. If
/// anything fails, as it does when the disk is full, the file is as it was.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let beside = beside(path);
    write_through(&beside, fill).and_then(|()| fs::rename(&beside, path)).and_then(|()| sync_folder(path)).map_err(
        |fault| {
            // What could not be finished is of no use; that it cannot be removed changes nothing.
            let _ = fs::remove_file(&beside);
            TrainError::write(path, fault)
        },
    )
}

/// [`replace`] with a text.
pub(crate) fn replace_text(path: &Path, text: &str) -> Result<()> {
    replace(path, |file| file.write_all(text.as_bytes()))
}

/// Creates a folder and those above it.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|fault| TrainError::write(path, fault))
}

/// The last part of a path, to name a file or a folder by.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Where a file is written until it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".part");
    path.with_file_name(name)
}

fn write_through(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    fill(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// A renamed file survives a crash only once its folder has reached the disk too.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        replace_text(&path, "one").unwrap();
        replace_text(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_half_way_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        replace_text(&path, "one").unwrap();
        let fault = replace(&path, |file| {
            file.write_all(b"tw")?;
            Err(io::Error::other("stumbled"))
        });
        let expected = format!("cannot write {}: stumbled; what was written before is intact", path.display());
        assert_eq!(fault.unwrap_err().to_string(), expected);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Every write to `/dev/full` fails as on a full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_said_to_be_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        replace_text(&path, "one").unwrap();
        std::os::unix::fs::symlink("/dev/full", beside(&path)).unwrap();
        let fault = replace_text(&path, &"two".repeat(100_000)).unwrap_err().to_string();
        assert!(fault.contains("No space left on device") && fault.ends_with("is intact"), "{fault}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    }
}
