//! Connections one after another between the same two ends: a client that asks again and again.

use headend_engine::rng::Rng;
use headend_engine::tcp::connection::Connection;
use headend_engine::tcp::counters::SenderCounters;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use crate::traffic::{Application, Server};

/// State with which an end of repeated requests begins anew.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) is_client: bool,
    pub(crate) personality: Personality,
    pub(crate) clock_phase: Duration,
    /// The generator of initial sequence numbers and of times to answer.
    pub(crate) rng: Rng,
    pub(crate) request: Bytes,
    /// Sizes that are asked for in turn; both ends know them.
    pub(crate) sizes: Vec<Bytes>,
    pub(crate) turn: usize,
    pub(crate) pause: Duration,
    /// The shortest time that the server takes before it answers, and how much longer it may be.
    pub(crate) answer: [Duration; 2],
    pub(crate) past: Vec<Past>,
}

/// The account of a connection that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    pub(crate) size: Bytes,
    pub(crate) start: Time,
    pub(crate) read: Bytes,
    pub(crate) wire: Bytes,
    pub(crate) all_read: Option<Time>,
    pub(crate) all_acked: Option<Time>,
    pub(crate) failed: Option<Time>,
    pub(crate) counters: SenderCounters,
}

impl Again {
    /// The size that is asked for now.
    pub(crate) fn size(&self) -> Bytes {
        self.sizes[self.turn % self.sizes.len()]
    }

    /// The application of the connection to come, and how many bytes it reads.
    pub(crate) fn application(&mut self) -> (Application, Bytes) {
        if self.is_client {
            return (Application::Source { left: self.request }, self.size());
        }
        let [shortest, spread] = self.answer;
        let more = if spread == Duration::ZERO { 0 } else { self.rng.below(spread.as_nanos() + 1) };
        let server = Server {
            request: self.request,
            takes: shortest + Duration::from_nanos(more),
            ready: None,
            header: Bytes::ZERO,
            header_apart: false,
            file: self.size(),
            hand: Bytes::ZERO,
        };
        (Application::Server(server), self.request)
    }

    /// The connection to come.
    pub(crate) fn connection(&mut self) -> Connection {
        let isn = self.rng.bits() as u32;
        if self.is_client {
            Connection::connect(&self.personality, isn, self.clock_phase)
        } else {
            Connection::listen(&self.personality, isn, self.clock_phase)
        }
    }
}
