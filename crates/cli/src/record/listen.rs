//! The end that takes trains: it notes when their packets come, and tells who sends them.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant};

use super::train::{Packet, REPORTED, Report, Seen};
use crate::failure::Failure;
use crate::printing;

/// A train is over if nothing more of it came for so long, and its report leaves.
const OVER: StdDuration = StdDuration::from_millis(20);
/// Measurements at the same time; a further one takes the place of that which has been silent for longest.
const RUNS_MAX: usize = 16;

/// A measurement under way.
struct Run {
    number: u64,
    from: SocketAddr,
    trains: VecDeque<Seen>,
    /// The first packet of the train under way, and the last: when they came.
    first: Instant,
    last: Instant,
    last_sent_ns: u64,
    /// True if the last train has not been reported.
    is_new: bool,
}

pub(super) fn run(at: SocketAddr, stop: &AtomicBool) -> Result<(), Failure> {
    let socket = UdpSocket::bind(at).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied => {
            Failure::Wrong(format!("{at}: {error}"))
        }
        _ => Failure::Failed(format!("{at}: {error}")),
    })?;
    socket.set_read_timeout(Some(OVER / 4)).map_err(|error| Failure::Failed(format!("{at}: {error}")))?;
    printing::print(|out| writeln!(out, "takes trains at {at}; Ctrl-C ends it"))?;
    let begun = Instant::now();
    let mut runs: Vec<Run> = Vec::new();
    let mut buffer = [0; 9_100];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => {
                let now = Instant::now();
                if let Some(packet) = Packet::read(&buffer[..len]) {
                    note(&mut runs, packet, from, now, begun);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // Whoever sent trains has closed his port.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
            Err(error) => return Err(Failure::Failed(format!("{at}: {error}"))),
        }
        for run in runs.iter_mut().filter(|run| run.is_new && run.last.elapsed() >= OVER) {
            run.is_new = false;
            let held_ns = run.last.elapsed().as_nanos() as u64;
            let trains = run.trains.iter().cloned().collect();
            let report = Report { run: run.number, last_sent_ns: run.last_sent_ns, held_ns, trains };
            // One that is lost is made good by the next.
            let _ = socket.send_to(&report.bytes(), run.from);
        }
    }
    Ok(())
}

/// Counts a packet that came.
fn note(runs: &mut Vec<Run>, packet: Packet, from: SocketAddr, now: Instant, begun: Instant) {
    let index = runs.iter().position(|run| run.number == packet.run && run.from == from).unwrap_or_else(|| {
        if runs.len() == RUNS_MAX {
            let silent = (0..runs.len()).min_by_key(|&index| runs[index].last).expect("there are some");
            runs.swap_remove(silent);
        }
        let trains = VecDeque::new();
        runs.push(Run { number: packet.run, from, trains, first: now, last: now, last_sent_ns: 0, is_new: false });
        runs.len() - 1
    });
    let run = &mut runs[index];
    let place = packet.index.min(1 << 20);
    if run.trains.back().is_none_or(|last| last.train < packet.train) {
        if run.trains.len() == REPORTED {
            run.trains.pop_front();
        }
        let way_ns = now.duration_since(begun).as_nanos() as i64 - (packet.sent_ns & (i64::MAX as u64 >> 2)) as i64;
        run.trains.push_back(Seen {
            train: packet.train,
            sent: 0,
            came: 0,
            first: place,
            last: place,
            span_ns: 0,
            way_ns,
            round_ns: None,
        });
        run.first = now;
    }
    let train = run.trains.back_mut().expect("it has just come");
    if train.train != packet.train {
        // It was overtaken by the train behind it.
        return;
    }
    train.came += 1;
    train.last = train.last.max(place);
    train.sent = train.sent.max(place + 1).max(train.came);
    train.span_ns = now.duration_since(run.first).as_nanos() as u64;
    (run.last, run.last_sent_ns, run.is_new) = (now, packet.sent_ns, true);
}
