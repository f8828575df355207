//! The kernel's FAST computes what the engine's does: the arithmetic of `bpf/`, compiled for this machine and, with the
//! feature `bpf`, run by the kernel itself, over the engine's vectors.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const VECTORS: &str = include_str!("../../engine/src/cc/fast/vectors.csv");
/// In the order of `enum fast_event`.
const EVENTS: [&str; 5] = ["start", "ack", "halve", "restart", "undo"];

/// A row: event, alpha, gamma, rounds, now, round trip, acknowledged, recovering, limited, to window, to threshold.
struct Row {
    line: usize,
    given: [u64; 11],
    cwnd: u64,
    ssthresh: u64,
}

fn rows() -> Vec<Row> {
    let row = |(number, text): (usize, &str)| {
        let cells: Vec<&str> = text.split(',').collect();
        let line = number + 1;
        let event = EVENTS.iter().position(|event| *event == cells[4]);
        let event = event.unwrap_or_else(|| panic!("line {line}: {:?} is no event", cells[4])) as u64;
        // What a row leaves out is 0, which is no round trip.
        let value = |column: usize| cells[column].parse().unwrap_or(0);
        let (cwnd, ssthresh) = (value(12), value(13));
        // A start says its window in the columns of what comes of it.
        let to = if event == 0 { (cwnd, ssthresh) } else { (value(10), value(11)) };
        let given = [event, value(1), value(2), value(3), value(5), value(6), value(7), value(8), value(9), to.0, to.1];
        Row { line, given, cwnd, ssthresh }
    };
    VECTORS.lines().enumerate().skip(1).map(row).collect()
}

/// Compiles the program beside this file; `None` without a compiler.
fn compile(folder: &Path) -> Option<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("fast_law");
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"])
        .arg("-I")
        .arg(root.join("../../bpf"))
        .arg("-o")
        .arg(&program)
        .arg(root.join("tests/fast_law.c"))
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

#[test]
fn the_c_of_the_kernel_s_fast_gives_the_engine_s_windows() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(program) = compile(folder) else { return };
    let rows = rows();
    let text: String = rows.iter().map(|row| row.given.map(|value| value.to_string()).join(" ") + "\n").collect();
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("what was compiled runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "{}", output.status);
    let printed = String::from_utf8(output.stdout).expect("numbers");
    let answers: Vec<&str> = printed.lines().collect();
    assert_eq!(answers.len(), rows.len());
    for (row, answer) in rows.iter().zip(answers) {
        assert_eq!(answer, format!("{} {}", row.cwnd, row.ssthresh), "line {} of the vectors", row.line);
    }
    assert!(rows.len() > 500, "{} rows", rows.len());
}
