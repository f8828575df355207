//! Decisions of a split-connection proxy: how much to read from one connection, hold, and write to the other
//! (proxies paper s3.2). It counts bytes and never holds them; whoever has the two sockets asks and obeys.

#[cfg(test)]
mod tests;

use crate::units::Bytes;

/// One of the two connections that a proxy joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The subscriber's, over the access network.
    Local,
    /// The server's, over the Internet.
    Remote,
}

/// The rule for how far one connection may run ahead of the other (proxies paper s3.2, figure 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayModel {
    /// Bytes read are queued for the other connection: the slower side holds back the faster one through its full
    /// socket buffers.
    BufferAndForward {
        /// Most bytes that the proxy itself holds each way, beyond the two sockets' buffers.
        limit: Bytes,
    },
    /// Bytes that arrive are stored, and no sender ever waits for the other side.
    StoreAndForward,
}

/// The state of a connection, as far as a relay must know it to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The part of its life that it is in.
    pub condition: Condition,
    /// Bytes that can be read from it.
    pub readable: Bytes,
    /// Bytes that its send buffer would take.
    pub space: Bytes,
    /// The peer has closed its direction: nothing follows what is readable.
    pub at_end: bool,
}

/// The parts of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The connection is not established yet.
    Opening,
    /// The connection is established; one of its directions may be closed.
    Open,
    /// The connection was closed by both ends.
    Over,
    /// The connection was reset, refused or timed out.
    Failed,
}

/// The next thing that the owner of the sockets is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read up to so many bytes, then tell [`Relay::has_read`].
    Read(Side, Bytes),
    /// Offer so many bytes, the oldest held, then tell [`Relay::has_written`] how many were taken.
    Write(Side, Bytes),
    /// Close the direction towards that side: all that will ever go there was written.
    Close(Side),
    /// Reset that side, because the other failed.
    Abort(Side),
}

/// A pair of connections joined byte for byte.
#[derive(Clone, Debug)]
pub struct Relay {
    hold_max: Bytes,
    /// The stream from the remote side to the local one.
    down: Stream,
    /// The stream from the local side to the remote one.
    up: Stream,
    aborted: bool,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    held: Bytes,
    held_max: Bytes,
    closed: bool,
}

impl Side {
    /// The side across.
    pub fn other(self) -> Side {
        match self {
            Side::Local => Side::Remote,
            Side::Remote => Side::Local,
        }
    }
}

impl Relay {
    /// A relay that holds nothing yet.
    pub fn new(model: RelayModel) -> Relay {
        let hold_max = match model {
            RelayModel::BufferAndForward { limit } => limit,
            RelayModel::StoreAndForward => Bytes::MAX,
        };
        Relay { hold_max, down: Stream::default(), up: Stream::default(), aborted: false }
    }

    /// The action to take now, if any. To be asked again after each action until there is none, and whenever something
    /// happened to one of the connections.
    pub fn next(&mut self, local: &View, remote: &View) -> Option<Action> {
        if let Some(survivor) = self.survivor(local, remote) {
            self.aborted = true;
            return Some(Action::Abort(survivor));
        }
        if [local, remote].iter().any(|view| view.condition == Condition::Failed) {
            return None;
        }
        // Towards the subscriber first: that is where the file goes.
        self.forward(remote, local, Side::Local).or_else(|| self.forward(local, remote, Side::Remote))
    }

    /// Notes that `len` bytes were read from `from`.
    pub fn has_read(&mut self, from: Side, len: Bytes) {
        let hold_max = self.hold_max;
        let stream = self.towards(from.other());
        stream.held += len;
        // What exceeds the limit goes straight on to a send buffer that has space for it.
        stream.held_max = stream.held_max.max(stream.held.min(hold_max));
    }

    /// Notes that the connection of `to` took `len` bytes.
    ///
    /// # Panics
    /// If that is more than was read: bytes do not come from nowhere.
    pub fn has_written(&mut self, to: Side, len: Bytes) {
        let stream = self.towards(to);
        assert!(len <= stream.held, "{len} were written to the {to:?} side, and only {} were held for it", stream.held);
        stream.held -= len;
    }

    /// Bytes read and not yet taken by the connection of `to`.
    pub fn held(&self, to: Side) -> Bytes {
        self.stream(to).held
    }

    /// The most that was ever held for `to`, short of what went straight on because the limit allowed no more.
    pub fn held_max(&self, to: Side) -> Bytes {
        self.stream(to).held_max
    }

    /// The side that must hear that the other connection failed: a proxy that kept silent would have its peer wait for ever, and
    /// one that closed would have it take half a file for a whole.
    fn survivor(&self, local: &View, remote: &View) -> Option<Side> {
        if self.aborted {
            return None;
        }
        match (local.condition, remote.condition) {
            (Condition::Failed, Condition::Opening | Condition::Open) => Some(Side::Remote),
            (Condition::Opening | Condition::Open, Condition::Failed) => Some(Side::Local),
            _ => None,
        }
    }

    /// The next step of one direction: write before reading, so that as little as possible is held; close when nothing
    /// can follow.
    fn forward(&mut self, from: &View, to: &View, side: Side) -> Option<Action> {
        let hold_max = self.hold_max;
        let stream = self.towards(side);
        if stream.closed {
            return None;
        }
        if stream.held > Bytes::ZERO && to.space > Bytes::ZERO {
            // All of it, even if it will not fit: a refusal tells the sender that more follows.
            return Some(Action::Write(side, stream.held));
        }
        // What was held and found no space stays; beyond it there is room up to the limit, and for what goes straight on.
        let room = hold_max.saturating_sub(stream.held).get().saturating_add(to.space.get());
        let len = from.readable.min(Bytes::new(room));
        if len > Bytes::ZERO {
            return Some(Action::Read(side.other(), len));
        }
        let all_gone = from.at_end && from.readable == Bytes::ZERO && stream.held == Bytes::ZERO;
        if all_gone && to.condition == Condition::Open {
            stream.closed = true;
            return Some(Action::Close(side));
        }
        None
    }

    fn stream(&self, to: Side) -> &Stream {
        match to {
            Side::Local => &self.down,
            Side::Remote => &self.up,
        }
    }

    fn towards(&mut self, to: Side) -> &mut Stream {
        match to {
            Side::Local => &mut self.down,
            Side::Remote => &mut self.up,
        }
    }
}
