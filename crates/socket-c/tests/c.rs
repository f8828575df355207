//! The header is that of the sources, and programs in C that are compiled against it do what they say.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use headend_socket::Identity;

const HEADER: &str = "include/headend_socket.h";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_made_of_the_sources() {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: true,
        documentation_style: cbindgen::DocumentationStyle::C99,
        include_guard: Some("HEADEND_SOCKET_H".to_owned()),
        line_length: 120,
        sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        no_includes: true,
        style: cbindgen::Style::Type,
        usize_is_size_t: true,
        header: Some(
            "/* Sockets whose congestion control does not take damage for congestion: docs/reference/sockets.md.\n \
             * Written by HEADEND_BLESS=1 cargo test -p headend-socket-c.\n *\n \
             * Pointers to headend_* objects are those that these functions gave, and that are not freed yet. Texts are UTF-8 and\n \
             * end with a zero byte. A timeout of -1 waits for ever, and 0 not at all. Any thread may call, but at a time only one\n \
             * may read from a stream, and one write to it: of two, one may wait for ever. No object may be freed while another\n \
             * thread uses it, and none is of use in a child after fork(). Where an object is to be, NULL gives HEADEND_WRONG; a\n \
             * function that returns an object gives NULL, and one that returns nothing does nothing. */"
                .to_owned(),
        ),
        ..cbindgen::Config::default()
    };
    for (rust, c) in [
        ("Key", "headend_key"),
        ("Endpoint", "headend_endpoint"),
        ("Connection", "headend_connection"),
        ("Stream", "headend_stream"),
        ("Snapshot", "headend_snapshot"),
    ] {
        config.export.rename.insert(rust.to_owned(), c.to_owned());
    }
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["error", "key", "endpoint", "stream"] {
        builder = builder.with_src(package().join(format!("src/{file}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().expect("the sources are C's as well").write(&mut made);
    // What a caller must keep to is said once, at the top.
    let mut header = String::new();
    let mut is_safety = false;
    for line in String::from_utf8(made).unwrap().lines() {
        if line.contains("# Safety") {
            header.truncate(header.trim_end_matches("//\n").len());
        }
        is_safety = line.starts_with("//") && (is_safety || line.contains("# Safety"));
        if !is_safety {
            header.push_str(line);
            header.push('\n');
        }
    }
    let path = package().join(HEADER);
    if std::env::var_os("HEADEND_BLESS").is_some() {
        fs::write(&path, header).unwrap();
    } else {
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(published == header, "{HEADER} is not what the sources say: run with HEADEND_BLESS=1");
    }
}

/// A program in C, compiled with the shared library beside this test.
fn compiled(source: &str, folder: &Path) -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = folder.join(Path::new(source).file_stem().unwrap());
    let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
    rpath.push(&deps);
    let done = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(package().join(source))
        .arg("-I")
        .arg(package().join("include"))
        .arg("-L")
        .arg(&deps)
        .args(["-lheadend_c"])
        .arg(rpath)
        .output()
        .expect("a C compiler, which linking Rust takes as well");
    assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
    program
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn key(folder: &Path, name: &str) -> (PathBuf, String) {
    let (path, identity) = (folder.join(name), Identity::generate());
    identity.save(&path).unwrap();
    (path, identity.public().to_string())
}

#[test]
fn a_client_in_c_gets_back_what_it_sends_to_a_server_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let echo = compiled("examples/echo.c", folder.path());
    let [(server_key, server), (client_key, client)] = ["server", "client"].map(|name| key(folder.path(), name));
    let mut serve = Command::new(&echo);
    serve.args(["serve", "127.0.0.1:0"]).arg(server_key).arg(client).stdout(Stdio::piped());
    let mut serving = Running(serve.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("port ").expect("it says where it listens");
    let question: Vec<u8> = (0..1_000_000).map(|at: u32| (at * 31 + (at >> 9)) as u8).collect();
    let answer = ask(&echo, &format!("127.0.0.1:{port}"), &client_key, &server, &question);
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    assert!(answer.stdout == question, "{} bytes came back", answer.stdout.len());
    let refused = ask(&echo, "nowhere", &client_key, &server, b"");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected HOST:PORT"), "{refused:?}");
}

fn ask(echo: &Path, address: &str, key: &Path, server: &str, question: &[u8]) -> Output {
    let mut ask = Command::new(echo);
    ask.args(["ask", address]).arg(key).arg(server);
    let mut asking = ask.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = asking.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // One that was refused does not read it.
        scope.spawn(move || drop(stdin.write_all(question)));
        asking.wait_with_output().unwrap()
    })
}

#[test]
fn a_program_in_c_without_threads_waits_by_poll() {
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new(compiled("tests/c/poll.c", folder.path())).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.stdout, b"good\n");
}
