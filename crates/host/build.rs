//! Compiles the programs of `bpf/` for the kernel, with the feature `bpf` only.

use std::env;
use std::path::Path;
use std::process::Command;

/// The programs `bpf/NAME.bpf.c`.
const PROGRAMS: [&str; 4] = ["backfill", "fast", "fast_connections", "fast_vectors"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let variable = |name| env::var(name).expect("cargo sets it");
    let sources = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo::rerun-if-changed={}", sources.display());
    let endian = if variable("CARGO_CFG_TARGET_ENDIAN") == "little" { "bpfel" } else { "bpfeb" };
    for program in PROGRAMS {
        let object = Path::new(&variable("OUT_DIR")).join(format!("{program}.bpf.o"));
        let status = Command::new("clang")
            // v3: 32-bit arithmetic and comparisons (Linux 5.1). -g: the names of fields, which the loader needs.
            .args(["-target", endian, "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-c"])
            .arg(format!("-ffile-prefix-map={}=bpf", sources.display()))
            .arg(sources.join(format!("{program}.bpf.c")))
            .arg("-o")
            .arg(object)
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("clang could not compile bpf/{program}.bpf.c: {status}"),
            Err(error) => panic!(
                "clang: {error}. The feature `bpf` takes clang, libelf-dev and zlib1g-dev (as root: \
                 scripts/system-packages build); without that feature there is no FAST for the kernel"
            ),
        }
    }
}
