//! Compressed headers of control TCPs on a link (thesis s4.9): RFC 1144, and *twice* (Degermark and others, 1996).
//!
//! The near end sends what a header changes of the one before it, of the same connection. A packet that is lost leaves the far
//! end with an older header, to which that change does not fit: the TCP checksum is wrong, and so is every one until a header
//! comes whole, which is when one is sent again. With *twice* the far end takes it that what was lost changed the header as
//! this one does, and tries the change again. Headers of a control TCP do differ by one VMSS each, so that this is nearly
//! always right.
//!
//! Nothing is lost between the two ends but on the line: the near end compresses as the service begins.

use std::collections::{BTreeMap, VecDeque};

use crate::packet::{Body, Class, Endpoint, Packet};
use crate::units::Bytes;

/// The bits that say what has changed, the connection's number, and the TCP checksum. RFC 1144 leaves out the number if it is
/// that of the packet before; then a loss can give a header to another connection (RFC 1332 s4), so it always goes along.
const LEAST_BYTES: u32 = 4;
/// Losses in a row that the far end guesses at. A checksum of 16 bits lets one wrong guess in 65536 pass.
const GUESSES_MAX: usize = 8;

/// Both ends' memory, and what is on the line between them.
#[derive(Debug)]
pub struct Compression {
    twice: bool,
    near: BTreeMap<Connection, Header>,
    far: BTreeMap<Connection, Header>,
    line: VecDeque<Coded>,
}

/// The ends of a connection: from where, and to where.
type Connection = (Endpoint, Endpoint);

/// The fields that are compressed. Options go along as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    seq: u32,
    ack: u32,
    window: u16,
    /// The payload that the header stands for.
    len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coded {
    /// The header goes as it is.
    Whole,
    /// The differences from the header before go instead of it.
    Change { seq: u16, ack: u16, window: u16 },
}

impl Compression {
    /// Both ends, which know no connection yet.
    pub fn new(twice: bool) -> Compression {
        Compression { twice, near: BTreeMap::new(), far: BTreeMap::new(), line: VecDeque::new() }
    }

    /// The service of a packet begins: the bytes that it takes on the line.
    pub(super) fn send(&mut self, packet: &Packet) -> Bytes {
        let Some((connection, header)) = compressible(packet) else { return packet.len() };
        let before = self.near.insert(connection, header);
        let (coded, len) = match before.and_then(|before| header.since(&before)) {
            Some(coded @ Coded::Change { seq, ack, window }) => {
                let in_order = (u32::from(seq), ack, window) == (header.len, 0, 0);
                let fields = if in_order { 0 } else { [seq, ack, window].map(field_len).iter().sum() };
                (coded, LEAST_BYTES + fields + options_len(packet))
            }
            _ => (Coded::Whole, packet.len),
        };
        self.line.push_back(coded);
        Bytes::new(u64::from(len))
    }

    /// The packet whose service began last was lost.
    pub(super) fn lost(&mut self, packet: &Packet) {
        if compressible(packet).is_some() {
            self.line.pop_back();
        }
    }

    /// The first packet on the line arrives: whether the far end can make out what it was.
    pub(super) fn restores(&mut self, packet: &Packet) -> bool {
        let Some((connection, header)) = compressible(packet) else { return true };
        let coded = self.line.pop_front().expect("every packet on the line was coded");
        if let Coded::Change { .. } = coded {
            let Some(known) = self.far.get(&connection) else { return false };
            let guesses = if self.twice { 1 + GUESSES_MAX } else { 1 };
            // The checksum is as good as a look at the header itself.
            let tried = std::iter::successors(Some(known.after(coded)), |guess| Some(guess.after(coded)));
            if !tried.take(guesses).any(|guess| guess == header) {
                return false;
            }
        }
        self.far.insert(connection, header);
        true
    }
}

impl Header {
    /// The differences from `before`, if they can be said in a few bytes. RFC 1144 s3.2.3: not if it went back, and not if
    /// nothing changed, because then it is sent again.
    fn since(&self, before: &Header) -> Option<Coded> {
        let seq = u16::try_from(self.seq.wrapping_sub(before.seq)).ok()?;
        let ack = u16::try_from(self.ack.wrapping_sub(before.ack)).ok()?;
        let window = self.window.wrapping_sub(before.window);
        let says_something = (seq, ack, window) != (0, 0, 0) && self.len == before.len;
        says_something.then_some(Coded::Change { seq, ack, window })
    }

    fn after(self, coded: Coded) -> Header {
        let Coded::Change { seq, ack, window } = coded else { return self };
        Header {
            seq: self.seq.wrapping_add(u32::from(seq)),
            ack: self.ack.wrapping_add(u32::from(ack)),
            window: self.window.wrapping_add(window),
            len: self.len,
        }
    }
}

/// RFC 1144 s3.2.2: one byte for 1 to 255, or a zero and two bytes.
fn field_len(change: u16) -> u32 {
    match change {
        0 => 0,
        1..=255 => 1,
        _ => 3,
    }
}

fn compressible(packet: &Packet) -> Option<(Connection, Header)> {
    let Packet { class: Class::Header, body: Body::Tcp(segment), .. } = packet else { return None };
    let header = Header { seq: segment.seq, ack: segment.ack, window: segment.window, len: segment.len };
    segment.flags.is_plain().then_some(((packet.src, packet.dst), header))
}

fn options_len(packet: &Packet) -> u32 {
    match &packet.body {
        Body::Tcp(segment) => segment.options.wire_len(),
        Body::Opaque => 0,
    }
}

#[cfg(test)]
mod tests;
