//! Users' packets and a peer: how they leave for it, and how those that came from it are counted and acknowledged.

use std::net::SocketAddr;

use headend_engine::circuit::turns::Waiting;
use headend_engine::packet::Class;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::Time;

use super::super::circuit::{Copy, DatagramSender, Held, Incoming, Outgoing, Permission};
use super::super::config::{Carriage, Fallback};
use super::super::session::Session;
use super::super::store::{self, Store};
use super::super::wire::{self, DATA_HEADER, DataHeader, Message, PLACE};
use super::{Arrival, Peer, To};
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
                    *sent = now;
                    search.note_used();
                    if permission == Permission::Again {
                        seal_again(session, way, now, to, outbox);
                        continue;
                    }
                    let (_, packet) = edge.pop().expect("the queue is not empty");
                    let place = to.place(packet.flow, permission);
                    let on_wire = on_wire(&way, packet.len) + place.map_or(0, |_| PLACE as u64);
                    let number = to.left(now, permission, u64::from(packet.len), on_wire);
                    let (bundle, at) = store.find(packet.id);
                    let is_open = bundle.is_open();
                    if let (Some(number), Some(place)) = (number, place) {
                        let mut bytes = Vec::with_capacity(packet.len as usize);
                        bundle.write(at, &mut bytes);
                        to.keep(now, number, place, Copy { bytes, is_open });
                    }
                    let header = DataHeader { circuit: to.terms.circuit, number, is_open, place };
                    seal_packet(session, way, header, packet, store, outbox);
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

    /// Puts a user's packet that came in its place among those of its flow. Returns true if it passes now, before what is
    /// [released](Peer::released); otherwise it waits, or came too late.
    pub(in super::super) fn order(&mut self, now: Time, arrival: &Arrival, packet: &[u8], ecn: u8) -> bool {
        let (Some((place, is_numbered)), Some(Incoming::InBand(from))) = (arrival.place, &mut self.from) else {
            return true;
        };
        let Some(order) = &mut from.order else { return true };
        let is_open = arrival.is_open;
        order.arrive(now, place, is_numbered, packet.len() as u32, || Held { bytes: packet.to_vec(), is_open, ecn })
    }

    /// A user's packet that has waited for earlier ones of its flow, and passes now.
    pub(in super::super) fn released(&mut self) -> Option<Held> {
        self.from.as_mut()?.released()
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
    header: DataHeader,
    packet: Waiting,
    store: &mut Store,
    outbox: &mut Outbox,
) {
    let (bundle, at) = store.find(packet.id);
    let len = wire::SEALED_HEADER + header.wire_len() + packet.len as usize + wire::TAG;
    outbox.push(way, store::ecn_of(bundle.bytes()), len, |out| {
        session.seal(out, |out| {
            header.write(out);
            bundle.write(at, out);
        });
    });
    store.remove(packet.id);
}

/// Puts a user's packet that was lost into the outbox once more.
fn seal_again(session: &mut Session, way: Way, now: Time, to: &mut DatagramSender, outbox: &mut Outbox) {
    let (circuit, around) = (to.terms.circuit, on_wire(&way, 0) + PLACE as u64);
    let Some((number, place, copy)) = to.left_again(now, around) else { return };
    let header = DataHeader { circuit, number: Some(number), is_open: copy.is_open, place: Some(place) };
    let len = wire::SEALED_HEADER + header.wire_len() + copy.bytes.len() + wire::TAG;
    outbox.push(way, store::ecn_of(&copy.bytes), len, |out| {
        session.seal(out, |out| {
            header.write(out);
            out.extend_from_slice(&copy.bytes);
        });
    });
}
