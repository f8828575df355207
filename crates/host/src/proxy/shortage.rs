//! The kernel's memory for TCP is one for all connections of the machine (tcp(7), `tcp_mem`). Each socket may take tens of
//! megabytes of it, and one whose reader stalls keeps what it has: some hundred of them are enough that every other
//! connection crawls. So beyond a bound the proxy's own buffers are cut, each to its share.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::Shared;
use super::config::Config;
use super::side::SideOptions;
use crate::error::{During, Error};
use crate::socket;
use crate::sysctl;

/// The time between two questions to the kernel: a link of 10 Gbit/s fills 125 MB meanwhile.
const PERIOD: Duration = Duration::from_millis(100);
/// The shortage is over when less than two thirds of the bound have been taken for so long.
const CALM: Duration = Duration::from_secs(5);
/// No buffer is cut to less: a handful of full segments, with what the kernel adds to each.
const BUFFER_BYTES_MIN: u64 = 16_384;
/// Connections that are gone through before the books are given back for a moment.
const PAGE: usize = 256;

/// The file in which the kernel tells of its memory.
const SOCKSTAT: &str = "/proc/net/sockstat";
const SOCKSTAT_BYTES_MAX: usize = 4_096;

/// The judge of whether there is a shortage.
#[derive(Debug, Default)]
struct Judge {
    is_short: bool,
    calm_since: Option<Instant>,
}

/// Starts the thread that looks after it; it ends with `shared`.
pub(crate) fn watch(shared: &Arc<Shared>) -> Result<(), Error> {
    let own = kernels_own();
    let watched = Arc::downgrade(shared);
    let cannot = |error: io::Error| format!("how much memory the kernel has for TCP cannot be watched: {error}");
    // Open as long as the proxy runs: many connections may well have taken all other descriptors when memory is short.
    let gauge = match File::open(SOCKSTAT) {
        Ok(gauge) => gauge,
        Err(error) => {
            shared.say(&cannot(error));
            return Ok(());
        }
    };
    let look = move || {
        let mut judge = Judge::default();
        let mut has_said = false;
        let mut has_failed = false;
        while let Some(shared) = watched.upgrade() {
            match look(&shared, &gauge, &mut judge, &mut has_said, own) {
                Ok(()) => has_failed = false,
                Err(error) if !has_failed => {
                    shared.say(&cannot(error));
                    has_failed = true;
                }
                Err(_) => {}
            }
            drop(shared);
            thread::sleep(PERIOD);
        }
    };
    thread::Builder::new().name("proxy-memory".to_owned()).spawn(look).during(|| "watch the kernel's memory")?;
    Ok(())
}

fn look(shared: &Shared, gauge: &File, judge: &mut Judge, has_said: &mut bool, own: u64) -> io::Result<()> {
    let books = &shared.books;
    let bound = shared.rules().config.limits.socket_memory.map_or(own, |bytes| bytes.get());
    let used = used(gauge)?;
    books.sockets.set(used, bound);
    let was_short = judge.is_short;
    if judge.is_short(used, bound, Instant::now()) {
        let share = share(bound, books.open());
        books.buffer_bound.store(share, Ordering::Relaxed);
        let mut is_cut = false;
        each_flow(shared, |flow| is_cut |= flow.cut_buffers(socket::clamp(share)));
        if is_cut && !std::mem::replace(has_said, true) {
            shared.say(&format!(
                "TCP has {used} bytes of the kernel's memory on this machine, more than socket_memory ({bound}): the \
                 proxy's socket buffers are cut, now to {share} bytes each, until it has less"
            ));
        }
    } else if was_short {
        books.buffer_bound.store(0, Ordering::Relaxed);
        each_flow(shared, |flow| flow.ease_buffers());
        if std::mem::take(has_said) {
            shared
                .say("TCP has enough of the kernel's memory again: socket buffers are as large as the kernel sees fit");
        }
    }
    Ok(())
}

fn each_flow(shared: &Shared, mut act: impl FnMut(&super::books::FlowPage)) {
    let mut after = 0;
    loop {
        let flows = shared.books.flows_after(after, PAGE);
        let Some(last) = flows.last() else { return };
        after = last.id;
        flows.iter().for_each(|flow| act(flow));
    }
}

/// The share of each of a connection's four buffers in half the bound: the other half is taken by what waited in them
/// before.
fn share(bound: u64, connections: usize) -> u64 {
    (bound / 8 / (connections as u64).max(1)).max(BUFFER_BYTES_MIN)
}

impl Judge {
    fn is_short(&mut self, used: u64, bound: u64, now: Instant) -> bool {
        if used > bound {
            self.is_short = true;
        }
        if used > bound / 3 * 2 {
            self.calm_since = None;
        } else if now.duration_since(*self.calm_since.get_or_insert(now)) >= CALM {
            self.is_short = false;
        }
        self.is_short
    }
}

/// Bytes that TCP has of the kernel's memory: of all namespaces together.
fn used(gauge: &File) -> io::Result<u64> {
    let mut bytes = [0; SOCKSTAT_BYTES_MAX];
    // Read from its beginning it is of now.
    let len = gauge.read_at(&mut bytes, 0)?;
    let pages = pages_used(&String::from_utf8_lossy(&bytes[..len]));
    let pages = pages.ok_or_else(|| io::Error::other(format!("{SOCKSTAT} does not tell")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

fn pages_used(sockstat: &str) -> Option<u64> {
    let mut words = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?.split_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

/// Three quarters of what TCP may have before the kernel itself calls it a shortage.
fn kernels_own() -> u64 {
    let page = rustix::param::page_size() as u64;
    let low = sysctl::read("net.ipv4.tcp_mem").ok().and_then(|numbers| numbers.split_whitespace().next()?.parse().ok());
    // In a namespace of its own the setting is not to be seen; the kernel began with 3/64 of the machine (tcp_init_mem).
    let low: u64 = low.map_or_else(|| machine_bytes() / 64 * 3, |pages: u64| pages * page);
    low / 4 * 3
}

fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

/// A warning of buffers that somebody asked for: these are not cut, so that many of them may take all memory.
pub(crate) fn warning(config: &Config) -> Option<String> {
    let bound = config.limits.socket_memory.map_or_else(kernels_own, |bytes| bytes.get());
    let connections = config.limits.connections as u64;
    let all = (buffers(&config.local) + buffers(&config.remote)).saturating_mul(connections);
    (all > bound).then(|| {
        format!(
            "limits.connections and the sides' buffers: {connections} connections may take {all} bytes of the kernel's \
             memory, and socket_memory is {bound}; buffers of a size that is asked for are not cut. Fewer connections or \
             smaller buffers are safe"
        )
    })
}

/// The memory of the buffers that a side asks for, as the kernel reckons: twice a send buffer, four times a receive
/// window.
fn buffers(side: &SideOptions) -> u64 {
    let bytes = |size: Option<headend_engine::units::Bytes>| size.map_or(0, |size| size.get());
    bytes(side.send_buffer).saturating_mul(2).saturating_add(bytes(side.receive_buffer).saturating_mul(4))
}

#[cfg(test)]
mod tests {
    use headend_engine::units::Bytes;

    use super::super::config::{Listener, Way};
    use super::*;

    #[test]
    fn a_shortage_begins_at_once_and_ends_when_it_has_been_calm_for_a_while() {
        let mut judge = Judge::default();
        let start = Instant::now();
        let mut at = |seconds: u64, used| judge.is_short(used, 900, start + Duration::from_secs(seconds));
        assert!(!at(0, 900), "what is allowed is no shortage");
        assert!(at(1, 901));
        assert!(at(2, 700), "not calm yet");
        assert!(at(3, 600) && at(7, 600), "not long enough");
        assert!(at(7, 601) && at(8, 0) && at(12, 0), "it begins anew");
        assert!(!at(13, 0));
        assert!(!at(14, 800), "between the two nothing changes");
    }

    #[test]
    fn the_shares_of_all_connections_are_half_of_the_bound() {
        assert_eq!(share(800_000_000, 1_000) * 4 * 1_000, 400_000_000);
        assert_eq!(share(800_000_000, 0), 100_000_000);
        assert_eq!(share(1, 1_000_000), BUFFER_BYTES_MIN);
    }

    #[test]
    fn the_kernel_tells_of_its_memory() {
        let text = "sockets: used 22\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 77\nUDP: inuse 0 mem 78\n";
        assert_eq!(pages_used(text), Some(77));
        assert_eq!(pages_used("UDP: inuse 0 mem 78\n"), None);
        let gauge = File::open(SOCKSTAT).unwrap();
        assert!(used(&gauge).is_ok() && used(&gauge).is_ok(), "again and again");
        let own = kernels_own();
        assert!(own > 0 && own < machine_bytes(), "{own} bytes of {}", machine_bytes());
    }

    #[test]
    fn buffers_of_a_size_that_is_asked_for_and_that_are_too_many_are_told_of() {
        let mut config = Config::new(vec![Listener::new("127.0.0.1:3128".parse().unwrap(), Way::Http)]);
        config.limits.socket_memory = Some(Bytes::new(1_000_000));
        config.limits.connections = 10;
        assert_eq!(warning(&config), None, "the kernel's own are cut when it must be");
        config.local.send_buffer = Some(Bytes::new(20_000));
        config.remote.receive_buffer = Some(Bytes::new(15_000));
        assert_eq!(warning(&config), None);
        config.limits.connections = 11;
        let said = warning(&config).expect("eleven times 100,000 are too many");
        assert!(said.contains("1100000 bytes") && said.contains("1000000;"), "{said}");
    }
}
