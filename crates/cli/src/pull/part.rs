//! A file on its way: `NAME.part`, until all of it is there and found to be right.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::PullError;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The longest validator that is kept.
const TAG_BYTES_MAX: usize = 1 << 10;

/// A file on its way.
pub(crate) struct Part {
    /// Where it will be.
    path: PathBuf,
    part: PathBuf,
    /// Holds what the server calls this version of the file: whoever goes on with a part must go on with the same.
    tag: PathBuf,
    file: File,
    hasher: Sha256,
    /// Bytes that are there.
    pub(crate) bytes: u64,
}

impl Part {
    /// What is there already of the file `name` in a folder. Nobody else can have it meanwhile.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<Self, PullError> {
        let at = |end: &str| folder.join(format!("{name}{end}"));
        let (path, part, tag) = (at(""), at(".part"), at(".part.tag"));
        let failed = |source| PullError::File { path: part.clone(), source };
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part);
        let file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PullError::Locked { path: part }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut this = Self { path, part, tag, file, hasher: Sha256::new(), bytes: 0 };
        this.read_on()?;
        Ok(this)
    }

    /// Reads what is there, to its end.
    fn read_on(&mut self) -> Result<(), PullError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = self.file.read(&mut chunk).map_err(|source| self.failed(source))?;
            if read == 0 {
                return Ok(());
            }
            self.hasher.update(&chunk[..read]);
            self.bytes += read as u64;
        }
    }

    /// What the server called the version that this is the beginning of.
    pub(crate) fn tag(&self) -> Option<String> {
        fs::read_to_string(&self.tag).ok().filter(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX)
    }

    /// Keeps what the server calls this version.
    pub(crate) fn keep_tag(&self, tag: Option<&str>) -> Result<(), PullError> {
        fs::write(&self.tag, tag.unwrap_or_default())
            .map_err(|source| PullError::File { path: self.tag.clone(), source })
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) -> Result<(), PullError> {
        let cleared = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        cleared.map_err(|source| self.failed(source))?;
        (self.hasher, self.bytes) = (Sha256::new(), 0);
        Ok(())
    }

    pub(crate) fn write(&mut self, chunk: &[u8]) -> Result<(), PullError> {
        self.file.write_all(chunk).map_err(|source| self.failed(source))?;
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    /// Puts the file where it belongs, if it is what was expected; gives its checksum. What is wrong is thrown away.
    pub(crate) fn finish(self, expected: Option<&str>) -> Result<String, PullError> {
        let found = digits(self.hasher.clone());
        if let Some(expected) = expected.filter(|expected| **expected != found) {
            let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let expected = expected.to_owned();
            self.discard();
            return Err(PullError::Checksum { name, expected, found });
        }
        let placed = self.file.sync_all().and_then(|()| fs::rename(&self.part, &self.path));
        placed.map_err(|source| self.failed(source))?;
        // Without its part it is of no use, and of no harm.
        let _ = fs::remove_file(&self.tag);
        Ok(found)
    }

    /// Throws away what is there.
    pub(crate) fn discard(self) {
        // What cannot be removed is read as a beginning the next time, and found to be wrong again.
        let _ = (fs::remove_file(&self.part), fs::remove_file(&self.tag));
    }

    fn failed(&self, source: std::io::Error) -> PullError {
        PullError::File { path: self.part.clone(), source }
    }
}

/// The checksum of a whole file.
pub(crate) fn checksum(path: &Path) -> Result<String, PullError> {
    let mut hasher = Sha256::new();
    let hashed = File::open(path).and_then(|mut file| {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(()),
                read => hasher.update(&chunk[..read]),
            }
        }
    });
    hashed.map_err(|source| PullError::File { path: path.to_owned(), source })?;
    Ok(digits(hasher))
}

fn digits(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Of `abc`.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_part_is_gone_on_with_and_placed_when_it_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let mut part = Part::open(folder.path(), "a.bin").unwrap();
        assert!(matches!(Part::open(folder.path(), "a.bin"), Err(PullError::Locked { .. })));
        part.write(b"ab").unwrap();
        part.keep_tag(Some("\"v1\"")).unwrap();
        drop(part);
        let mut part = Part::open(folder.path(), "a.bin").unwrap();
        assert_eq!((part.bytes, part.tag().as_deref()), (2, Some("\"v1\"")));
        part.write(b"c").unwrap();
        assert_eq!(part.finish(Some(ABC)).unwrap(), ABC);
        assert_eq!(checksum(&folder.path().join("a.bin")).unwrap(), ABC);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_wrong_is_thrown_away_and_what_is_cleared_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut part = Part::open(folder.path(), "a.bin").unwrap();
        part.write(b"wrong").unwrap();
        assert!(matches!(part.finish(Some(ABC)), Err(PullError::Checksum { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut part = Part::open(folder.path(), "a.bin").unwrap();
        part.write(b"wrong").unwrap();
        part.clear().unwrap();
        part.write(b"abc").unwrap();
        assert_eq!(part.finish(None).unwrap(), ABC);
    }
}
