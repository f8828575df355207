//! Streams of frames with a deadline, as in chapter 5 of the decoupling thesis: through an unreliable decoupling
//! socket, and beside it as plain datagrams and over TCP.

mod encoder;
mod ledger;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use headend_engine::circuit::unreliable::{Frame, Refused, Socket};
use headend_engine::circuit::{self, Receiver};
use headend_engine::node::Port;
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::tcp::connection::{self, Connection};
use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::{Duration, Time, earlier};
use headend_engine::units::Bytes;

use headend_engine::packet::DATAGRAM_HEADERS;
use headend_scenario::Stale;

pub(crate) use encoder::Encoder;
pub(crate) use ledger::Ledger;

use ledger::End;

/// One end of a flow of frames.
#[derive(Debug)]
pub(crate) struct Media {
    pub(crate) at: Endpoint,
    pub(crate) peer: Endpoint,
    pub(crate) out: Port,
    /// The time to look again; `Time::MAX` for no time.
    pub(crate) wake: Time,
    pub(crate) role: Role,
}

/// The part that an end plays.
#[derive(Debug)]
pub(crate) enum Role {
    Source(Box<Source>),
    Sink(Sink),
}

/// The next thing that an end wants.
#[derive(Debug)]
enum Want {
    Packet(Packet),
    Segment(Segment),
    Wait(Option<Time>),
}

impl Media {
    /// Takes a packet that arrived.
    pub(crate) fn receive(&mut self, now: Time, packet: &Packet) {
        match &mut self.role {
            Role::Source(source) => source.receive(now, &packet.body),
            Role::Sink(sink) => sink.receive(now, packet),
        }
        self.wake = now;
    }

    /// The packet that leaves now; `None` if nothing does before `wake`.
    pub(crate) fn poll(&mut self, now: Time, next_id: &mut u64) -> Option<Packet> {
        let want = match &mut self.role {
            Role::Source(source) => source.poll(now, next_id, (self.at, self.peer)),
            Role::Sink(sink) => sink.poll(now),
        };
        match want {
            Want::Packet(packet) => Some(packet),
            Want::Segment(segment) => {
                let (len, class) = self.dress(&segment);
                let id = *next_id;
                *next_id += 1;
                Some(Packet {
                    id,
                    src: self.at,
                    dst: self.peer,
                    len,
                    class,
                    ecn: Ecn::NotEct,
                    body: Body::Tcp(segment),
                })
            }
            Want::Wait(wake) => {
                self.wake = wake.unwrap_or(Time::MAX);
                None
            }
        }
    }

    /// The length of a segment on the wire, and its mark.
    fn dress(&self, segment: &Segment) -> (u32, Class) {
        match &self.role {
            Role::Source(source) => match &source.carriage {
                Carriage::Datagrams(_) => unreachable!("datagrams have no segments"),
                Carriage::Circuit(_, tcp) => (circuit::wire_len(tcp, segment), Class::Header),
                Carriage::Stream(stream) => (stream.tcp.wire_len(segment), Class::Unmarked),
            },
            Role::Sink(sink) => match &sink.answers {
                Answers::Nobody => unreachable!("nobody answers datagrams"),
                // What the receiving end sends is data to the routers: it is not sent less for being dropped.
                Answers::Circuit(_, tcp) => (circuit::wire_len(tcp, segment), Class::User),
                Answers::Stream(_, tcp) => (tcp.wire_len(segment), Class::Unmarked),
            },
        }
    }
}

/// Makes frames and sends them.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) encoder: Encoder,
    pub(crate) carriage: Carriage,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    /// The largest datagram, with its headers.
    pub(crate) datagram: Bytes,
    pub(crate) stale: Stale,
    /// The wait after which a frame is stale of which nothing has left; one that has begun is only after the deadline.
    /// If it were the same time for both, a source that has more to send than it may would begin every frame just
    /// before it is stale, and end none.
    pub(crate) stale_after: Duration,
    pub(crate) deadline: Duration,
    /// The time at which the next frame is made.
    pub(crate) next_frame: Time,
}

/// The means by which frames get across.
#[derive(Debug)]
pub(crate) enum Carriage {
    /// Datagrams, which leave as soon as they are made.
    Datagrams(VecDeque<(u64, Packet)>),
    /// Datagrams through a circuit, with the TCP of its control connection.
    Circuit(Socket, Box<Personality>),
    /// A connection.
    Stream(Stream),
}

/// A connection, and frames that its send buffer has not taken whole.
#[derive(Debug)]
pub(crate) struct Stream {
    connection: Connection,
    tcp: Box<Personality>,
    /// Frames, each with the time it was made at, the bytes that are left, and true if any of it has been written.
    waiting: VecDeque<(u64, Time, Bytes, bool)>,
    written: u64,
    /// The end, in the stream, of what has left.
    sent: u64,
}

impl Stream {
    pub(crate) fn new(connection: Connection, tcp: Personality) -> Stream {
        Stream { connection, tcp: Box::new(tcp), waiting: VecDeque::new(), written: 0, sent: 0 }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Bytes that have not left, in the send buffer or before it.
    fn occupancy(&self) -> Bytes {
        let waiting: Bytes = self.waiting.iter().map(|(_, _, left, _)| *left).sum();
        waiting + Bytes::new(self.written - self.sent)
    }

    /// Writes what there is room for. Nothing is ever refused, so no segment is held back for more to come.
    fn write(&mut self, ledger: &mut Ledger) {
        while let Some((number, _, left, begun)) = self.waiting.front_mut() {
            let piece = (*left).min(self.connection.space());
            if piece == Bytes::ZERO {
                return;
            }
            if !*begun {
                *begun = true;
                ledger.write(*number, self.written + left.get());
            }
            self.written += self.connection.write(piece).get();
            *left -= piece;
            if *left > Bytes::ZERO {
                return;
            }
            self.waiting.pop_front();
        }
    }
}

impl Source {
    fn receive(&mut self, now: Time, body: &Body) {
        let Body::Tcp(segment) = body else { return };
        match &mut self.carriage {
            Carriage::Datagrams(_) => {}
            Carriage::Circuit(socket, _) => socket.receive(now, 0, segment),
            Carriage::Stream(stream) => stream.connection.receive(now, segment),
        }
    }

    fn poll(&mut self, now: Time, next_id: &mut u64, (src, dst): (Endpoint, Endpoint)) -> Want {
        while self.next_frame <= now {
            self.make_frame(self.next_frame, |len| {
                let id = *next_id;
                *next_id += 1;
                let class = Class::Unmarked;
                Packet { id, src, dst, len, class, ecn: Ecn::NotEct, body: Body::Opaque }
            });
            self.next_frame += self.encoder.interval;
        }
        let mut ledger = self.ledger.borrow_mut();
        let wake = match &mut self.carriage {
            Carriage::Datagrams(waiting) => {
                if let Some((number, packet)) = waiting.pop_front() {
                    ledger.leaves(now, number, packet.id);
                    return Want::Packet(packet);
                }
                None
            }
            Carriage::Circuit(socket, _) => {
                // The first of a class: whose packet leaves next, for there is one class.
                let number = socket.waiting().next().map(|waiting| waiting.frame.number);
                match socket.poll(now) {
                    circuit::Output::User(packet) => {
                        let number = number.expect("what leaves has waited");
                        ledger.leaves(now, number, packet.id);
                        return Want::Packet(packet);
                    }
                    circuit::Output::Control(_, segment) => return Want::Segment(segment),
                    circuit::Output::Wait(wake) => wake,
                }
            }
            Carriage::Stream(stream) => {
                stream.write(&mut ledger);
                match stream.connection.poll(now) {
                    connection::Output::Send(segment) => {
                        if segment.len > 0 {
                            let from = stream.connection.offset_of(&segment).expect("it has sent this");
                            let to = from + u64::from(segment.len);
                            ledger.leave(now, from, to);
                            stream.sent = stream.sent.max(to);
                        }
                        return Want::Segment(segment);
                    }
                    connection::Output::Wait(wake) => wake,
                }
            }
        };
        Want::Wait(earlier(wake, Some(self.next_frame)))
    }

    /// The application at work: it reads what waits, drops what is stale, and hands over a new frame.
    fn make_frame(&mut self, now: Time, mut packet: impl FnMut(u32) -> Packet) {
        let mut ledger = self.ledger.borrow_mut();
        match &self.carriage {
            Carriage::Datagrams(_) => {}
            Carriage::Circuit(socket, _) => self.encoder.read_occupancy(now, socket.occupancy().1),
            Carriage::Stream(stream) => self.encoder.read_occupancy(now, stream.occupancy()),
        }
        let bytes = self.encoder.frame(ledger.captured());
        let number = ledger.capture(now, bytes);
        let stale =
            |captured: Time, begun: bool| now.since(captured) > if begun { self.deadline } else { self.stale_after };
        if let Carriage::Stream(stream) = &mut self.carriage {
            if self.stale != Stale::Keep {
                // Only what has not begun: the rest of a frame that has is part of the stream.
                stream.waiting.retain(|(old, captured, _, begun)| {
                    let keep = *begun || !stale(*captured, false);
                    if !keep {
                        ledger.drop_at_source(*old, End::Withdrawn);
                    }
                    keep
                });
            }
            stream.waiting.push_back((number, now, bytes, false));
            return;
        }
        let payload = self.datagram.get() - DATAGRAM_HEADERS;
        let parts = bytes.get().div_ceil(payload);
        ledger.divide(number, parts);
        let lens = (0..parts).map(|part| (bytes.get() - part * payload).min(payload) + DATAGRAM_HEADERS);
        let packets: Vec<Packet> = lens.map(|len| packet(len as u32)).collect();
        let socket = match &mut self.carriage {
            Carriage::Datagrams(waiting) => {
                waiting.extend(packets.into_iter().map(|packet| (number, packet)));
                return;
            }
            Carriage::Circuit(socket, _) => socket,
            Carriage::Stream(_) => unreachable!("its frame is written"),
        };
        let frame = Frame { number, captured: now, class: 0 };
        let mut old: Vec<u64> = match self.stale {
            Stale::Keep => Vec::new(),
            _ => {
                let stale = socket.waiting().filter(|waiting| stale(waiting.frame.captured, waiting.left > 0));
                stale.map(|waiting| waiting.frame.number).collect()
            }
        };
        let place = if self.stale == Stale::Replace && !old.is_empty() { Some(old.remove(0)) } else { None };
        for number in old {
            socket.withdraw(now, number);
            ledger.drop_at_source(number, End::Withdrawn);
        }
        let taken = match place {
            Some(place) => {
                socket.replace(now, place, frame, &packets).map(|_| ledger.drop_at_source(place, End::Replaced))
            }
            None => socket.send(now, frame, &packets),
        };
        match taken {
            Ok(()) => {}
            Err(Refused::Full) => {
                ledger.drop_at_source(number, End::Skipped);
                if let Some(stale) = place {
                    socket.withdraw(now, stale);
                    ledger.drop_at_source(stale, End::Withdrawn);
                }
            }
            Err(Refused::Left) => unreachable!("what is stale waits"),
        }
    }
}

/// Receives frames.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) answers: Answers,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    /// Packets that arrived, those of a control connection included; `bytes` are theirs.
    pub(crate) packets: u64,
    pub(crate) bytes: Bytes,
}

/// The party that answers the source.
#[derive(Debug)]
pub(crate) enum Answers {
    Nobody,
    Circuit(Receiver, Box<Personality>),
    Stream(Box<Connection>, Box<Personality>),
}

impl Sink {
    fn receive(&mut self, now: Time, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.len();
        let Body::Tcp(segment) = &packet.body else {
            self.ledger.borrow_mut().arrives(now, packet.number());
            return;
        };
        match &mut self.answers {
            Answers::Nobody => {}
            Answers::Circuit(receiver, _) => receiver.receive(now, 0, segment),
            Answers::Stream(connection, _) => {
                connection.receive_with(now, segment, packet.ecn);
                connection.read(Bytes::MAX);
                self.ledger.borrow_mut().read_to(now, connection.received().get());
            }
        }
    }

    fn poll(&mut self, now: Time) -> Want {
        match &mut self.answers {
            Answers::Nobody => Want::Wait(None),
            Answers::Circuit(receiver, _) => match receiver.poll(now) {
                circuit::Output::Control(_, segment) => Want::Segment(segment),
                circuit::Output::Wait(wake) => Want::Wait(wake),
                circuit::Output::User(_) => unreachable!("the receiving end has no users' packets"),
            },
            Answers::Stream(connection, _) => match connection.poll(now) {
                connection::Output::Send(segment) => Want::Segment(segment),
                connection::Output::Wait(wake) => Want::Wait(wake),
            },
        }
    }
}
