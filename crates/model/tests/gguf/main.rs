//! Checkpoints as GGUF files: what is written is what is read, and what cannot be run is refused with a sentence.
#![allow(clippy::unwrap_used)]

mod bits;
mod hostile;
mod packed;
mod refusals;
mod rounding;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use espalier_gguf::{Gguf, GgufWriter, Metadata, NewTensor, TensorType, Value};
use espalier_model::{
    Arithmetic, Asked, Checkpoint, Decoder, GgufExport, LoadOptions, Logits, Row, Segment, Workspace,
};
use tempfile::TempDir;

const GOLDEN: [&str; 3] = ["gpt-neox", "llama3-rope-scaling", "qwen3"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/small")
}

/// A folder with `model.gguf`, which was made of the checkpoint at `from`.
fn converted(from: &Path, kind: Option<TensorType>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("model.gguf")).unwrap();
    let export = GgufExport { kind, ..GgufExport::default() };
    export.write(&Checkpoint::open(from).unwrap(), file, |_, _| {}).unwrap();
    folder
}

/// The logits of a short text, in f32.
fn logits(path: &Path) -> Vec<f32> {
    logits_in(Arithmetic::F32, path)
}

/// The logits of a short text.
fn logits_in(arithmetic: Arithmetic, path: &Path) -> Vec<f32> {
    let options = LoadOptions { arithmetic, ..LoadOptions::default() };
    let decoder = Decoder::load(&Checkpoint::open(path).unwrap(), &options).unwrap();
    let (mut work, mut cache) = (Workspace::new(1), decoder.new_cache());
    let rows = Row::chain(&[1, 300, 511, 7, 7, 12], 0);
    let mut segments = [Segment { cache: &mut cache, rows: &rows, logits: Logits::All }];
    let output = decoder.forward(&mut work, &mut segments, Asked::default()).unwrap();
    (0..rows.len()).flat_map(|row| output.logits(0, row).to_vec()).collect()
}

/// A GGUF file in memory that can be changed and written again.
struct Editable {
    metadata: Metadata,
    tensors: Vec<(NewTensor, Vec<u8>)>,
}

impl Editable {
    fn of(folder: &TempDir) -> Self {
        let bytes = fs::read(folder.path().join("model.gguf")).unwrap();
        let gguf = Gguf::parse(&bytes).unwrap();
        let tensor = |(name, info): (&str, &espalier_gguf::TensorInfo)| {
            let new = NewTensor { name: name.to_owned(), shape: info.shape().to_vec(), kind: info.kind() };
            (new, bytes[info.range()].to_vec())
        };
        Self { metadata: gguf.metadata().clone(), tensors: gguf.tensors().map(tensor).collect() }
    }

    fn set(mut self, key: &str, value: Value) -> Self {
        self.metadata.extend([(key.to_owned(), value)]);
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.metadata = self.metadata.into_iter().filter(|(name, _)| name != key).collect();
        self
    }

    fn with_tensor(mut self, name: &str, elements: usize) -> Self {
        let new = NewTensor { name: name.to_owned(), shape: vec![elements], kind: TensorType::F32 };
        self.tensors.push((new, vec![0; elements * 4]));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let announced: Vec<NewTensor> = self.tensors.iter().map(|(new, _)| new.clone()).collect();
        let mut writer = GgufWriter::begin(Vec::new(), &self.metadata, &announced).unwrap();
        self.tensors.iter().for_each(|(_, bytes)| writer.tensor(bytes).unwrap());
        writer.finish().unwrap()
    }

    fn write(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.gguf"), self.bytes()).unwrap();
        folder
    }
}
