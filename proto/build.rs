//! Compiles the protocol files without an installed `protoc`.

use std::error::Error;
use std::path::PathBuf;

const FILES: [&str; 5] = [
    "espalier/v1/common.proto",
    "espalier/v1/drafter.proto",
    "espalier/v1/generation.proto",
    "espalier/v1/status.proto",
    "espalier/v1/verifier.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=espalier");
    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;

    // Reflection serves this one.
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("espalier_descriptor.bin"), compiler.encode_file_descriptor_set())?;

    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
