//! What a run records on demand: time series of senders, what happened to each packet, and captures.

use std::sync::Arc;

use crate::results::Table;

/// The traces of all runs of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traces {
    /// Senders, a row for each change: `flow`, `instance`, `time_s`, `cwnd_bytes`, `ssthresh_bytes` (NaN before the
    /// first congestion), `in_flight_bytes`, `rto_s`, `una_bytes`, `nxt_bytes`.
    pub series: Table,
    /// Packets, a row for each event: `flow`, `instance`, `time_s`, `place` (a host, or a link and its direction),
    /// `event` (`sent`, `received`, `dropped` by a queue, `lost` on the medium), `from` (the host), `id` (unique among
    /// the packets of that host), `flags` (of `SFRPA`), `seq` and `ack` (in bytes of the stream, the first is 0), `len`
    /// (payload bytes), `retransmission` (0/1).
    pub packets: Table,
    /// What each host saw, as files.
    pub captures: Vec<CaptureFile>,
}

/// A pcapng file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFile {
    /// The point of the sweep.
    pub point: usize,
    /// The run of that point.
    pub run: u64,
    /// The host at which the packets passed.
    pub host: Arc<str>,
    /// The file's contents.
    pub pcapng: Vec<u8>,
}
