//! Where a tokenizer's parts come from: a folder, or a GGUF file and what lies beside it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use espalier_gguf::GgufFile;

use crate::error::{Result, TextError};
use crate::gguf_fault::GgufTokenizerFault;
use crate::gguf_parts;
use crate::parts::{
    Parts, TEMPLATE, TEMPLATE_BYTES_MAX, TOKENIZER, TOKENIZER_CONFIG, TOKENIZER_CONFIG_BYTES_MAX,
    TOKENIZER_FILE_BYTES_MAX, check_size,
};

impl Parts {
    /// Reads a folder in Hugging Face format, or a GGUF file. A `tokenizer.json` beside the file goes before what the file
    /// says.
    ///
    /// # Errors
    /// No `tokenizer.json`, a file that is unreadable or too large, or a GGUF file whose tokenizer cannot be made.
    pub fn read(path: &Path) -> Result<Self> {
        match espalier_gguf::find(path)? {
            None => {
                let missing = || TextError::MissingFile { folder: path.to_owned(), name: TOKENIZER };
                of_folder(path)?.ok_or_else(missing)
            }
            Some(file) => of_file(&file),
        }
    }
}

/// The parts in a folder, if it has a `tokenizer.json`.
fn of_folder(folder: &Path) -> Result<Option<Parts>> {
    let Some(tokenizer) = read(folder, TOKENIZER, TOKENIZER_FILE_BYTES_MAX)? else { return Ok(None) };
    Ok(Some(Parts {
        tokenizer,
        config: read(folder, TOKENIZER_CONFIG, TOKENIZER_CONFIG_BYTES_MAX)?,
        chat_template: read(folder, TEMPLATE, TEMPLATE_BYTES_MAX)?,
    }))
}

/// The parts of a GGUF file. Special tokens and template are its own where none are beside it.
fn of_file(path: &Path) -> Result<Parts> {
    let file = GgufFile::open(path)?;
    let fault = |fault: GgufTokenizerFault| TextError::GgufTokenizer { path: path.to_owned(), fault: Box::new(fault) };
    let beside = of_folder(path.parent().unwrap_or(Path::new("")))?;
    let Some(mut parts) = beside else { return gguf_parts::parts(file.metadata()).map_err(fault) };
    if parts.config.is_none() && parts.chat_template.is_none() {
        let settings = gguf_parts::settings(file.metadata()).map_err(fault)?;
        parts.config = settings.map(|settings| settings.to_string().into_bytes());
    }
    Ok(parts)
}

fn read(folder: &Path, name: &'static str, limit: u64) -> Result<Option<Vec<u8>>> {
    let path = folder.join(name);
    let io = |fault| TextError::Io { path: path.clone(), fault };
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(io(fault)),
    };
    check_size(name, file.metadata().map_err(io)?.len(), limit)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    Ok(Some(bytes))
}
