//! Flows of the scenario's own programs: a client's and perhaps a server's, each in the namespace of its host, with all that they say
//! kept in files.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use headend_engine::time::{Duration, Time};
use headend_host::process;
use headend_scenario::results::FlowRow;
use headend_scenario::{Flow, Programs};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::between::Between;
use super::program::{self, ProgramFolder};
use super::stage::Stage;

/// The time between two looks at whether a program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// What a program may say on either output; one that says more is ended.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// A program that is told to end has so long until it is killed.
const ENDING_MAX: Duration = Duration::from_secs(1);
/// The bytes at the end of an output that are told with the results; files have all.
const TOLD_MAX: u64 = 64 * 1024;

/// One instance of a flow of programs.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) flow: Flow,
    programs: Programs,
    pub(super) instance: u32,
    /// The port that its words may name; nobody else's in this run.
    pub(super) port: u16,
    /// The time of its start, counted from the beginning of the run.
    pub(super) start: Duration,
    /// The client has ended, or has failed.
    is_over: AtomicBool,
    ends: Mutex<[Option<Ended>; 2]>,
}

/// The two ends, as indices.
pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;
const NAMES: [&str; 2] = ["client", "server"];

/// A program that has ended.
#[derive(Clone, Debug)]
struct Ended {
    begun: Time,
    ended: Time,
    status: ExitStatus,
    /// True if it was told to end.
    is_told: bool,
    /// The last line that it has written as an error.
    last_line: String,
}

/// What the programs of one instance did, and where the files are that they wrote.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    json: Value,
    /// The name of each file without the run's, and where it is.
    files: Vec<(String, PathBuf)>,
    /// Files stay as long as this does.
    _folder: Arc<ProgramFolder>,
}

impl Told {
    /// As JSON, with the last 64 KiB of what each program wrote.
    pub(crate) fn json(&self) -> &Value {
        &self.json
    }

    /// A line for people: how the client ended, and when.
    pub(crate) fn line(&self) -> String {
        let (told, client) = (&self.json, &self.json["client"]);
        let name = format!("flows.{}, instance {}", told["flow"].as_str().unwrap_or_default(), told["instance"]);
        let word = client["words"][0].as_str().unwrap_or_default();
        let Some(seconds) = client["seconds"].as_f64() else { return format!("{name}: {word} was not started") };
        let how = match (&client["ended_with_the_run"], &client["exit_status"], &client["signal"]) {
            (Value::Bool(true), ..) => "went on until the run ended".to_owned(),
            (_, Value::Null, signal) => format!("was ended by signal {signal}"),
            (_, status, _) => format!("ended with exit status {status}"),
        };
        format!(
            "{name}: {word} {how}, after {seconds:.3} s; {} bytes came from its host `from` to `to`, and {} back",
            told["bytes_from_to"], told["bytes_to_from"]
        )
    }

    /// Copies what was written, whole, to files of this folder whose names begin with `run`.
    pub(crate) fn keep(&self, folder: &Path, run: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for (name, file) in &self.files {
            fs::copy(file, folder.join(format!("{run}-{name}")))?;
        }
        Ok(())
    }
}

impl Errand {
    pub(super) fn new(flow: &Flow, programs: &Programs, instance: u32, port: u16, start: Duration) -> Errand {
        let is_over = AtomicBool::new(false);
        Errand {
            flow: flow.clone(),
            programs: programs.clone(),
            instance,
            port,
            start,
            is_over,
            ends: Mutex::default(),
        }
    }

    /// The node of each end, the client's first.
    pub(super) fn nodes(&self) -> [usize; 2] {
        let (from, to) = (self.flow.from, self.flow.to);
        if self.programs.client_receives { [to, from] } else { [from, to] }
    }

    /// The ends at which something runs.
    pub(super) fn ends(&self) -> impl Iterator<Item = usize> + use<> {
        let has_server = self.programs.server.is_some();
        [CLIENT, SERVER].into_iter().filter(move |&end| end == CLIENT || has_server)
    }

    /// Runs the program of one end, in the namespace of the calling thread, until it is over. `addresses` are the client's and the
    /// server's.
    pub(super) fn play(&self, end: usize, addresses: [Ipv4Addr; 2], folder: &ProgramFolder, stage: &Stage) {
        let presence = stage.enter();
        let words = self.words(end, addresses);
        let failed = |why: io::Error| {
            let (name, instance) = (&self.flow.name, self.instance);
            stage.fail(format!("flows.{name}, instance {instance}, its {}, {}: {why}", NAMES[end], words[0]));
        };
        let run = || -> io::Result<()> {
            if end == SERVER {
                let mut running = self.spawn(end, &words, folder, stage)?;
                if self.server_names_port()
                    && let Err(why) = program::await_port(&mut running.child, self.port, &words[0])
                {
                    signal(&running.child, Signal::KILL);
                    let said = last_line(&self.file(folder, end, "stderr"));
                    let is_mute = said.is_empty() || why.kind() == io::ErrorKind::TimedOut;
                    return Err(if is_mute { why } else { io::Error::other(said) });
                }
                presence.ready();
                let is_over = || self.is_over.load(Ordering::Relaxed);
                return self.wait(end, running, folder, stage, &is_over);
            }
            let Some(begun) = presence.ready() else { return Ok(()) };
            if !stage.sleep_until(begun + self.start) {
                return Ok(());
            }
            let running = self.spawn(end, &words, folder, stage)?;
            self.wait(end, running, folder, stage, &|| false)
        };
        let ran = run();
        if end == CLIENT {
            self.is_over.store(true, Ordering::Relaxed);
        }
        if let Err(why) = ran {
            failed(why);
        }
    }

    fn server_names_port(&self) -> bool {
        self.programs.server.iter().flatten().any(|word| word.contains("{port}"))
    }

    /// The words of an end's program, names of places replaced.
    fn words(&self, end: usize, [client, server]: [Ipv4Addr; 2]) -> Vec<String> {
        let words = match end {
            CLIENT => &self.programs.client,
            _ => self.programs.server.as_ref().expect("an end without a program is not played"),
        };
        let places =
            [("{client}", client.to_string()), ("{server}", server.to_string()), ("{port}", self.port.to_string())];
        let replaced = |word: &String| places.iter().fold(word.clone(), |word, (name, is)| word.replace(name, is));
        words.iter().map(replaced).collect()
    }

    /// The file that has what an end's program writes to `output`.
    fn file(&self, folder: &ProgramFolder, end: usize, output: &str) -> PathBuf {
        folder.0.join(self.file_name(end, output))
    }

    fn file_name(&self, end: usize, output: &str) -> String {
        // Flows may be called anything.
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
        let flow: String = self.flow.name.chars().take(64).map(plain).collect();
        format!("{flow}-{}-{}.{output}", self.instance, NAMES[end])
    }

    fn len(&self, folder: &ProgramFolder, end: usize, output: &str) -> u64 {
        self.file(folder, end, output).metadata().map_or(0, |file| file.len())
    }

    fn spawn(&self, end: usize, words: &[String], folder: &ProgramFolder, stage: &Stage) -> io::Result<Running> {
        let mut command = process::command(program::find(&words[0]).unwrap_or_else(|| words[0].clone().into()));
        // A group of its own: what a shell has started ends with it.
        command.args(&words[1..]).process_group(0);
        let output = |name: &str| File::create(self.file(folder, end, name)).map(Stdio::from);
        let child = command.stdout(output("stdout")?).stderr(output("stderr")?).spawn()?;
        Ok(Running { child, begun: stage.now() })
    }

    /// Waits until a program has ended, or tells it to when the run or `is_enough` says so, and notes how it ended.
    fn wait(
        &self,
        end: usize,
        Running { mut child, begun }: Running,
        folder: &ProgramFolder,
        stage: &Stage,
        is_enough: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let mut is_told = false;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if ["stdout", "stderr"].iter().any(|name| self.len(folder, end, name) > OUTPUT_BYTES_MAX) {
                break end_group(&mut child, stage)?;
            }
            if is_enough() || !stage.sleep_until(stage.now() + LOOK_EVERY) {
                is_told = true;
                break end_group(&mut child, stage)?;
            }
        };
        let ended = stage.now();
        // Of a shell that has ended something may go on.
        signal(&child, Signal::KILL);
        let last_line = last_line(&self.file(folder, end, "stderr"));
        self.lock()[end] = Some(Ended { begun, ended, status, is_told, last_line });
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, [Option<Ended>; 2]> {
        self.ends.lock().expect("nobody panics while it notes an end")
    }

    /// Why it came to no good; empty if it did not.
    fn fault(ends: &[Option<Ended>; 2]) -> String {
        let mut faults = ends.iter().zip(NAMES).filter_map(|(ended, name)| {
            let ended = ended.as_ref().filter(|it| !it.is_told && !it.status.success())?;
            let by = if name == NAMES[CLIENT] { String::new() } else { format!("{name}: ") };
            let colon = if ended.last_line.is_empty() { "" } else { ": " };
            Some(format!("{by}{}{colon}{}", ended.status, ended.last_line))
        });
        faults.next().unwrap_or_default()
    }

    /// Its row in the table of flows, with what was seen between its hosts until the run's end at `ended`.
    pub(super) fn row(&self, between: &Between, begun: Time, ended: Time) -> FlowRow {
        let ends = self.lock();
        let client = ends[CLIENT].as_ref();
        let start = client.map_or(begun + self.start, |client| client.begun);
        let by_itself = client.filter(|client| !client.is_told);
        let active = by_itself.map_or(ended, |client| client.ended).since(start).as_nanos();
        let seen = between.sums();
        FlowRow {
            flow: self.flow.name.clone(),
            instance: u64::from(self.instance),
            bytes: seen.delivered,
            start_ns: self.start.as_nanos(),
            transfer_ns: by_itself.filter(|client| client.status.success()).map(|_| active),
            active_ns: active,
            delivered_bytes: seen.delivered,
            wire_bytes: between.wire_bytes(),
            segments_sent: seen.segments,
            retransmits: seen.retransmits,
            spurious: seen.spurious,
            rtt_ns: seen.rtt.summary().map(|rtt| rtt.map(Duration::as_nanos)),
            fault: Self::fault(&ends),
            ..FlowRow::default()
        }
    }

    /// What its programs did. `hosts` are the names of the client's and the server's.
    pub(super) fn told(
        &self,
        between: &Between,
        hosts: [&str; 2],
        addresses: [Ipv4Addr; 2],
        folder: &Arc<ProgramFolder>,
    ) -> io::Result<Told> {
        let ends = self.lock();
        let mut json = json!({
            "flow": self.flow.name,
            "instance": self.instance,
            "bytes_from_to": between.wire_bytes(),
            "bytes_to_from": between.wire_bytes_back(),
        });
        let mut files = Vec::new();
        for end in self.ends() {
            let mut told = json!({ "host": hosts[end], "words": self.words(end, addresses) });
            if let Some(ended) = &ends[end] {
                told["seconds"] = ended.ended.since(ended.begun).as_secs_f64().into();
                told["exit_status"] = ended.status.code().into();
                told["signal"] = ended.status.signal().into();
                told["ended_with_the_run"] = (end == CLIENT && ended.is_told).into();
                for output in ["stdout", "stderr"] {
                    let file = self.file(folder, end, output);
                    told[output] = tail(&file, TOLD_MAX)?.into();
                    told[format!("{output}_bytes")] = fs::metadata(&file)?.len().into();
                    files.push((self.file_name(end, output), file));
                }
            }
            json[NAMES[end]] = told;
        }
        Ok(Told { json, files, _folder: folder.clone() })
    }
}

/// A program under way.
struct Running {
    child: Child,
    begun: Time,
}

/// Tells a program and what it has started to end, and kills what does not.
fn end_group(child: &mut Child, stage: &Stage) -> io::Result<ExitStatus> {
    signal(child, Signal::TERM);
    let limit = stage.now() + ENDING_MAX;
    while stage.now() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    signal(child, Signal::KILL);
    child.wait()
}

/// Sends a signal to the group of a program; there may be nobody left in it.
fn signal(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

/// The end of a file, at most `most` bytes of it, as text.
fn tail(file: &Path, most: u64) -> io::Result<String> {
    let mut file = File::open(file)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last line of a file that says anything; empty if none does.
fn last_line(file: &Path) -> String {
    const LOOKED_AT: u64 = 4_096;
    let text = tail(file, LOOKED_AT).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}
