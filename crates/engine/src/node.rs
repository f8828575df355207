//! The one shape that everything in a network has.

use crate::packet::{Discard, Packet};
use crate::time::Time;

/// A place where packets enter or leave a node, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

/// The answer of a node to a poll: a packet that leaves, or how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This packet leaves through this port now.
    Send(Port, Packet),
    /// Nothing leaves until this time, or until a packet arrives.
    Wait(Option<Time>),
}

/// A state machine between ports: a link, a queue, a modem, a host, or a whole [`Graph`](crate::graph::Graph).
///
/// A driver calls `poll` until it returns `Wait`, then again at that time or after a `receive`. Time never runs
/// backwards between calls.
pub trait Node {
    /// Takes a packet that arrives at `port`, after settling all that was due by `now`. By reference, because whoever
    /// keeps it copies it to its place at once: copies on the way were a tenth of a simulation's time.
    fn receive(&mut self, now: Time, port: Port, packet: &Packet);

    /// Says what leaves now, or how long to wait. To be called until it returns [`Step::Wait`].
    fn poll(&mut self, now: Time) -> Step;

    /// The time before which nothing leaves, later than now, of a node that knows it without a poll; asked after a
    /// `receive` or a `Send`. Most packets that a link takes change nothing about its next delivery.
    fn quiet_until(&self, _now: Time) -> Option<Time> {
        None
    }

    /// The port through which a packet that arrives at `port` leaves at once, of a node that only redirects and keeps
    /// nothing. Such a node never sees the packet otherwise.
    fn through(&self, _port: Port, _packet: &Packet) -> Option<Port> {
        None
    }

    /// The port by which a packet for each node of the network leaves at once, of a node that does nothing else: what
    /// [`through`](Node::through) says, whatever the packet.
    fn routes(&self) -> Option<&[Option<Port>]> {
        None
    }

    /// Moves the records of packets that did not get through to the end of `into`: for a driver that holds their bytes.
    /// Only links that were told to record have any.
    fn take_discards(&mut self, _into: &mut Vec<Discard>) {}
}
