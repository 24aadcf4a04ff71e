//! Compiles kernels: for GPUs with the feature `cuda`, for a processor that stands in for one with `emulated`.

use std::env::{self, VarError};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where kernels are.
const KERNELS: &str = "src/device/fused/kernels";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={KERNELS}");
    if cfg!(feature = "cuda") {
        for_gpus()?;
    }
    #[cfg(feature = "emulated")]
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        // Kernels read and write the same memory as numbers of several kinds.
        .flag("-fno-strict-aliasing")
        // With it GCC 12 leaves out most of what `attend` stores in the memory that it is lent.
        .flag_if_supported("-fno-tree-vrp")
        .warnings(false)
        .file(Path::new(KERNELS).join("emulated.cpp"))
        .compile("kernels");
    Ok(())
}

/// Machine code for the GPUs of `CUDA_COMPUTE_CAP`, and what drivers of later ones translate.
fn for_gpus() -> Result<(), Box<dyn Error>> {
    for name in ["NVCC", "CUDA_HOME", "CUDA_COMPUTE_CAP"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let compiler = match (env::var("NVCC"), env::var("CUDA_HOME")) {
        (Ok(compiler), _) => PathBuf::from(compiler),
        (_, Ok(home)) => Path::new(&home).join("bin/nvcc"),
        _ => PathBuf::from("nvcc"),
    };
    let capability = match env::var("CUDA_COMPUTE_CAP") {
        Err(VarError::NotPresent) => "90".to_owned(),
        told => told?,
    };
    let out = Path::new(&env::var("OUT_DIR")?).join("kernels.fatbin");
    let status = Command::new(&compiler)
        .arg("-fatbin")
        .arg(format!("-gencode=arch=compute_{capability},code=[sm_{capability},compute_{capability}]"))
        .args(["-O3", "-std=c++17"])
        .arg("-o")
        .arg(&out)
        .arg(Path::new(KERNELS).join("kernels.cu"))
        .status()
        .map_err(|fault| format!("{} could not be run: {fault}", compiler.display()))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", compiler.display()).into()) }
}
