//! The two implementations of a trunk that came before decoupling (thesis s3.4.1 and s3.4.2): users' packets inside the
//! segments of a TCP connection between the trunk's ends.
//!
//! As everything here they count bytes and hold none. What the bytes of the stream stand for is said by a [`Manifest`] that
//! the driver keeps for both ends: on a wire it is the packets' own bytes.
//!
//! ```text
//! Sender::new(method, tunnel, connection, tcp)   push(now, class, packet), receive(now, &Segment)
//! poll(now, &mut Manifest) -> Output             Segment(segment) or Wait(time)
//! wire_len(&Segment)                             how long the segment is on the wire: fragments(len, mtu) of it
//! Receiver::new(method, connection)              receive(now, &Segment, &mut Manifest)
//! poll(now) -> Output                            User(packet, left) goes on to where it is for; Segment(acknowledgement)
//! ```

use std::collections::VecDeque;

use super::tunnel::{Ticket, Tunnel};
use super::{ENDLESS, WINDOW_MAX, control_personality};
use crate::packet::Packet;
use crate::tcp::connection::{self, Connection};
use crate::tcp::personality::Personality;
use crate::tcp::segment::Segment;
use crate::time::Time;
use crate::units::Bytes;

/// The way in which users' packets are put into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A process of user level writes each packet, with its length in two bytes before it, into one stream of bytes (s3.4.1).
    /// Each packet that arrives waits for everything before it.
    ByteStream,
    /// A segment of its own carries each packet, with TCP's header before its own (s3.4.2). What arrives goes on at once; what
    /// was lost comes later, out of order.
    Encapsulation,
}

/// The next thing that an end asks its driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A user's packet goes on, as it came; the last of it left the sending end at this time for the first time.
    User(Packet, Time),
    /// A segment leaves, in a packet of [`Sender::wire_len`] bytes, or of its headers alone from the receiving end.
    Segment(Segment),
    /// Nothing is to be done until this time, or until something arrives.
    Wait(Option<Time>),
}

/// The length that a byte stream has before each packet.
const LENGTH: u64 = 2;
/// The segment by which an encapsulating TCP counts its window: a packet of the users' Ethernet.
const FULL: u64 = 1_500;
/// IPv4 header without options (RFC 791).
const IP_HEADER: u32 = 20;

/// The TCP of such a trunk's ends: `base` with buffers that hold nothing back.
pub fn personality(method: Method, base: &Personality) -> Personality {
    match method {
        Method::ByteStream => {
            Personality { send_buffer: ENDLESS, receive_buffer: WINDOW_MAX, window_scaling: true, ..base.clone() }
        }
        Method::Encapsulation => control_personality(base, Bytes::new(FULL)),
    }
}

/// The packets that an IP packet of `len` bytes becomes on links that carry `mtu` at most, by length (RFC 791 s3.2: all but
/// the last have a multiple of 8 bytes behind their header).
///
/// # Panics
/// If `mtu` is below the 68 bytes that every link carries (RFC 791).
pub fn fragments(len: u32, mtu: u32) -> impl Iterator<Item = u32> {
    assert!(mtu >= 68, "every link carries 68 bytes");
    let most = (mtu - IP_HEADER) / 8 * 8;
    let mut left = len.saturating_sub(IP_HEADER);
    let whole = len <= mtu;
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        // What fits without being divided need not be a multiple of anything.
        let piece = if whole || left <= mtu - IP_HEADER { left } else { most };
        left -= piece;
        over = left == 0;
        Some(piece + IP_HEADER)
    })
}

/// A record of what the bytes of a trunk's stream stand for: where each user's packet ends.
#[derive(Debug, Default)]
pub struct Manifest {
    /// Entries in the order in which their packets end.
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    end: u64,
    /// The user's packet; `None` once it has gone on.
    packet: Option<Packet>,
    /// The time at which the packet's last byte left for the first time.
    left: Time,
}

impl Manifest {
    /// The bytes from `from` to `to` leave for the first time.
    fn leave(&mut self, now: Time, from: u64, to: u64) {
        let first = self.entries.partition_point(|entry| entry.end <= from);
        self.entries.range_mut(first..).take_while(|entry| entry.end <= to).for_each(|entry| entry.left = now);
    }

    /// The first packet and when it left, if its end lies at or before `received`.
    fn take_first(&mut self, received: u64) -> Option<(Packet, Time)> {
        let entry = self.entries.front().filter(|entry| entry.end <= received)?;
        let taken = entry.packet.map(|packet| (packet, entry.left));
        self.entries.pop_front();
        taken
    }

    /// The packet that ends at `end` and when it left, once.
    fn take_at(&mut self, end: u64) -> Option<(Packet, Time)> {
        let at = self.entries.binary_search_by_key(&end, |entry| entry.end).ok()?;
        let entry = &mut self.entries[at];
        let taken = entry.packet.take().map(|packet| (packet, entry.left));
        while self.entries.front().is_some_and(|entry| entry.packet.is_none()) {
            self.entries.pop_front();
        }
        taken
    }
}

/// Counters of the sending end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Users' packets put into the stream.
    pub packets: u64,
    /// Bytes of users' packets put into the stream.
    pub bytes: u64,
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    method: Method,
    tunnel: Tunnel,
    connection: Connection,
    tcp: Personality,
    /// The connection is established, and knows what is a segment.
    opened: bool,
    written: u64,
    /// The end of what has left for the first time.
    sent: u64,
    counters: Counters,
}

impl Sender {
    /// The sending end of a trunk whose connection was made with [`personality`] `tcp`.
    pub fn new(method: Method, tunnel: Tunnel, connection: Connection, tcp: Personality) -> Sender {
        let counters = Counters::default();
        Sender { method, tunnel, connection, tcp, opened: false, written: 0, sent: 0, counters }
    }

    /// Offers a user's packet to class `class` of the tunnel queue; `None` if it was dropped.
    pub fn push(&mut self, now: Time, class: usize, packet: Packet) -> Option<Ticket> {
        self.tunnel.push(now, class, packet)
    }

    /// The tunnel queue, to be read.
    pub fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    /// The connection, to be read.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// A segment arrived.
    pub fn receive(&mut self, now: Time, segment: &Segment) {
        self.connection.receive(now, segment);
    }

    /// Says what leaves now, or how long to wait. Packets wait in the tunnel queue: into the stream goes no more than leaves
    /// with the next segment.
    pub fn poll(&mut self, now: Time, manifest: &mut Manifest) -> Output {
        if !self.opened && self.connection.is_established() {
            self.opened = true;
            if self.method == Method::Encapsulation {
                self.connection.keep_records();
            }
        }
        let ahead = if self.method == Method::ByteStream { self.connection.mss().get() } else { 1 };
        while self.opened && self.written - self.sent < ahead {
            let Some(packet) = self.tunnel.pop(now) else { break };
            self.load(packet, manifest);
        }
        match self.connection.poll(now) {
            connection::Output::Send(segment) => {
                if segment.len > 0
                    && let Some(from) = self.connection.offset_of(&segment)
                {
                    let to = from + u64::from(segment.len);
                    if to > self.sent {
                        manifest.leave(now, self.sent, to);
                        self.sent = to;
                    }
                }
                Output::Segment(segment)
            }
            connection::Output::Wait(wake) => Output::Wait(wake),
        }
    }

    fn load(&mut self, packet: Packet, manifest: &mut Manifest) {
        let prefix = if self.method == Method::ByteStream { LENGTH } else { 0 };
        let len = prefix + u64::from(packet.len);
        let taken = self.connection.write(Bytes::new(len));
        assert_eq!(taken.get(), len, "an endless send buffer takes everything");
        self.written += len;
        manifest.entries.push_back(Entry { end: self.written, packet: Some(packet), left: Time::ZERO });
        self.counters.packets += 1;
        self.counters.bytes += u64::from(packet.len);
    }

    /// Bytes that a segment of ours takes on the wire, before it is divided.
    pub fn wire_len(&self, segment: &Segment) -> u32 {
        self.tcp.wire_len(segment)
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    method: Method,
    connection: Connection,
    /// Packets that go on, and when each left.
    due: VecDeque<(Packet, Time)>,
}

impl Receiver {
    /// The receiving end of a trunk.
    pub fn new(method: Method, connection: Connection) -> Receiver {
        Receiver { method, connection, due: VecDeque::new() }
    }

    /// A segment arrived, whole.
    pub fn receive(&mut self, now: Time, segment: &Segment, manifest: &mut Manifest) {
        let from = self.connection.offset_of_peer(segment);
        self.connection.receive(now, segment);
        self.connection.read(Bytes::MAX);
        match self.method {
            Method::ByteStream => {
                let received = self.connection.received().get();
                self.due.extend(std::iter::from_fn(|| manifest.take_first(received)));
            }
            Method::Encapsulation if segment.len > 0 => {
                let packet = from.and_then(|from| manifest.take_at(from + u64::from(segment.len)));
                self.due.extend(packet);
            }
            Method::Encapsulation => {}
        }
    }

    /// Says what leaves now, or how long to wait.
    pub fn poll(&mut self, now: Time) -> Output {
        if let Some((packet, left)) = self.due.pop_front() {
            return Output::User(packet, left);
        }
        match self.connection.poll(now) {
            connection::Output::Send(segment) => Output::Segment(segment),
            connection::Output::Wait(wake) => Output::Wait(wake),
        }
    }
}

#[cfg(test)]
mod tests;
