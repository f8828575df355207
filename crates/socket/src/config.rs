//! The settings of an endpoint.

use headend_engine::cc::{Algorithm, backfill};
use headend_engine::time::Duration;

/// The settings of an endpoint's connections. [`Config::default`] is for most.
#[derive(Clone, Debug)]
pub struct Config {
    /// The congestion control of what leaves here. The default is `backfill`: fast on a damaged line, fair beside CUBIC.
    pub controller: Algorithm,
    /// The time without a datagram of the peer's after which a connection ends. Each end keeps to its own and to the shorter of both.
    pub idle: Duration,
    /// The pause after which a client without traffic shows that it is there, so that a NAT on the way keeps its place (RFC 4787
    /// REQ-5: two minutes at least, and many take 30 s). A server never does. `None`: an idle connection ends after `idle`.
    pub keep_alive: Option<Duration>,
    /// Connections at a time that a server takes.
    pub connections_max: usize,
    /// Connections of one client's key.
    pub connections_per_key: usize,
    /// Streams that the peer may have open at a time on one connection.
    pub streams_max: u32,
    /// Bytes that the peer may send ahead of what is read, at first, of one stream; of all streams of a connection four times as
    /// many. Both grow with the path.
    pub window: u32,
    /// The most that all streams of a connection grow to, and one stream to a sixteenth of it.
    pub window_max: u32,
    /// Bytes of unreliable frames of a connection that this end holds in each direction: to be sent, and to be joined and read. A
    /// frame is half as long at most. 0: the peer may send none.
    pub frames: u32,
    /// Bytes by which the windows of all connections together may grow, and that frames which come take. What waits at all is
    /// bounded by this and, for each connection, by the windows at first and by `frames` to be sent.
    pub memory: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            controller: Algorithm::Backfill(backfill::Parameters::DEFAULT),
            idle: Duration::from_secs(180),
            keep_alive: Some(Duration::from_secs(25)),
            connections_max: 4_096,
            connections_per_key: 1_024,
            streams_max: 1_024,
            window: 131_072,
            window_max: 64 << 20,
            frames: 4 << 20,
            memory: 512 << 20,
        }
    }
}
