//! Tells the module which commit it was built from, if git knows.

use std::process::Command;

fn main() {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    println!("cargo::rustc-env=HEADEND_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // Grows with every commit and checkout; without it, cargo looks at this package's own files.
    match git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        Some(log) if std::path::Path::new(&log).exists() => println!("cargo::rerun-if-changed={log}"),
        _ => println!("cargo::rerun-if-changed=build.rs"),
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
