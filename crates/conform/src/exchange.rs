//! The knowledge that both ends of a connection share, though they may live on two threads.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::role::Role;

/// A connection of a schedule under way.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The seed of its schedule.
    pub(crate) seed: u64,
    /// Which of its schedule's connections it is, and how many there are.
    pub(crate) connection: usize,
    pub(crate) connections: usize,
    /// More than so many bytes on the way mean that the sender is not held back.
    pub(crate) held_bytes_max: u64,
    /// The address that the client named in a PROXY header of its own, if it did, and its own address.
    pub(crate) client: OnceLock<(Option<SocketAddr>, SocketAddr)>,
    /// Bytes sent and received, by the end that does.
    sent: [AtomicU64; 2],
    received: [AtomicU64; 2],
    /// A sender has been held back.
    pub(crate) held: Signal,
    /// The other direction has delivered in the meantime.
    pub(crate) other_way: Signal,
    /// A stalled reader reads again.
    pub(crate) released: Signal,
    /// Both ends are to leave.
    pub(crate) abort: Signal,
}

impl Exchange {
    pub(crate) fn new(seed: u64, connection: usize, connections: usize, held_bytes_max: u64) -> Exchange {
        Exchange {
            seed,
            connection,
            connections,
            held_bytes_max,
            client: OnceLock::new(),
            sent: Default::default(),
            received: Default::default(),
            held: Signal::new(),
            other_way: Signal::new(),
            released: Signal::new(),
            abort: Signal::new(),
        }
    }

    pub(crate) fn note_sent(&self, end: Role, bytes: usize) {
        self.sent[end as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_received(&self, end: Role, bytes: usize) {
        self.received[end as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that `end` has sent and the other one has not received.
    pub(crate) fn on_the_way(&self, end: Role) -> u64 {
        let received = self.received[end.other() as usize].load(Ordering::Relaxed);
        self.sent[end as usize].load(Ordering::Relaxed).saturating_sub(received)
    }

    /// A number that changes whenever something gets on.
    pub(crate) fn progress(&self) -> u64 {
        let bytes: u64 = self.sent.iter().chain(&self.received).map(|count| count.load(Ordering::Relaxed)).sum();
        bytes + [&self.held, &self.other_way, &self.released].iter().filter(|signal| signal.is_given()).count() as u64
    }
}

/// Something that is said once and stays said.
#[derive(Debug)]
pub(crate) struct Signal(watch::Sender<bool>);

impl Signal {
    pub(crate) fn new() -> Signal {
        Signal(watch::Sender::new(false))
    }

    pub(crate) fn give(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_given(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn given(&self) {
        self.0.subscribe().wait_for(|given| *given).await.expect("the sender outlives this call");
    }
}
