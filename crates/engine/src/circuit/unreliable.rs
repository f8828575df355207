//! The unreliable decoupling socket (thesis, chapter 5): datagrams through a circuit that begins and ends at the hosts.
//!
//! An application that streams sends *frames*, each in one datagram or more. A frame that is not whole is worth nothing, so
//! the socket takes a whole frame or none of it. The application reads how much waits, and so knows how fast to encode;
//! what has become too old it takes back, or puts the newest frame in its place. Nothing is sent twice. At the other end a
//! [`Receiver`](super::Receiver) answers the headers, and datagrams go to the application as they come.
//!
//! ```text
//! Socket::new(circuit)                        a circuit with a guaranteed rate has that as the minimum rate
//! send(now, frame, &packets)                  a frame; refused whole if there is no room
//! occupancy(), waiting()                      what waits, and which frames
//! withdraw(now, number)                       takes back what is left of a frame
//! replace(now, number, frame, &packets)       puts another in its place
//! receive(now, which, &Segment), poll(now)    as of the circuit
//! ```

use std::collections::VecDeque;
use std::fmt;

use super::tunnel::Ticket;
use super::{Output, Sender};
use crate::packet::Packet;
use crate::tcp::segment::Segment;
use crate::time::Time;
use crate::units::Bytes;

/// A unit that is sent whole or not at all: a picture, or a stretch of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The frame's number, which no other frame of the socket has.
    pub number: u64,
    /// The time at which it was captured.
    pub captured: Time,
    /// The class of the tunnel queue in which it waits.
    pub class: usize,
}

/// A frame that waits, or what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The frame.
    pub frame: Frame,
    /// Packets of it that have left.
    pub left: u64,
    packets: VecDeque<(Ticket, Packet)>,
}

impl Waiting {
    /// Packets of it that wait.
    pub fn packets(&self) -> u64 {
        self.packets.len() as u64
    }

    /// Bytes of the packets that wait.
    pub fn bytes(&self) -> Bytes {
        self.packets.iter().map(|(_, packet)| packet.len()).sum()
    }
}

/// The reason why a frame was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The tunnel queue has no room for all of it.
    Full,
    /// No packet waits of the frame in whose place it should come.
    Left,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Full => "the tunnel queue has no room for the whole frame: wait, send less, or withdraw a frame",
            Refused::Left => "nothing of the frame to be replaced waits any more: send the new one",
        })
    }
}

impl std::error::Error for Refused {}

/// Counters of frames, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames taken, in whatever way.
    pub taken: u64,
    /// Frames refused because there was no room.
    pub refused: u64,
    /// Frames of which all packets have left.
    pub left: u64,
    /// Frames that were taken back, whole or what was left of them.
    pub withdrawn: u64,
    /// Frames whose place another took.
    pub replaced: u64,
    /// Frames withdrawn or replaced after a packet of them had left: it was sent for nothing.
    pub cut: u64,
}

/// The sending end.
#[derive(Debug)]
pub struct Socket {
    circuit: Sender,
    /// Frames of which packets wait. Those of a class are in the order in which they leave.
    waiting: VecDeque<Waiting>,
    counters: Counters,
}

impl Socket {
    /// A socket over the sending end of a circuit into which nobody else puts packets.
    pub fn new(circuit: Sender) -> Socket {
        Socket { circuit, waiting: VecDeque::new(), counters: Counters::default() }
    }

    /// Takes a frame, or refuses it whole.
    ///
    /// # Errors
    /// If the tunnel queue has no room for all of it, or drops a packet of it early.
    ///
    /// # Panics
    /// If the frame has no packets.
    pub fn send(&mut self, now: Time, frame: Frame, packets: &[Packet]) -> Result<(), Refused> {
        assert!(!packets.is_empty(), "a frame is sent in one packet or more");
        let bytes = packets.iter().map(Packet::len).sum();
        let mut taken = VecDeque::with_capacity(packets.len());
        if self.circuit.tunnel().has_room_for(frame.class, packets.len() as u64, bytes) {
            for packet in packets {
                let Some(ticket) = self.circuit.push(now, frame.class, *packet) else { break };
                taken.push_back((ticket, *packet));
            }
        }
        if taken.len() < packets.len() {
            for (ticket, _) in taken {
                self.circuit.withdraw(now, ticket);
            }
            self.counters.refused += 1;
            return Err(Refused::Full);
        }
        self.counters.taken += 1;
        self.waiting.push_back(Waiting { frame, left: 0, packets: taken });
        Ok(())
    }

    /// Takes back what is left of a frame; `None` if nothing is.
    pub fn withdraw(&mut self, now: Time, number: u64) -> Option<Waiting> {
        let at = self.find(number)?;
        let old = self.waiting.remove(at)?;
        for (ticket, _) in &old.packets {
            self.circuit.withdraw(now, *ticket);
        }
        self.counters.withdrawn += 1;
        self.counters.cut += u64::from(old.left > 0);
        Some(old)
    }

    /// Puts a frame in the place of what is left of another, whose class it takes, and returns that.
    ///
    /// # Errors
    /// If nothing waits of the other, or if the frame has no room in its place.
    ///
    /// # Panics
    /// If the frame has no packets.
    pub fn replace(&mut self, now: Time, number: u64, frame: Frame, packets: &[Packet]) -> Result<Waiting, Refused> {
        assert!(!packets.is_empty(), "a frame is sent in one packet or more");
        let at = self.find(number).ok_or(Refused::Left)?;
        let old = &self.waiting[at];
        let class = old.frame.class;
        if !self.fits_instead(old, packets) {
            self.counters.refused += 1;
            return Err(Refused::Full);
        }
        // First what is too much, so that the rest finds room.
        let mut tickets: VecDeque<Ticket> = old.packets.iter().map(|(ticket, _)| *ticket).collect();
        for ticket in tickets.drain(packets.len().min(tickets.len())..) {
            self.circuit.withdraw(now, ticket);
        }
        let mut placed: VecDeque<(Ticket, Packet)> = VecDeque::with_capacity(packets.len());
        // The places of the old packets are shrunk before any is filled with more than it had.
        let mut exchanges: Vec<(Ticket, Packet, u32)> =
            tickets.iter().zip(packets).zip(&old.packets).map(|((t, p), (_, o))| (*t, *p, o.len)).collect();
        placed.extend(exchanges.iter().map(|(ticket, packet, _)| (*ticket, *packet)));
        exchanges.sort_by_key(|(_, packet, before)| packet.len > *before);
        for (ticket, packet, _) in exchanges {
            let exchanged = self.circuit.replace(ticket, packet);
            assert!(exchanged.is_ok(), "there is room for the whole frame, and what it replaces waits");
        }
        for packet in &packets[placed.len()..] {
            let (behind, _) = placed.back().expect("something of the old frame waits");
            let ticket = self.circuit.insert_after(*behind, *packet).expect("there is room for the whole frame");
            placed.push_back((ticket, *packet));
        }
        let new = Waiting { frame: Frame { class, ..frame }, left: 0, packets: placed };
        let old = std::mem::replace(&mut self.waiting[at], new);
        self.counters.taken += 1;
        self.counters.replaced += 1;
        self.counters.cut += u64::from(old.left > 0);
        Ok(old)
    }

    /// True if `packets` have room once what is left of `old` is gone.
    fn fits_instead(&self, old: &Waiting, packets: &[Packet]) -> bool {
        let bytes: Bytes = packets.iter().map(Packet::len).sum();
        let more = (packets.len() as u64).saturating_sub(old.packets());
        self.circuit.tunnel().has_room_for(old.frame.class, more, bytes.saturating_sub(old.bytes()))
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.frame.number == number)
    }

    /// Frames that wait, or what is left of them; those of a class in the order in which they leave.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// Packets and bytes that wait.
    pub fn occupancy(&self) -> (u64, Bytes) {
        self.circuit.tunnel().occupancy()
    }

    /// Packets and bytes of one class that wait.
    pub fn occupancy_of(&self, class: usize) -> (u64, Bytes) {
        self.circuit.tunnel().occupancy_of(class)
    }

    /// The circuit, to be read.
    pub fn circuit(&self) -> &Sender {
        &self.circuit
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// An acknowledgement arrived for control TCP `which`.
    pub fn receive(&mut self, now: Time, which: usize, segment: &Segment) {
        self.circuit.receive(now, which, segment);
    }

    /// Says what leaves now, or how long to wait.
    pub fn poll(&mut self, now: Time) -> Output {
        let output = self.circuit.poll(now);
        if let Output::User(packet) = &output {
            self.note_departure(packet);
        }
        output
    }

    fn note_departure(&mut self, packet: &Packet) {
        let leaves = |waiting: &Waiting| waiting.packets.front().is_some_and(|(_, front)| front.id == packet.id);
        let at = self.waiting.iter().position(leaves).expect("what leaves is the first packet of a frame that waits");
        let waiting = &mut self.waiting[at];
        waiting.packets.pop_front();
        waiting.left += 1;
        if waiting.packets.is_empty() {
            self.waiting.remove(at);
            self.counters.left += 1;
        }
    }
}

#[cfg(test)]
mod tests;
