//! Counters of what a connection does.

/// Counters of what the sending half of a connection has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Segments with payload sent, retransmissions included.
    pub segments: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes: u64,
    /// Segments sent that had been sent before.
    pub retransmits: u64,
    /// Expirations of the retransmission timer.
    pub timeouts: u64,
    /// Losses found by duplicate ACKs, SACK or RACK: once per recovery.
    pub fast_retransmits: u64,
    /// Reductions of the window because the peer told of marks (RFC 3168 s6.1.2): one a window of data at most.
    pub marks: u64,
    /// Reductions of the window that were taken back, their cause being no loss (RFC 5682, RFC 4015).
    pub undone: u64,
    /// Tail-loss probes (RFC 8985 s7).
    pub tail_loss_probes: u64,
    /// Zero-window probes (RFC 9293 s3.8.6.1).
    pub window_probes: u64,
}
