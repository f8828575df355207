//! A control's arithmetic in C, of `bpf/`, compiled for this machine and asked what it makes of given numbers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiles `tests/LAW.c`, for a test of this name; `None` without a compiler.
pub(crate) fn compile(law: &str, of: &str, flags: &[&str]) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{law}_{of}"));
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg("-I")
        .arg(root.join("../../bpf"))
        .arg("-o")
        .arg(&program)
        .arg(root.join(format!("tests/{law}.c")))
        .status();
    match status {
        Ok(status) => {
            assert!(status.success(), "cc: {status}");
            Some(program)
        }
        Err(error) => {
            eprintln!("skipped: cc: {error}");
            None
        }
    }
}

/// The lines of numbers that the compiled program answers these lines of numbers with, one for each.
pub(crate) fn answers<const GIVEN: usize, const TOLD: usize>(
    program: &Path,
    given: &[[u64; GIVEN]],
) -> Vec<[u64; TOLD]> {
    let text: String = given.iter().map(|row| row.map(|value| value.to_string()).join(" ") + "\n").collect();
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("what was compiled runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "{}", output.status);
    let printed = String::from_utf8(output.stdout).expect("numbers");
    let line = |line: &str| -> [u64; TOLD] {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        numbers.try_into().expect("as many numbers as are told")
    };
    let answers: Vec<_> = printed.lines().map(line).collect();
    assert_eq!(answers.len(), given.len());
    answers
}
