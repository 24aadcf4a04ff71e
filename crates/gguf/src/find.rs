//! Which file a path stands for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::on_disk::{FileError, Result};

/// How the names of GGUF files end.
const ENDING: &str = ".gguf";
/// The files that make a folder a checkpoint of another format.
const OTHERS: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];

/// The GGUF file that `path` stands for: a file whose name ends in `.gguf`, or the only one of a folder that has no
/// `model.safetensors`. Any other path stands for none.
///
/// # Errors
/// A folder that cannot be listed, or that has several GGUF files.
pub fn find(path: &Path) -> Result<Option<PathBuf>> {
    if is_gguf(path) {
        return Ok(Some(path.to_owned()));
    }
    if path.is_dir() { only(path) } else { Ok(None) }
}

fn is_gguf(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| without(name, ENDING).is_some()) && path.is_file()
}

/// The name of the model at `path`, if it has one: that of its folder, or that of its file without `.gguf`.
pub fn model_name(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    Some(without(name, ENDING).unwrap_or(name))
}

/// The only GGUF file of a folder.
fn only(folder: &Path) -> Result<Option<PathBuf>> {
    let io = |fault| FileError::Io { path: folder.to_owned(), fault };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if OTHERS.contains(&name) {
            return Ok(None);
        }
        if is_gguf(&path) {
            found.push(path);
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        count => Err(FileError::Several { folder: folder.to_owned(), count }),
    }
}

/// What is before an ending, in whatever case it is written.
fn without<'a>(name: &'a str, ending: &str) -> Option<&'a str> {
    let (stem, end) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
    end.eq_ignore_ascii_case(ending).then_some(stem)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(folder.path().join(name), []).unwrap();
        }
        folder
    }

    #[test]
    fn a_file_stands_for_itself_and_a_folder_for_its_only_one() {
        let one = folder(&["a.GGUF", "tokenizer.json", "é"]);
        let file = one.path().join("a.GGUF");
        assert_eq!(find(one.path()).unwrap(), Some(file.clone()));
        assert_eq!(find(&file).unwrap(), Some(file));
        assert_eq!(find(&one.path().join("tokenizer.json")).unwrap(), None);
        for names in [&["config.json"][..], &["a.gguf", "model.safetensors"], &["a.gguf", OTHERS[1]]] {
            assert_eq!(find(folder(names).path()).unwrap(), None, "{names:?}");
        }
        assert_eq!(find(&one.path().join("nothing")).unwrap(), None);
    }

    #[test]
    fn of_several_none_is_chosen() {
        let two = folder(&["a.gguf", "b.gguf"]);
        let fault = find(two.path()).unwrap_err().to_string();
        assert_eq!(fault, format!("{} has 2 GGUF files: one of them must be named", two.path().display()));
    }

    #[test]
    fn models_are_called_by_folder_or_file() {
        let name = |path| model_name(Path::new(path));
        assert_eq!(["m/small", "m/a.b.gguf", "é", "x.GGUF"].map(name), ["small", "a.b", "é", "x"].map(Some));
        assert_eq!(name(".."), None);
    }
}
