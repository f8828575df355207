//! What both ends of a connection know of each other, though they may live on two threads.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

impl End {
    pub(super) const BOTH: [End; 2] = [End::Client, End::Server];

    pub(super) fn other(self) -> End {
        match self {
            End::Client => End::Server,
            End::Server => End::Client,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            End::Client => "client",
            End::Server => "server",
        }
    }
}

/// A connection of a schedule under way.
#[derive(Debug)]
pub(super) struct Exchange {
    /// Of its schedule.
    pub(super) seed: u64,
    /// Which of its schedule's connections it is, and how many there are.
    pub(super) connection: usize,
    pub(super) connections: usize,
    /// More than so many bytes on the way mean that the sender is not held back.
    pub(super) held_bytes_max: u64,
    /// Whom the client named in a PROXY header of its own, and its own address.
    pub(super) client: OnceLock<(Option<SocketAddr>, SocketAddr)>,
    /// Bytes sent and received, by the end that does.
    sent: [AtomicU64; 2],
    received: [AtomicU64; 2],
    /// A sender has been held back.
    pub(super) held: Signal,
    /// In the meantime the other direction has delivered.
    pub(super) other_way: Signal,
    /// A stalled reader reads again.
    pub(super) released: Signal,
    /// Both ends are to leave.
    pub(super) abort: Signal,
}

impl Exchange {
    pub(super) fn new(seed: u64, connection: usize, connections: usize, held_bytes_max: u64) -> Exchange {
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

    pub(super) fn note_sent(&self, end: End, bytes: usize) {
        self.sent[end as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn note_received(&self, end: End, bytes: usize) {
        self.received[end as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that `end` has sent and the other one has not received.
    pub(super) fn on_the_way(&self, end: End) -> u64 {
        let received = self.received[end.other() as usize].load(Ordering::Relaxed);
        self.sent[end as usize].load(Ordering::Relaxed).saturating_sub(received)
    }

    /// A number that changes whenever something gets on.
    pub(super) fn progress(&self) -> u64 {
        let bytes: u64 = self.sent.iter().chain(&self.received).map(|count| count.load(Ordering::Relaxed)).sum();
        bytes + [&self.held, &self.other_way, &self.released].iter().filter(|signal| signal.is_given()).count() as u64
    }
}

/// Something that is said once and stays said.
#[derive(Debug)]
pub(super) struct Signal(watch::Sender<bool>);

impl Signal {
    pub(super) fn new() -> Signal {
        Signal(watch::Sender::new(false))
    }

    pub(super) fn give(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is_given(&self) -> bool {
        *self.0.borrow()
    }

    pub(super) async fn given(&self) {
        self.0.subscribe().wait_for(|given| *given).await.expect("the sender outlives this call");
    }
}
