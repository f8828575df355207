//! `headend emulate ctl`: another link while the emulator runs. It listens at a socket in a folder that only its user can open; a
//! request is a line of JSON, a list of paths and values, and so is the answer.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration as StdDuration;

use clap::Args;
use headend_host::reactor::Order;
use headend_scenario::{Document, LinkKind, Scenario};
use headend_sim::network::Network;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::printing;

/// Somebody who asks and says nothing is listened to for so long.
const PATIENCE: StdDuration = StdDuration::from_secs(5);
/// The longest request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Change the links of an emulator that runs
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend emulate ctl links.path.rate=5Mbit/s links.path.delay=80ms\n  \
    headend emulate ctl --pid 4711 links.path.back.loss=2%\n\n\
    What is in a queue stays there, and what is on its way arrives when it would have.\n\
    Exit codes: 0; 2 for a wrong request; 1 for a failure.")]
pub(crate) struct Ctl {
    /// The emulator's process, if several run
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Rates, delays and losses of plain links, as for --set
    #[arg(value_name = "PATH=VALUE", required = true, value_parser = crate::request::assignment)]
    settings: Vec<(String, String)>,
}

pub(crate) fn run(arguments: &Ctl) -> Result<(), Failure> {
    let path = match arguments.pid {
        Some(pid) => folder().join(format!("{pid}.sock")),
        None => only_one()?,
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Failure::Wrong(format!("no emulator of this user listens at {}", path.display()))
        }
        _ => Failure::io(&path, error),
    };
    let mut stream = UnixStream::connect(&path).map_err(failed)?;
    let request = json!(arguments.settings);
    writeln!(stream, "{request}").map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    let answer: Value = serde_json::from_str(&answer).map_err(|error| failed(error.into()))?;
    match answer["wrong"].as_str() {
        Some(why) => Err(Failure::Wrong(why.to_owned())),
        None => printing::print(|out| writeln!(out, "changed: {}", answer["changed"].as_str().unwrap_or_default())),
    }
}

/// The socket of the only emulator that runs.
fn only_one() -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(folder()).into_iter().flatten().flatten().map(|entry| entry.path());
    // What a killed emulator has left answers no more.
    let mut live: Vec<PathBuf> = entries.filter(|path| UnixStream::connect(path).is_ok()).collect();
    live.sort();
    match live.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::Wrong("no emulator of this user runs".to_owned())),
        several => {
            let pids: Vec<_> = several.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
            Err(Failure::Wrong(format!("several emulators run; say which: --pid {}", pids.join(" or --pid "))))
        }
    }
}

/// The folder of the sockets: the user's own.
fn folder() -> PathBuf {
    let user = user();
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| user != 0).map(PathBuf::from);
    match base {
        Some(base) => base.join("headend-emulate"),
        None if user == 0 && Path::new("/run").is_dir() => PathBuf::from("/run/headend-emulate"),
        None => std::env::temp_dir().join(format!("headend-emulate-{user}")),
    }
}

/// The user who started this process; also from within a namespace in which he is root (user_namespaces(7), `uid_map`).
fn user() -> u32 {
    let own = rustix::process::geteuid().as_raw();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let outside = map.lines().find_map(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [inside, outside, count] = numbers[..] else { return None };
        own.checked_sub(inside).filter(|&beyond| beyond < count).map(|beyond| outside + beyond)
    });
    outside.unwrap_or(own)
}

/// A socket that listens until this is dropped.
pub(super) struct Listening(PathBuf);

impl Drop for Listening {
    fn drop(&mut self) {
        // Gone already is gone.
        let _ = fs::remove_file(&self.0);
    }
}

/// The scenario as it is at the moment, and the way to the reactor that runs it.
pub(super) struct Controlled {
    pub(super) document: Document,
    pub(super) scenario: Scenario,
    pub(super) orders: Sender<Order<Network>>,
}

/// Listens for changes on a thread of its own.
pub(super) fn listen(controlled: Controlled) -> io::Result<Listening> {
    let folder = folder();
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let its = fs::symlink_metadata(&folder)?;
    if !its.is_dir() || its.uid() != rustix::process::geteuid().as_raw() || its.mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} is not ours alone", folder.display())));
    }
    let path = folder.join(format!("{}.sock", std::process::id()));
    // Of an earlier process with this number.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let mut controlled = controlled;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever leaves in the middle is answered no more.
            let _ = controlled.answer(stream);
        }
    });
    Ok(Listening(path))
}

impl Controlled {
    fn answer(&mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = String::new();
        io::Read::take(BufReader::new(&stream), REQUEST_BYTES_MAX).read_line(&mut request)?;
        let answer = match serde_json::from_str::<Vec<(String, String)>>(&request) {
            Ok(settings) if request.is_empty() || settings.is_empty() => json!({ "wrong": "nothing to change" }),
            Ok(settings) => match self.change(&settings) {
                Ok(changed) => json!({ "changed": changed.join(", ") }),
                Err(why) => json!({ "wrong": why }),
            },
            Err(error) => json!({ "wrong": format!("expected a list of paths and values: {error}") }),
        };
        writeln!(&stream, "{answer}")
    }

    /// Reads the scenario with these settings and has the links changed that differ; their names.
    fn change(&mut self, settings: &[(String, String)]) -> Result<Vec<String>, String> {
        let mut document = self.document.clone();
        for (path, value) in settings {
            document.set(path, value).map_err(|error| error.to_string())?;
        }
        let points = document.points().map_err(|error| error.to_string())?;
        let [point] = points.as_slice() else { return Err("a sweep cannot run".to_owned()) };
        let changed = changes(&self.scenario, &point.scenario)?;
        let names = changed.iter().map(|&link| self.scenario.links[link].name.clone()).collect();
        for &link in &changed {
            let LinkKind::Plain(plain) = point.scenario.links[link].kind.clone() else { continue };
            let (seed, draws) = (point.scenario.seed, "changed".to_owned());
            let order: Order<Network> = Box::new(move |network, now| {
                network.change_link(now, link, &plain, seed, &format!("{draws}/{}", now.as_nanos()));
            });
            self.orders.send(order).map_err(|_| "the emulator is ending".to_owned())?;
        }
        (self.document, self.scenario) = (document, point.scenario.clone());
        Ok(names)
    }
}

/// The links that differ between two scenarios, in nothing but what can be changed while they run.
fn changes(before: &Scenario, after: &Scenario) -> Result<Vec<usize>, String> {
    let mut rest = after.clone();
    let mut changed = Vec::new();
    for (number, (old, new)) in before.links.iter().zip(&mut rest.links).enumerate() {
        let (LinkKind::Plain(old), LinkKind::Plain(new)) = (&old.kind, &mut new.kind) else { continue };
        if old == new {
            continue;
        }
        changed.push(number);
        for (old, new) in [(&old.there, &mut new.there), (&old.back, &mut new.back)] {
            (new.rate, new.processing, new.delay, new.loss) =
                (old.rate.clone(), old.processing, old.delay.clone(), old.loss.clone());
        }
    }
    if rest != *before {
        let what = "only `rate`, `processing`, `delay` and `loss` of plain links can change while they run, and what is \
                    under their `back`";
        return Err(what.to_owned());
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LINKS: &str = "[nodes.a]\n[nodes.b]\n[links.path]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n";

    #[test]
    fn only_what_can_change_while_it_runs_is_changed() {
        let document = Document::parse("net.toml", LINKS).expect("TOML").of_links_alone();
        let scenario = document.points().expect("links").swap_remove(0).scenario;
        let (orders, ordered) = mpsc::channel();
        let mut controlled = Controlled { document, scenario, orders };
        let mut set = |path: &str, value: &str| controlled.change(&[(path.to_owned(), value.to_owned())]);
        assert_eq!(set("links.path.rate", "2Mbit/s"), Ok(vec!["path".to_owned()]));
        assert_eq!(set("links.path.back.loss", "1%"), Ok(vec!["path".to_owned()]));
        assert_eq!(ordered.try_iter().count(), 2);
        assert_eq!(set("links.path.rate", "2Mbit/s"), Ok(vec![]), "it is so already");
        assert!(set("links.path.rate", "fast").is_err_and(|text| text.contains("links.path.rate")));
        assert!(set("links.path.queue", "5 packets").is_err_and(|text| text.starts_with("only `rate`")));
        assert!(set("links.other.rate", "5Mbit/s").is_err());
        assert_eq!(ordered.try_iter().count(), 0);
    }
}
