//! A judge of captures from outside, for tests.

use std::process::Command;

/// Runs tshark on `capture` and returns what it prints; `None` if it is not installed.
pub(crate) fn tshark(capture: &[u8], name: &str, arguments: &[&str]) -> Option<String> {
    let path = std::env::temp_dir().join(format!("headend-{}-{name}.pcapng", std::process::id()));
    std::fs::write(&path, capture).unwrap();
    let output = Command::new("tshark")
        .args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-r"])
        .arg(&path)
        .args(arguments)
        .output();
    std::fs::remove_file(&path).unwrap();
    let Ok(output) = output else {
        println!("tshark is not installed: nothing checked");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}
