//! `headend proxy ctl`: asks a proxy that runs, over the Unix socket of its file (`control`).
//!
//! One question a connection: a line of words. The answer is text until the end; what could not be done begins with `error: `.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;
use headend_host::proxy::Proxy;
use headend_host::proxy::books::FlowPage;
use headend_host::proxy::config::Limits;
use headend_host::proxy::field::{self, Table, Written};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::failure::Failure;

/// Ask a running proxy, over the socket of its file's `control`
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend proxy ctl /run/headend/control.sock list\n  \
    headend proxy ctl /run/headend/control.sock end 4711\n  \
    headend proxy ctl /run/headend/control.sock limits connections_per_client 50")]
pub(super) struct Arguments {
    /// The socket: `control` of the proxy's file
    socket: PathBuf,

    #[command(subcommand)]
    question: Question,
}

#[derive(clap::Subcommand, Debug)]
enum Question {
    /// Print the open connections, oldest first, a JSON object a line
    List,
    /// End a connection by its id: both of its sides are reset
    End { id: u64 },
    /// Accept no more, and end when the last connection has ended, as SIGTERM does
    Drain,
    /// Print the limits, or set one until the file is read again
    Limits {
        /// A field of `[limits]`
        #[arg(requires = "value")]
        name: Option<String>,
        /// Its value, as in the file but for the quotes: 50, 20s, 64MB
        value: Option<String>,
    },
}

/// The step that follows once the answer is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    Nothing,
    Drain,
    /// Its configuration is another.
    Changed,
}

/// The time for a question and its answer.
const PATIENCE: Duration = Duration::from_secs(5);
const QUESTION_BYTES_MAX: u64 = 4_096;
/// Connections that are listed at a time, so that workers wait for none longer.
const LISTED: usize = 256;
const ERROR: &str = "error: ";

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let question = match &arguments.question {
        Question::List => "list".to_owned(),
        Question::End { id } => format!("end {id}"),
        Question::Drain => "drain".to_owned(),
        Question::Limits { name: Some(name), value: Some(value) } => format!("limits {name} {value}"),
        Question::Limits { .. } => "limits".to_owned(),
    };
    let failed = |error| Failure::io(&arguments.socket, error);
    let mut stream = UnixStream::connect(&arguments.socket).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.strip_prefix(ERROR) {
        Some(why) => Err(Failure::Wrong(why.trim_end().to_owned())),
        None => {
            print!("{answer}");
            Ok(())
        }
    }
}

/// Answers whoever has come to the socket: root, and who started the proxy.
pub(super) async fn serve(proxy: &mut Proxy, stream: tokio::net::UnixStream) -> Consequence {
    let user = stream.peer_cred().map(|peer| peer.uid());
    if !user.is_ok_and(|user| user == 0 || user == proxy.owner().as_raw()) {
        return Consequence::Nothing;
    }
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(tokio::io::AsyncReadExt::take(reader, QUESTION_BYTES_MAX));
    let read = tokio::time::timeout(PATIENCE, reader.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(1..))) {
        return Consequence::Nothing;
    }
    let (answer, consequence) =
        answer(proxy, line.trim_end()).unwrap_or_else(|why| (format!("{ERROR}{why}\n"), Consequence::Nothing));
    // Whether it is heard is the asker's affair.
    let _ = tokio::time::timeout(PATIENCE, writer.write_all(answer.as_bytes())).await;
    consequence
}

fn answer(proxy: &mut Proxy, question: &str) -> Result<(String, Consequence), String> {
    let words: Vec<&str> = question.split_whitespace().collect();
    match words.as_slice() {
        ["list"] => Ok((list(proxy), Consequence::Nothing)),
        ["end", id] => {
            let id: u64 = id.parse().map_err(|_| format!("found {id:?}, expected a connection's number"))?;
            if proxy.books().end(id) {
                Ok((format!("{id} is ended\n"), Consequence::Nothing))
            } else {
                Err(format!("there is no connection {id}"))
            }
        }
        ["drain"] => Ok(("draining\n".to_owned(), Consequence::Drain)),
        ["limits"] => Ok((field::written(&proxy.config().limits), Consequence::Nothing)),
        ["limits", name, value] => {
            let mut config = (*proxy.config()).clone();
            set(&mut config.limits, name, value)?;
            proxy.reload(config).map_err(|refusal| refusal.to_string())?;
            Ok((format!("{name} is {value} until the file is read again\n"), Consequence::Changed))
        }
        _ => Err("expected list, end ID, drain, limits, or limits NAME VALUE".to_owned()),
    }
}

/// Sets a limit from its value as a person writes it.
fn set(limits: &mut Limits, name: &str, value: &str) -> Result<(), String> {
    let field = Limits::FIELDS.iter().find(|field| field.name == name).ok_or_else(|| {
        let names: Vec<&str> = Limits::FIELDS.iter().map(|field| field.name).collect();
        format!("there is no limit {name:?}; expected one of {}", names.join(", "))
    })?;
    let written = value.parse().map_or_else(|_| Written::Text(value.to_owned()), Written::Number);
    (field.read)(limits, written).map_err(|why| format!("{name}: {why}"))
}

fn list(proxy: &Proxy) -> String {
    let books = proxy.books();
    let mut text = String::new();
    let mut after = 0;
    loop {
        let flows = books.flows_after(after, LISTED);
        let Some(last) = flows.last() else { return text };
        after = last.id;
        for flow in flows {
            text.push_str(&shown(&flow));
            text.push('\n');
        }
    }
}

fn shown(flow: &FlowPage) -> String {
    let lap = flow.lap();
    json!({
        "id": flow.id,
        "way": flow.way,
        "client": flow.client.to_string(),
        "behind": flow.behind.get().map(ToString::to_string),
        "user": lap.user.as_deref(),
        "destination": lap.destination.as_deref(),
        "server": lap.server.map(|server| server.to_string()),
        "age_s": flow.began.elapsed().as_secs(),
        "idle_s": flow.idle().as_secs(),
        "up_bytes": flow.read[0].load(Relaxed),
        "down_bytes": flow.read[1].load(Relaxed),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_set_as_it_is_written_in_the_file() {
        let mut limits = Limits::default();
        set(&mut limits, "connections_per_client", "50").unwrap();
        set(&mut limits, "keep_alive", "7s").unwrap();
        assert_eq!((limits.connections_per_client, limits.keep_alive), (Some(50), Duration::from_secs(7)));
        assert!(set(&mut limits, "keep_alive", "7").unwrap_err().contains("keep_alive: found 7, expected a time"));
        assert!(set(&mut limits, "none", "7").unwrap_err().contains("one of connections, "));
    }
}
