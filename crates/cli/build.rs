//! Notes the commit that the binary is built from, if there is one.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HEADEND_COMMIT");
    // HEAD moves with `git switch`, its log with every commit.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = std::env::var("HEADEND_COMMIT").ok().or_else(|| git(&["rev-parse", "HEAD"]));
    let commit = commit.unwrap_or_default();
    println!("cargo:rustc-env=HEADEND_COMMIT={commit}");
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let short = commit.get(..12).map(|short| format!(" ({short})")).unwrap_or_default();
    println!("cargo:rustc-env=HEADEND_VERSION={version}{short}");
}
