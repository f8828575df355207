//! Two connections and the relay between them.

use headend_engine::node::Port;
use headend_engine::packet::{Ecn, Endpoint};
use headend_engine::relay::{Action, Condition, Relay, RelayModel, Side, View};
use headend_engine::tcp::connection::{Connection, Output, State};
use headend_engine::tcp::segment::Segment;
use headend_engine::time::{Time, earlier};
use headend_engine::units::Bytes;

/// Two connections joined byte for byte.
#[derive(Debug)]
pub(crate) struct Pair {
    legs: [Leg; 2],
    relay: Relay,
    opening: Opening,
    ended: bool,
    /// True while the proxy is to poll it now.
    pub(super) is_touched: bool,
    /// The earliest alarm that the proxy holds for this pair; `Time::MAX` if none.
    pub(super) alarm: Time,
}

/// One of the two connections.
#[derive(Debug)]
pub(crate) struct Leg {
    /// A connection that was never polled before.
    pub(crate) connection: Connection,
    pub(crate) peer: Endpoint,
    /// The proxy's port that leads to the peer.
    pub(crate) out: Port,
    /// Bytes read from it so far.
    pub(crate) read: Bytes,
    /// Bytes written to it so far.
    pub(crate) written: Bytes,
}

/// The way in which the connections come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Both are established beforehand, and never closed.
    Beforehand,
    /// The peer on this side connects; the proxy connects on to the other once it has accepted.
    From(Side),
}

impl Pair {
    /// Joins the connection to the subscriber and that to the server.
    pub(crate) fn new(model: RelayModel, opening: Opening, [local, remote]: [Leg; 2]) -> Pair {
        Pair {
            legs: [local, remote],
            relay: Relay::new(model),
            opening,
            ended: false,
            is_touched: false,
            alarm: Time::MAX,
        }
    }

    /// True if the connections are closed in the end.
    pub(crate) fn closes(&self) -> bool {
        self.opening != Opening::Beforehand
    }

    pub(crate) fn leg(&self, side: Side) -> &Leg {
        &self.legs[side as usize]
    }

    /// Bytes read on the other side and not yet written to this one.
    pub(crate) fn held(&self, to: Side) -> Bytes {
        self.relay.held(to)
    }

    /// Takes a segment that arrived on one side, in a packet with this ECN field.
    pub(super) fn receive(&mut self, now: Time, side: Side, segment: &Segment, ecn: Ecn) {
        self.legs[side as usize].connection.receive_with(now, segment, ecn);
    }

    /// Lets the relay move what it can, and then polls the connections; a wait is that of both.
    pub(super) fn poll(&mut self, now: Time) -> (Side, Output) {
        let first = match self.opening {
            Opening::From(side) => side,
            Opening::Beforehand => Side::Local,
        };
        loop {
            self.forward();
            let mut wake = None;
            for side in [first, first.other()] {
                if self.legs[side as usize].condition() == Condition::Opening && self.waits_to_connect(side) {
                    continue;
                }
                match self.legs[side as usize].connection.poll(now) {
                    Output::Wait(at) => wake = earlier(wake, at),
                    send @ Output::Send(_) => return (side, send),
                }
            }
            // A poll may have given a connection up, which the other side must hear.
            if !self.forward() {
                return (first, Output::Wait(wake));
            }
        }
    }

    /// True once, when both connections are over, if they ever are.
    pub(super) fn has_just_ended(&mut self) -> bool {
        let is_over = |leg: &Leg| matches!(leg.condition(), Condition::Over | Condition::Failed);
        let just = self.closes() && !self.ended && self.legs.iter().all(is_over);
        self.ended |= just;
        just
    }

    /// True if this side must wait: its connection is made only once that of the other is accepted.
    fn waits_to_connect(&self, side: Side) -> bool {
        self.opening == Opening::From(side.other())
            && self.legs[side.other() as usize].condition() == Condition::Opening
    }

    /// Does what the relay says; false if that was nothing.
    fn forward(&mut self) -> bool {
        let mut acted = false;
        loop {
            let [local, remote] = self.legs.each_ref().map(Leg::view);
            let Some(action) = self.relay.next(&local, &remote) else { return acted };
            acted = true;
            match action {
                Action::Read(from, len) => {
                    let leg = &mut self.legs[from as usize];
                    let read = leg.connection.read(len);
                    leg.read += read;
                    self.relay.has_read(from, read);
                }
                Action::Write(to, len) => {
                    let leg = &mut self.legs[to as usize];
                    let written = leg.connection.write(len);
                    leg.written += written;
                    self.relay.has_written(to, written);
                }
                Action::Close(side) => self.legs[side as usize].connection.close(),
                Action::Abort(side) => self.legs[side as usize].connection.abort(),
            }
        }
    }
}

impl Leg {
    pub(crate) fn new(connection: Connection, peer: Endpoint, out: Port) -> Leg {
        Leg { connection, peer, out, read: Bytes::ZERO, written: Bytes::ZERO }
    }

    fn condition(&self) -> Condition {
        match self.connection.state() {
            _ if self.connection.fault().is_some() => Condition::Failed,
            State::Closed | State::TimeWait => Condition::Over,
            State::Listen | State::SynSent | State::SynReceived => Condition::Opening,
            _ => Condition::Open,
        }
    }

    fn view(&self) -> View {
        let condition = self.condition();
        let space = if condition == Condition::Open { self.connection.space() } else { Bytes::ZERO };
        View { condition, readable: self.connection.readable(), space, at_end: self.connection.is_peer_closed() }
    }
}
