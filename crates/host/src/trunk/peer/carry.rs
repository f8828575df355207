//! Users' packets and a peer: how they leave for it, and how those that came from it are counted and acknowledged.

use std::net::SocketAddr;

use headend_engine::circuit::turns::Waiting;
use headend_engine::packet::Class;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::Time;

use super::super::circuit::{Incoming, Outgoing, Permission};
use super::super::config::{Carriage, Fallback};
use super::super::session::Session;
use super::super::store::{self, Store};
use super::super::wire::{self, DATA_HEADER, Message};
use super::{Peer, To};
use headend_datagram::{Outbox, Way};

/// Datagrams of users' packets that leave in one round at most, before others have their turn.
const DATAGRAMS_A_ROUND: usize = 256;

/// The place where users' packets wait, and from which they leave.
pub(in super::super) enum Hold<'a> {
    /// The kernel has them; these are to go.
    Kernel(&'a mut Vec<Waiting>),
    /// They are here.
    Here(&'a mut Store),
}

impl Peer {
    /// Acknowledges what came. What that takes is charged to the circuit in the other direction.
    pub(super) fn acknowledge(&mut self, now: Time, outbox: &mut Outbox) -> Option<Time> {
        let from = self.from.as_mut()?;
        let (Some(session), Some(way)) = (&mut self.current, self.way) else { return None };
        let (to, sent) = (&mut self.to, &mut self.sent);
        let mut send = |message: Message<'_>| {
            let len = seal(session, way, &message, outbox);
            *sent = now;
            if let To::Circuit(to) = to {
                to.charge(len);
            }
        };
        match from {
            Incoming::Headers(from) => {
                let circuit = from.terms.circuit;
                from.poll(now, &mut |which, segment| send(control(false, circuit, which, segment)))
            }
            Incoming::InBand(from) => {
                let circuit = from.terms.circuit;
                loop {
                    match from.poll(now) {
                        Ok(told) => send(Message::Told { circuit, told }),
                        Err(due) => return due,
                    }
                }
            }
        }
    }

    /// Lets users' packets leave as far as they may now. Nothing more may before the time that it returns.
    pub(in super::super) fn release(&mut self, now: Time, hold: &mut Hold<'_>, outbox: &mut Outbox) -> Option<Time> {
        let (To::Circuit(to), Some(session), Some(way)) = (&mut self.to, &mut self.current, self.way) else {
            if let (Fallback::Direct, Hold::Kernel(leaving)) = (self.habits.fallback, hold)
                && !matches!(self.to, To::Circuit(_))
            {
                while let Some((_, packet)) = self.edge.pop() {
                    self.counters.direct += 1;
                    self.counters.direct_bytes += u64::from(packet.len);
                    leaving.push(packet);
                }
            }
            return None;
        };
        let (edge, sent, search) = (&mut self.edge, &mut self.sent, &mut self.search);
        match (&mut **to, hold) {
            (Outgoing::Headers(to), Hold::Kernel(leaving)) => {
                let circuit = to.terms.circuit;
                to.release(now, edge, leaving, &mut |which, segment| {
                    seal(session, way, &control(true, circuit, which, segment), outbox);
                    *sent = now;
                })
            }
            (Outgoing::InBand(to), Hold::Here(store)) => {
                for _ in 0..DATAGRAMS_A_ROUND {
                    let permission = to.ask(now, !edge.is_empty());
                    if let Permission::Wait(wake) = permission {
                        return wake;
                    }
                    let (_, packet) = edge.pop().expect("the queue is not empty");
                    let on_wire = on_wire(&way, packet.len);
                    let number = to.left(now, permission, u64::from(packet.len), on_wire);
                    seal_packet(session, way, (to.terms.circuit, number), packet, store, outbox);
                    *sent = now;
                    search.note_used();
                }
                Some(now)
            }
            _ => unreachable!("a circuit is of the carriage that its trunk has"),
        }
    }

    /// Returns true if packets of several segments may stay whole.
    pub(in super::super) fn keeps_whole(&mut self) -> bool {
        match (&mut self.to, self.habits.fallback) {
            (To::Circuit(to), _) => match &mut **to {
                Outgoing::Headers(to) => to.keeps_whole(),
                Outgoing::InBand(_) => true,
            },
            (_, Fallback::Direct) => true,
            (_, Fallback::Block) => false,
        }
    }

    /// Notes a user's packet that came. Returns false if it is not to be passed on.
    pub(super) fn take_packet(
        &mut self,
        now: Time,
        (circuit, number): (u32, Option<u64>),
        len: u64,
        outbox: &mut Outbox,
    ) -> bool {
        match &mut self.from {
            Some(Incoming::InBand(from)) if from.terms.circuit == circuit => {
                let is_granted = from.receive(now, number, len);
                self.counters.ungranted += u64::from(!is_granted);
                is_granted && from.terms.carriage == Carriage::Sealed
            }
            _ if self.habits.carriage != Carriage::Sealed => {
                self.counters.refused += 1;
                false
            }
            // Of the circuit before, and still under way. The packet is as good as any, if it left under control.
            _ => {
                self.deny(now, circuit, outbox);
                number.is_some() && self.config.receive.controls_max > 0
            }
        }
    }
}

fn control(is_header: bool, circuit: u32, which: u8, segment: &Segment) -> Message<'static> {
    Message::Control { is_header, circuit, which, segment: *segment }
}

/// Bytes of IP and UDP before a datagram.
fn headers(to: &SocketAddr) -> usize {
    if to.is_ipv4() { 28 } else { 48 }
}

/// Bytes on the wire of a datagram with a user's packet of this length.
pub(super) fn on_wire(way: &Way, len: u32) -> u64 {
    let around = headers(&way.to) + wire::SEALED_HEADER + DATA_HEADER + wire::TAG;
    around as u64 + u64::from(len)
}

/// Puts a message into the outbox, and returns its length on the wire.
pub(super) fn seal(session: &mut Session, way: Way, message: &Message<'_>, outbox: &mut Outbox) -> usize {
    let mut plain = Vec::with_capacity(256);
    message.write(&mut plain);
    let len = wire::SEALED_HEADER + plain.len() + wire::TAG;
    outbox.push(way, mark(message), len, |out| session.seal(out, |out| out.extend_from_slice(&plain)));
    headers(&way.to) + len
}

/// The octet of the outer header that tells routers of circuits what a message is. A header is dropped first. An acknowledgement is data to
/// them, as in the simulator: no less of it is sent for one that is dropped.
fn mark(message: &Message<'_>) -> u8 {
    let class = match message {
        Message::Control { is_header: true, .. } => Class::Header,
        Message::Control { is_header: false, .. } => Class::User,
        _ => Class::Unmarked,
    };
    class.code_point() << 2
}

/// Puts a user's packet into the outbox; it waits no more.
fn seal_packet(
    session: &mut Session,
    way: Way,
    (circuit, number): (u32, Option<u64>),
    packet: Waiting,
    store: &mut Store,
    outbox: &mut Outbox,
) {
    let (bundle, at) = store.find(packet.id);
    let len = wire::SEALED_HEADER + DATA_HEADER + packet.len as usize + wire::TAG;
    let header = wire::data_header(circuit, number, bundle.is_open());
    outbox.push(way, store::ecn_of(bundle.bytes()), len, |out| {
        session.seal(out, |out| {
            out.extend_from_slice(&header);
            bundle.write(at, out);
        });
    });
    store.remove(packet.id);
}
