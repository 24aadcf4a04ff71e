//! What GGUF calls architectures.

use super::fault::GgufFault;
use crate::config::Family;
use crate::names::Names;

/// An architecture, which its keys in the metadata begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// Llama, and Mistral too.
    Llama,
    Qwen2,
    Qwen3,
    GptNeox,
}

impl Architecture {
    const KNOWN: &'static str = "llama, qwen2, qwen3 and gptneox";

    /// The architecture of this name.
    pub(super) fn parse(name: &str) -> Result<Self, GgufFault> {
        match name {
            "llama" => Ok(Self::Llama),
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            "gptneox" => Ok(Self::GptNeox),
            _ => Err(GgufFault::Architecture { found: name.to_owned(), known: Self::KNOWN }),
        }
    }

    /// The architecture as which a family is written.
    pub(super) fn of(family: Family) -> Self {
        match family {
            Family::Llama | Family::Mistral => Self::Llama,
            Family::Qwen2 => Self::Qwen2,
            Family::Qwen3 => Self::Qwen3,
            Family::GptNeox => Self::GptNeox,
        }
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::GptNeox => "gptneox",
        }
    }

    /// What it calls tensors.
    pub(super) fn names(self) -> &'static Names {
        match self {
            Self::Llama | Self::Qwen2 | Self::Qwen3 => &Names::GGUF,
            Self::GptNeox => &Names::GGUF_NEOX,
        }
    }
}
