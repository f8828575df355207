//! Queues: where packets wait for service, and which of them are dropped.
//!
//! A discipline is a file: its parameters describe themselves as the [`part`](crate::part) module says, and build the
//! queue. [`Discipline`] has a line for each.

pub mod codel;
pub mod drop_tail;
pub mod dualpi2;
mod fifo;
pub mod fq_codel;
pub mod header_drop;
mod late;
pub mod occupancy_drop;
pub mod pie;
pub mod red;

use std::fmt::Debug;

use super::service::RateModel;
use crate::packet::Packet;
use crate::part::registry;
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Capacity};

pub use drop_tail::DropTail;
pub use fifo::Fifo;
pub use header_drop::HeaderDrop;
pub use red::Red;

/// A queue of waiting packets; the one in service is not in it.
pub trait Queue: Debug + Send {
    /// Takes a packet, or refuses it, or evicts another for it: whichever is dropped is returned, with the time at
    /// which it came. Called only while the server is busy, with a packet of `in_service` bytes.
    fn enqueue(&mut self, now: Time, packet: &Packet, in_service: Bytes) -> Option<(Time, Packet)>;

    /// The packet to serve next and the time at which it came; `None` once none waits.
    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)>;

    /// True for a discipline that drops packets after it took them: it is asked for each after every call of `enqueue` and of
    /// `dequeue`.
    fn drops_late(&self) -> bool {
        false
    }

    /// The next of the packets that were dropped late, and the time at which it came.
    fn take_dropped(&mut self) -> Option<(Time, Packet)> {
        None
    }

    /// Packets so far that it has marked and not dropped (RFC 3168).
    fn marked(&self) -> u64 {
        0
    }

    /// Bytes waiting.
    fn bytes(&self) -> Bytes;

    /// The time that the waiting packets have waited until `now`, summed, in nanoseconds.
    fn waited(&self, now: Time) -> u128;
}

registry! {
    /// The queue disciplines that a link can have.
    pub enum Discipline {
        DropTail(drop_tail::Parameters),
        Red(red::Parameters),
        HeaderDrop(header_drop::Parameters),
        OccupancyDrop(occupancy_drop::Parameters),
        Codel(codel::Parameters),
        FqCodel(fq_codel::Parameters),
        Pie(pie::Parameters),
        DualPi2(dualpi2::Parameters),
    }

    /// An empty queue of this discipline.
    fn build(&self, site: Site<'_>) -> Box<dyn Queue>;
}

impl Discipline {
    /// The discipline that takes whatever comes.
    pub const UNLIMITED: Discipline = Discipline::drop_tail(Capacity::Unlimited);

    /// The discipline that drops what does not fit.
    pub const fn drop_tail(buffer: Capacity) -> Discipline {
        Discipline::DropTail(drop_tail::Parameters { buffer })
    }
}

/// The things that a link gives to its queue.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The queue's source of chance.
    pub rng: Rng,
    /// The rate at which the link serves.
    pub rate: &'a RateModel,
}

#[cfg(test)]
mod tests {
    use crate::packet::{Body, Class, Ecn, Endpoint, Packet};

    /// A packet of so many bytes.
    pub(super) fn packet(len: u32) -> Packet {
        let (src, dst) = (Endpoint::default(), Endpoint::default());
        Packet { id: 0, src, dst, len, class: Class::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
    }
}
