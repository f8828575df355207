//! The status of a trunk, which is asked for at a socket of the file system that only its owner may use.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use headend_engine::time::Duration as Span;
use headend_host::trunk::{Carriage, CircuitStatus, ClassStatus, PeerStatus, Status};
use serde_json::{Value, json};

use super::file;
use super::reload::Reloader;
use crate::failure::Failure;
use crate::printing::{self, write_table};

/// The longest wait for a visitor that asks and does not read.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest wait for an answer: a reload may have to wait for the lock of iptables.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a request at most: a word and a path.
const REQUEST_MAX: u64 = 8_192;
/// The pause after the machine has refused a descriptor, before another is asked for; and the wait for a visitor's words.
const PAUSE: Duration = Duration::from_millis(200);

/// What keeps the network's queue short, and what it costs; the how-to has it too.
pub(super) const SHORT_QUEUE: &str = "If nobody else fills that path, say controller = \"fast\", fast_alpha = 4 and \
    controls = 1 for this peer: they wait at the edge then, where flows take turns. Beside others' downloads stay with cubic, for fast gives way.";

/// Opens the socket.
pub(super) fn listen(path: &Path) -> Result<UnixListener, Failure> {
    let failed = |error: io::Error| Failure::io(path, error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(Failure::Failed(format!(
            "{}: another trunk answers there; give this one another `status`",
            path.display()
        )));
    }
    match fs::symlink_metadata(path) {
        // One that was killed left it.
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(failed)?,
        Ok(_) => {
            let text = "is there and is no socket; `status` wants a path of its own, which the trunk makes and removes";
            return Err(Failure::Wrong(format!("{}: {text}", path.display())));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Answers whoever asks, on a thread of its own: those who say nothing hear the status.
pub(super) fn answer(listener: UnixListener, name: String, reloader: Reloader) -> Result<(), Failure> {
    let serve = move || {
        for visitor in listener.incoming() {
            let Ok(mut visitor) = visitor else {
                thread::sleep(PAUSE);
                continue;
            };
            let text = match asked(&visitor).as_str().split_once(' ') {
                Some(("reload", path)) => reloader.answer(path),
                _ => as_json(&name, &reloader.handle.status()),
            };
            let text = text.to_string();
            // Whether it hears the answer is its own affair.
            let _ = visitor.set_write_timeout(Some(PATIENCE));
            let _ = visitor.write_all(text.as_bytes());
        }
    };
    let started = thread::Builder::new().name("status".to_owned()).spawn(serve);
    started.map(drop).map_err(|error| Failure::Failed(format!("no thread for the status: {error}")))
}

/// The words of a visitor, who says all at once or nothing.
fn asked(visitor: &UnixStream) -> String {
    let mut text = String::new();
    let _ = visitor.set_read_timeout(Some(PAUSE));
    // One who says more, or no text, is answered as one who says nothing.
    let _ = visitor.take(REQUEST_MAX).read_to_string(&mut text);
    text
}

/// Asks the trunk at `socket`, or all that there are, and prints what they say.
pub(super) fn ask(socket: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let sockets = match socket {
        Some(path) => vec![path.to_owned()],
        None => found()?,
    };
    let answers: Result<Vec<Value>, Failure> = sockets.iter().map(|path| request(path, "")).collect();
    let answers = answers?;
    printing::print(|out| {
        if as_json {
            return answers.iter().try_for_each(|answer| writeln!(out, "{answer}"));
        }
        answers.iter().try_for_each(|answer| show(out, answer))
    })
}

/// Asks a trunk at its socket, in these words.
pub(super) fn request(path: &Path, words: &str) -> Result<Value, Failure> {
    let asked = || -> io::Result<String> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(LONG_PATIENCE))?;
        stream.write_all(words.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = asked().map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => " (no trunk runs there)",
            _ => "",
        };
        Failure::Failed(format!("{}: {error}{hint}", path.display()))
    })?;
    serde_json::from_str(&text).map_err(|error| Failure::io(path, error))
}

fn found() -> Result<Vec<PathBuf>, Failure> {
    let is_ours = |name: &str| name.starts_with("trunk-") && name.ends_with(".sock");
    let entries = fs::read_dir(file::STATUS_FOLDER).into_iter().flatten().flatten();
    let mut sockets: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path()).collect();
    // What a killed one left answers nobody.
    sockets.retain(|path| UnixStream::connect(path).is_ok());
    sockets.sort();
    if sockets.is_empty() {
        let why = format!(
            "no trunk runs: none answers in {}; one whose file has `status` is asked with --socket",
            file::STATUS_FOLDER
        );
        return Err(Failure::Failed(why));
    }
    Ok(sockets)
}

pub(super) fn as_json(name: &str, status: &Status) -> Value {
    json!({
        "name": name,
        "up_s": status.up.as_secs_f64(),
        "strangers": status.strangers,
        "flooded": status.flooded,
        "looped": status.looped,
        "queue_errors": status.queue_errors,
        "unrouted": status.strays.unrouted,
        "foreign": status.strays.foreign,
        "unwritten": status.strays.unwritten,
        "peers": status.peers.iter().map(peer).collect::<Vec<_>>(),
    })
}

fn peer(peer: &PeerStatus) -> Value {
    json!({
        "name": peer.name,
        "state": peer.state,
        "refuses_with": peer.refuses_with.map(Carriage::name),
        "endpoint": peer.endpoint.map(|endpoint| endpoint.to_string()),
        "mtu": peer.mtu.map(|(mtu, _)| mtu),
        "mtu_confirmed": peer.mtu.map(|(_, is_confirmed)| is_confirmed),
        "silent_s": peer.silent.map(|silent| silent.as_secs_f64()),
        "sessions": peer.sessions,
        "circuits": peer.circuits,
        "refused": peer.refused,
        "ungranted": peer.ungranted,
        "lies": peer.lies,
        "direct": peer.direct,
        "direct_bytes": peer.direct_bytes,
        "to": peer.to.as_ref().map(circuit),
        "from": peer.from.map(|(controls, guaranteed, headers)| json!({
            "controls": controls,
            "guaranteed_bps": guaranteed.get(),
            "headers": headers,
            "repair": peer.waited.map(|(within, waited)| json!({
                "within_ms": in_ms(within),
                "held": waited.held,
                "given_up": waited.given_up,
                "surplus": waited.surplus,
            })),
        })),
        "classes": peer.classes.iter().map(class).collect::<Vec<_>>(),
    })
}

fn circuit(circuit: &CircuitStatus) -> Value {
    json!({
        "carriage": circuit.carriage.name(),
        "controller": circuit.controller,
        "controls": circuit.controls,
        "vmss": circuit.vmss.get(),
        "guaranteed_bps": circuit.guaranteed.get(),
        "window": circuit.window.get(),
        "srtt_ms": circuit.srtt.map(in_ms),
        "rtt_least_ms": circuit.rtt_least.map(in_ms),
        "queueing_ms": circuit.queueing.map(in_ms),
        "fills_a_deep_queue": circuit.fills_a_deep_queue(),
        "headers": circuit.headers,
        "lost": circuit.lost,
        "losses": circuit.losses,
        "timeouts": circuit.timeouts,
        "controlled_bytes": circuit.controlled_bytes,
        "guaranteed_bytes": circuit.guaranteed_bytes,
        "suspended": circuit.is_suspended,
        "repair_refused": circuit.asks_repair && circuit.repaired.is_none(),
        "repairs_too_late": circuit.repairs_too_late(),
        "repair": circuit.repaired.map(|(within, repaired)| json!({
            "within_ms": in_ms(within),
            "copies": repaired.copies,
            "copied_bytes": repaired.bytes,
            "abandoned": repaired.abandoned,
        })),
    })
}

fn in_ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

fn class(class: &ClassStatus) -> Value {
    let counters = class.counters;
    json!({
        "name": class.name,
        "arrived": counters.arrived,
        "dropped": counters.dropped,
        "left": counters.left,
        "left_bytes": counters.left_bytes,
        "waiting": counters.waiting,
        "waiting_bytes": counters.waiting_bytes,
    })
}

/// A line for each peer and class.
fn show(out: &mut dyn Write, status: &Value) -> io::Result<()> {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    writeln!(out, "trunk {}, up for {} s", text(&status["name"]), text(&status["up_s"]))?;
    let headings = [
        "peer",
        "state",
        "endpoint",
        "mtu [B]",
        "window [B]",
        "srtt [ms]",
        "in queues [ms]",
        "losses",
        "class",
        "sent [B]",
        "waiting [B]",
        "dropped",
    ];
    let mut rows = Vec::new();
    let mut remarks = Vec::new();
    for peer in list(&status["peers"]) {
        let to = &peer["to"];
        if to["fills_a_deep_queue"] == true {
            remarks.push(format!(
                "{}: {} keeps packets for {} ms in the network's queues. {SHORT_QUEUE}",
                text(&peer["name"]),
                text(&to["controller"]),
                text(&to["queueing_ms"]),
            ));
        }
        if to["repair_refused"] == true {
            remarks.push(format!("{}: nothing is repaired, for its file has no `repair`", text(&peer["name"])));
        }
        if to["repairs_too_late"] == true {
            remarks.push(format!(
                "{}: `within` is {} ms, which is no more than the round trip: lost packets cannot be sent again in time",
                text(&peer["name"]),
                text(&to["repair"]["within_ms"]),
            ));
        }
        for class in list(&peer["classes"]) {
            let row = [
                &peer["name"],
                &peer["state"],
                &peer["endpoint"],
                &peer["mtu"],
                &to["window"],
                &to["srtt_ms"],
                &to["queueing_ms"],
                &to["losses"],
                &class["name"],
                &class["left_bytes"],
                &class["waiting_bytes"],
                &class["dropped"],
            ];
            rows.push(row.map(text).to_vec());
        }
    }
    write_table(out, &headings.map(str::to_owned), &rows)?;
    remarks.iter().try_for_each(|line| writeln!(out, "{line}"))
}
