//! What tells one model from another.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::checkpoint::CONFIG;
use crate::error::{ModelError, Result};
use crate::source::Source;
use crate::weights::weight_files;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// SHA-256, in hexadecimal, over `config.json` and the weight files of a model's folder, in order of their names, or over
/// its GGUF file: what tells this model from every other. All weights are read for it.
///
/// # Errors
/// Files that are missing or unreadable, or an index of shards that is malformed.
pub fn fingerprint(path: &Path) -> Result<String> {
    let files = match Source::of(path)? {
        Source::Folder(folder) => [vec![folder.join(CONFIG)], weight_files(&folder)?].concat(),
        Source::Gguf(file) => vec![file],
    };
    let mut hasher = Sha256::new();
    for path in files {
        update(&mut hasher, &path).map_err(|fault| ModelError::io(&path, fault))?;
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Length first, so that no two lists of files run together alike.
fn update(hasher: &mut Sha256, path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    hasher.update(file.metadata()?.len().to_le_bytes());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(()),
            read => hasher.update(&chunk[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_fingerprint_is_of_configuration_and_weights() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/qwen3");
        let folder = tempfile::tempdir().unwrap();
        for name in ["config.json", "model.safetensors"] {
            std::fs::copy(from.join(name), folder.path().join(name)).unwrap();
        }
        let whole = fingerprint(folder.path()).unwrap();
        assert_eq!((whole.len(), &whole), (64, &fingerprint(&from).unwrap()));
        for name in ["config.json", "model.safetensors"] {
            let path = folder.path().join(name);
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, [&bytes[..], b" "].concat()).unwrap();
            assert_ne!(fingerprint(folder.path()).unwrap(), whole, "{name}");
            std::fs::write(&path, bytes).unwrap();
        }
        std::fs::remove_file(folder.path().join("config.json")).unwrap();
        assert!(matches!(fingerprint(folder.path()), Err(ModelError::Io { .. })));
    }
}
