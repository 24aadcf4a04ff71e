//! One file for each family of bytes.

pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod deadline;
pub(crate) mod drafter;
pub(crate) mod generation;
pub(crate) mod gguf;
pub(crate) mod gguf_model;
pub(crate) mod gguf_tokenizer;
pub(crate) mod golden;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod model;
pub(crate) mod pem;
pub(crate) mod pieces;
pub(crate) mod policy;
pub(crate) mod profiles;
pub(crate) mod speculate;
pub(crate) mod status;
pub(crate) mod template;
pub(crate) mod tokenizer;
pub(crate) mod verify;
pub(crate) mod wire;
