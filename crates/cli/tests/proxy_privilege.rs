//! The rights that a proxy started as root keeps, and whom it trusts. These tests need root and `setpriv`, and say so
//! where they are skipped.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

use std::fs::{self, Permissions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use proxied::{Proxy, Tongue, connected, rest_of};
use tempfile::TempDir;

/// The user and the group that everybody knows as nobody.
const NOBODY: u32 = 65_534;
/// CAP_NET_BIND_SERVICE (capabilities(7)), as /proc writes it.
const BIND_ALONE: &str = "0000000000000400";

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !is_root || !has_setpriv {
        eprintln!("skipped: giving up privileges takes having them, and setpriv (util-linux)");
    }
    is_root && has_setpriv
}

/// The value of `key` in what /proc says of a process.
fn told(pid: u32, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {text}")).trim().to_owned()
}

/// A port below 1024 that nobody listens on, and no other test here is given.
fn low_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 600 + (std::process::id() % 200) as u16;
    std::iter::repeat_with(|| first + GIVEN.fetch_add(1, Ordering::Relaxed))
        .take_while(|port| *port < 1_024)
        .find(is_free)
        .expect("a port is free")
}

#[test]
fn a_proxy_that_became_nobody_keeps_only_the_rights_its_file_needs() {
    if !is_root() {
        return;
    }
    let as_member = ["setpriv", "--groups=1,2", "--"];
    let plain = Proxy::start_by(&as_member, "", "");
    let low = low_port();
    let with_low_port =
        Proxy::start_from(&as_member, "", "", |text| text.replacen("127.0.0.1:0", &format!("127.0.0.1:{low}"), 1));
    for (proxy, rights) in [(&plain, "0000000000000000"), (&with_low_port, BIND_ALONE)] {
        let pid = proxy.process_id();
        assert_eq!(told(pid, "Uid").split_whitespace().next(), Some(&*NOBODY.to_string()));
        assert_eq!(told(pid, "Groups"), "", "supplementary groups are left behind");
        for set in ["CapPrm", "CapEff"] {
            assert_eq!(told(pid, set), rights, "{set}");
        }
        assert_eq!((told(pid, "CapInh"), told(pid, "NoNewPrivs")), ("0000000000000000".to_owned(), "1".to_owned()));
        // Each of its threads, too: on Linux they are what they are each for itself.
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let path = task.unwrap().path().join("status");
            let text = fs::read_to_string(path).unwrap();
            assert!(text.lines().any(|line| line == format!("CapEff:\t{rights}")), "{text}");
            assert!(text.lines().any(|line| line.trim_end() == "Groups:"), "{text}");
        }
    }
}

#[test]
fn a_reload_opens_a_low_port_if_the_start_did_and_else_says_what_to_do() {
    if !is_root() {
        return;
    }
    let (first, second) = (low_port(), low_port());
    let at = |from: &str, port: u16| {
        let (from, to) = (format!("{from}\"\nway = \"http\""), format!("127.0.0.1:{port}\"\nway = \"http\""));
        move |text: String| text.replace(&from, &to)
    };
    let mut proxy = Proxy::start("");
    proxy.edit(at("127.0.0.1:0", first));
    proxy.signal("HUP");
    proxy.says("a port as low as this takes root or CAP_NET_BIND_SERVICE");
    proxy.says("Nothing has changed");
    proxy.says("start another proxy with --take-over");
    drop(connected(proxy.address(Tongue::Connect)));

    let mut proxy = Proxy::start_from(&[], "", "", at("127.0.0.1:0", first));
    proxy.edit(at(&format!("127.0.0.1:{first}"), second));
    proxy.signal("HUP");
    proxy.says(&format!("listening on 127.0.0.1:{second}"));
    let mut client = connected(([127, 0, 0, 1], second).into());
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(rest_of(&mut client).starts_with(b"HTTP/1.1 400 "));
}

#[test]
fn a_file_that_only_root_may_read_is_refused_at_a_reload_with_what_to_do() {
    if !is_root() {
        return;
    }
    let place = TempDir::new().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let users = place.path().join("users");
    fs::write(&users, "ann:secret\n").unwrap();
    fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    let mut proxy = Proxy::start_edited(|text| {
        text.replace("way = \"http\"\n", &format!("way = \"http\"\nusers = \"{}\"\n", users.display()))
    });
    proxy.says("A SIGHUP cannot read the file again. This proxy was started by user 0 and has become user 65534");
    proxy.signal("HUP");
    proxy.says("listen 1: users:");
    proxy.says("Nothing has changed");
    proxy.says("Let that user read the file and those that it names");
    chown(&users, Some(NOBODY), None).unwrap();
    proxy.signal("HUP");
    proxy.says("read again");
}

#[test]
fn a_spool_folder_for_root_alone_is_refused_with_the_user_named() {
    if !is_root() {
        return;
    }
    let place = TempDir::new().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let file = place.path().join("proxy.toml");
    let text = "relay = \"store\"\n[[listen]]\naddress = \"127.0.0.1:0\"\nway = \"http\"\n\
                [spool]\nfolder = \".\"\nquota = \"1MB\"\n";
    fs::write(&file, text).unwrap();
    // One that could use it would serve until it is ended.
    let mut command = Command::new("timeout");
    let output = command.args(["20", env!("CARGO_BIN_EXE_headend"), "proxy", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("this process is user 65534 by now, who must be able to write there"), "{said}");
    assert!(!said.contains("are you root"), "{said}");
}

#[test]
fn the_published_unit_leaves_root_enough_rights_to_start_and_reload() {
    if !is_root() {
        return;
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/headend-proxy.service");
    let unit = fs::read_to_string(unit).unwrap();
    let bounds = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=CAP_")).unwrap();
    let bounds = format!("--bounding-set=-all,+{}", bounds.replace(" CAP_", ",+").to_lowercase());
    let place = TempDir::new().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    // That user's alone: root may read it by a right of its own.
    let users = place.path().join("users");
    fs::write(&users, "ann:secret\n").unwrap();
    fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    chown(&users, Some(NOBODY), None).unwrap();
    let low = low_port();
    let mut proxy =
        Proxy::start_from(&["setpriv", &bounds, "--inh-caps=-all", "--"], "", "", |text| {
            text.replace("way = \"socks5\"\n", &format!("way = \"socks5\"\nusers = \"{}\"\n", users.display()))
                .replacen("127.0.0.1:0", &format!("127.0.0.1:{low}"), 1)
        });
    assert_eq!(told(proxy.process_id(), "CapEff"), BIND_ALONE);
    proxy.signal("HUP");
    proxy.says("read again");
}

#[test]
fn nothing_is_taken_over_from_a_stranger() {
    if !is_root() {
        return;
    }
    // Nobody's proxy, at a path that root is made to believe in.
    let place = TempDir::new().unwrap();
    let inner = place.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    chown(&inner, Some(NOBODY), Some(NOBODY)).unwrap();
    let file = inner.join("proxy.toml");
    let text = "handover = \"proxy.sock\"\n[[listen]]\naddress = \"127.0.0.1:0\"\nway = \"http\"\n";
    fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    command.args(["proxy", "--config"]).arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
    let mut stranger = command.uid(NOBODY).gid(NOBODY).spawn().unwrap();
    let door = inner.join("proxy.sock");
    let began = std::time::Instant::now();
    while !door.exists() {
        assert!(began.elapsed() < proxied::PATIENCE, "it waits there soon");
        std::thread::yield_now();
    }
    // One that believed in it would serve until it is ended.
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_headend"), "proxy"]);
    let output = command.arg("--take-over").arg(&door).arg("--config").arg(&file).output().unwrap();
    let is_alive = stranger.try_wait().unwrap().is_none();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("user 65534 waits there, who is neither root nor who started this process"), "{said}");
    assert!(is_alive, "the stranger has heard nothing of it");
}
