//! Notes which sources the simulator is built from: what two builds with the same sources compute is the same.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let mut files = Vec::new();
    for folder in ["../engine/src", "../scenario/src", "src"] {
        println!("cargo::rerun-if-changed={folder}");
        collect(Path::new(folder), &mut files);
    }
    let lock = Path::new("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    files.push(lock.to_owned());
    files.sort();
    // 64-bit FNV-1a: it tells mistakes apart, not forgeries.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in &files {
        // A package without its lock file is built from whatever there is.
        let content = fs::read(path).unwrap_or_default();
        for &byte in path.to_string_lossy().as_bytes().iter().chain(&[0]).chain(&content) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=HEADEND_SOURCES={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
