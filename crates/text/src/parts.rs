//! The bytes that make a tokenizer, from a folder or from a peer that has one.

use serde::Deserialize;

use crate::error::{Result, TextError};

pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(crate) const TEMPLATE: &str = "chat_template.jinja";
pub(crate) const TOKENIZER_FILE_BYTES_MAX: u64 = 256 << 20;
pub(crate) const TOKENIZER_CONFIG_BYTES_MAX: u64 = 16 << 20;
pub(crate) const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// All that a tokenizer is made of, as stored: enough to rebuild it elsewhere, without files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`, where there is one.
    pub config: Option<Vec<u8>>,
    /// `chat_template.jinja`, where there is one; it wins over the template in the configuration.
    pub chat_template: Option<Vec<u8>>,
}

impl Parts {
    /// Refuses parts larger than those that would be read from files.
    pub(crate) fn check_sizes(&self) -> Result<()> {
        let size = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        check_size(TOKENIZER, self.tokenizer.len() as u64, TOKENIZER_FILE_BYTES_MAX)?;
        check_size(TOKENIZER_CONFIG, size(&self.config) as u64, TOKENIZER_CONFIG_BYTES_MAX)?;
        check_size(TEMPLATE, size(&self.chat_template) as u64, TEMPLATE_BYTES_MAX)
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        let config = self.config.as_deref().unwrap_or(b"{}");
        let mut settings: Settings =
            serde_json::from_slice(config).map_err(|fault| malformed(TOKENIZER_CONFIG, &fault))?;
        if let Some(template) = &self.chat_template {
            let template = std::str::from_utf8(template).map_err(|fault| malformed(TEMPLATE, &fault))?;
            settings.chat_template = Some(Templates::One(template.to_owned()));
        }
        Ok(settings)
    }

    pub(crate) fn tokenizer<T>(&self, parse: impl Fn(&[u8]) -> Result<T, String>) -> Result<T> {
        parse(&self.tokenizer).map_err(|fault| malformed(TOKENIZER, &fault))
    }
}

/// The fields of `tokenizer_config.json` that a chat template sees or is.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Settings {
    chat_template: Option<Templates>,
    pub(crate) bos_token: Option<SpecialToken>,
    pub(crate) eos_token: Option<SpecialToken>,
    pub(crate) unk_token: Option<SpecialToken>,
    pub(crate) pad_token: Option<SpecialToken>,
}

impl Settings {
    /// The only template, or of several the one named `default`.
    pub(crate) fn template(&self) -> Option<&str> {
        match self.chat_template.as_ref()? {
            Templates::One(template) => Some(template),
            Templates::Named(templates) => {
                let default = templates.iter().find(|named| named.name == "default")?;
                Some(&default.template)
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Debug, Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

/// A special token, as plain text or as the record that older libraries wrote.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum SpecialToken {
    Text(String),
    Record { content: String },
}

impl SpecialToken {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Record { content: text } => text,
        }
    }
}

fn malformed(name: &'static str, fault: &impl ToString) -> TextError {
    let fault = fault.to_string();
    TextError::Malformed { name, fault }
}

pub(crate) fn check_size(name: &'static str, bytes: u64, limit: u64) -> Result<()> {
    if bytes > limit {
        return Err(TextError::TooLarge { name, bytes, limit });
    }
    Ok(())
}
