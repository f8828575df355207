//! The reliable decoupling socket (thesis, chapter 4): a stream of bytes over a path that damages packets.
//!
//! Two TCPs do what one does elsewhere. The *data TCP* carries the application's bytes, orders them, sends lost ones again
//! and heeds its peer's window, and has no window of its own. The *control TCP* of a circuit between the two hosts says when
//! a segment of the data TCP leaves, new or again: each is charged as data, and after each VMSS of them a header goes. Only a
//! lost header slows the circuit down, and a header is small.
//!
//! The thesis puts a tunnel queue between the two (figure 21), into which the data TCP sends as fast as it can. Here that queue
//! may be empty: then the data TCP is asked for a segment when the circuit may send it, not before. So what leaves is what is
//! most wanted then, carries the latest acknowledgement, and is timed from when it leaves.
//!
//! ```text
//! Socket::open(Opening, tcp, ours, theirs, ..)     with a circuit for each direction in which bytes are to go
//! write(len) -> Bytes, close()                     the application sends
//! read(len) -> Bytes, readable()                   and receives
//! occupancy()                                      bytes that it wrote and that have not left yet
//! receive(now, &Segment)                           a segment of the data TCP arrived
//! receive_control(now, Ring, which, &Segment)      one of a control TCP
//! poll(now) -> Output                              Data(segment), Control(ring, which, segment) or Wait(time)
//! ```
//!
//! A driver that has the data TCP among connections of its own puts a [`Gate`] before it, which is all the rest.

use super::tunnel::Tunnel;
use super::{Receiver, Sender, control_personality, wire_len};
use crate::packet::{Body, Class, Ecn, Endpoint, Packet};
use crate::tcp::connection::{self, Connection, State};
use crate::tcp::personality::{Personality, Recovery, RtoPolicy};
use crate::tcp::segment::Segment;
use crate::time::{Duration, Time, earlier};
use crate::units::{Bytes, Capacity};

/// F3 of section 4.5: the timer's clock.
const TICK: Duration = Duration::from_millis(50);
/// The time for which data wait for a circuit that the other end has not opened. A SYN is sent again for three minutes at least
/// (RFC 1122 s4.2.3.5), and that of a control TCP for 221 s: nothing opens the circuit after that.
const CIRCUIT_PATIENCE: Duration = Duration::from_secs(240);

/// The data TCP of a reliable socket whose host has the TCP `base`: selective acknowledgements (F1), the first segment sent
/// again and again (F2), a clock of 50 ms and no back-off (F3), and no congestion control.
pub fn data_personality(base: &Personality) -> Personality {
    let bsd = Personality::bsd_reno_1996();
    Personality {
        sack: true,
        recovery: Recovery::ErrorControl,
        // Never asked: it neither paces nor counts what is delivered.
        controller: bsd.controller,
        // 4.4BSD waits for two ticks at least, whatever they are.
        rto: RtoPolicy { tick: TICK, min: TICK * 2, min_on_variance: false, backoff_max: 1, ..base.rto },
        idle_restart: false,
        ..base.clone()
    }
}

/// A circuit of a socket. The thesis has one control TCP, a Reno with a clock of 500 ms.
#[derive(Clone, Debug)]
pub struct Circuit {
    /// Options of the control TCPs, but for those that [`control_personality`] changes.
    pub tcp: Personality,
    /// The number of control TCPs.
    pub controls: usize,
    /// Bytes of data for each header.
    pub vmss: Bytes,
    /// The number of copies that follow each header, for which the control TCPs must have timestamps.
    pub copies: u32,
    /// Segments of the data TCP that may wait for the circuit: it sends as long as that queue is not full (s4.4). With 0 it is
    /// asked for a segment when that may leave.
    pub queue: u32,
}

/// The way in which the connections of an end begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The connections connect to the other end.
    Connect,
    /// The connections wait for the other end, which connects.
    Listen,
}

impl Opening {
    fn connection(self, personality: &Personality, isn: u32, clock_phase: Duration) -> Connection {
        match self {
            Opening::Connect => Connection::connect(personality, isn, clock_phase),
            Opening::Listen => Connection::listen(personality, isn, clock_phase),
        }
    }
}

impl Circuit {
    /// The options of its control TCPs.
    pub fn personality(&self) -> Personality {
        control_personality(&self.tcp, self.vmss)
    }

    /// One end of each control TCP, with the initial sequence number that `isn` says.
    pub fn connections(
        &self,
        opening: Opening,
        isn: &mut dyn FnMut() -> u32,
        clock_phase: Duration,
    ) -> Vec<Connection> {
        let personality = self.personality();
        (0..self.controls).map(|_| opening.connection(&personality, isn(), clock_phase)).collect()
    }

    /// The circuit's beginning. Where the data TCP is asked for what may leave, little ever waits in its tunnel queue.
    pub fn sender(&self, connections: Vec<Connection>) -> Sender {
        let tunnel = Tunnel::drop_tail(Capacity::Packets(u64::from(self.queue).max(2)));
        Sender::new(tunnel, connections, self.vmss, None).with_copies(self.copies, &self.tcp)
    }

    /// The circuit's end.
    pub fn receiver(&self, connections: Vec<Connection>) -> Receiver {
        let receiver = Receiver::new(connections);
        if self.copies > 0 { receiver.with_copies() } else { receiver }
    }
}

/// The one of the two circuits between the ends of a socket to which a control TCP belongs, as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ring {
    /// The one that carries what this end sends: headers leave, and their acknowledgements arrive.
    Ours,
    /// The one that carries what the other end sends.
    Theirs,
}

/// The next thing that an end of a socket asks its driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A segment of the data TCP leaves. Routers take its packet for data, whatever it is.
    Data(Segment),
    /// A segment of this control TCP leaves, without the data that it stands for.
    Control(Ring, usize, Segment),
    /// Nothing is to be done until this time, or until something arrives or the application acts.
    Wait(Option<Time>),
}

/// The part of an end of a socket between its data TCP and the network: the beginning of a circuit if it sends, the end of one
/// if it receives.
#[derive(Debug)]
pub struct Gate {
    sends: Option<Sender>,
    receives: Option<Receiver>,
    /// Options of the data TCP, for the lengths of its packets.
    data: Personality,
    /// Segments that may wait in the circuit's tunnel queue; 0: the data TCP is asked when one may leave.
    queue: u64,
    /// The time since which data wait for a circuit that the other end has not opened.
    unopened_since: Option<Time>,
}

impl Gate {
    /// The gate of a data TCP with these options. To an end without the beginning of a circuit nothing may be written.
    ///
    /// # Panics
    /// If there is no circuit at all.
    pub fn new(data: &Personality, sends: Option<Sender>, receives: Option<Receiver>) -> Gate {
        assert!(sends.is_some() || receives.is_some(), "a socket sends or receives");
        Gate { sends, receives, data: data.clone(), queue: 0, unopened_since: None }
    }

    /// Lets so many segments wait in the circuit's tunnel queue, as many as [`Circuit::queue`] says.
    pub fn with_queue(self, queue: u32) -> Gate {
        Gate { queue: queue.into(), ..self }
    }

    /// The beginning of the circuit that carries what this end sends, if it does.
    pub fn sends(&self) -> Option<&Sender> {
        self.sends.as_ref()
    }

    /// The end of the circuit that carries what the other end sends, if it does.
    pub fn receives(&self) -> Option<&Receiver> {
        self.receives.as_ref()
    }

    /// A segment of a control TCP arrived.
    pub fn receive(&mut self, now: Time, ring: Ring, which: usize, segment: &Segment) {
        match (ring, &mut self.sends, &mut self.receives) {
            (Ring::Ours, Some(sends), _) => sends.receive(now, which, segment),
            (Ring::Theirs, _, Some(receives)) => receives.receive(now, which, segment),
            _ => {}
        }
    }

    /// Says what leaves now, of the circuits or of the data TCP, or how long to wait.
    pub fn poll(&mut self, now: Time, data: &mut Connection) -> Output {
        let mut wake = None;
        if let Some(receives) = &mut self.receives {
            match receives.poll(now) {
                super::Output::User(_) => unreachable!("the receiving end of a circuit has no users' packets"),
                super::Output::Control(which, segment) => {
                    // Section 2.3.2: what leaves beside the tunnel queue is charged to the circuit in its direction.
                    charge(&mut self.sends, wire_len(&self.data, &segment));
                    return Output::Control(Ring::Theirs, which, segment);
                }
                super::Output::Wait(time) => wake = time,
            }
            if !data.is_peer_closed() && receives.connections().iter().all(|connection| connection.fault().is_some()) {
                // RFC 9293 s3.8.3: past R2 the connection is closed. Only this end may know, because its peer listens for the
                // control TCPs, and never sends what it was to say over them: a reset tells it.
                data.abort();
            }
        }
        loop {
            let mut held = false;
            if let Some(sends) = &mut self.sends {
                match sends.poll(now) {
                    super::Output::User(Packet { body: Body::Tcp(segment), .. }) => return Output::Data(segment),
                    super::Output::User(_) => unreachable!("only segments were put in"),
                    super::Output::Control(which, segment) => return Output::Control(Ring::Ours, which, segment),
                    super::Output::Wait(time) => wake = earlier(wake, time),
                }
                data.set_patience(sends.window().get() / full_len(&self.data, data));
                let queued = sends.tunnel().occupancy().0;
                held = match self.queue {
                    0 => queued > 0 || data.wants_to_send(now) && !sends.permits(now),
                    room => queued >= room,
                };
                if held && (queued == 0 || self.queue > 0) {
                    wake = earlier(wake, sends.permit_deadline());
                    let last_hope = hope(sends, now, &mut self.unopened_since);
                    if last_hope.is_some_and(|until| until <= now) {
                        // Nothing would ever leave again.
                        data.abort();
                    } else {
                        wake = earlier(wake, last_hope);
                    }
                }
            }
            match if held { data.poll_without_data(now) } else { data.poll(now) } {
                connection::Output::Send(segment) => {
                    let len = self.data.wire_len(&segment);
                    match &mut self.sends {
                        Some(sends) if segment.len > 0 || segment.flags.fin => {
                            sends.push(now, 0, packet(segment, len));
                        }
                        sends => {
                            assert!(sends.is_some() || segment.len == 0, "no data leave without a circuit");
                            charge(sends, len);
                            return Output::Data(segment);
                        }
                    }
                }
                connection::Output::Wait(time) => return Output::Wait(earlier(wake, time)),
            }
        }
    }
}

/// The time until which data that wait at `now` may still hope for a circuit of which no control TCP is open; `None` if one is,
/// or its hand-shake is under way, whose own timer ends it. `unopened_since` is kept from one call to the next.
fn hope(sends: &Sender, now: Time, unopened_since: &mut Option<Time>) -> Option<Time> {
    if sends.connections().all(|connection| connection.fault().is_some()) {
        return Some(now);
    }
    // One that listens sends nothing and has no timer: a peer that is gone, or has given up unheard, leaves it as it is.
    let hears_nothing = |connection: &Connection| connection.fault().is_some() || connection.state() == State::Listen;
    if !sends.connections().all(hears_nothing) {
        *unopened_since = None;
        return None;
    }
    Some(*unopened_since.get_or_insert(now) + CIRCUIT_PATIENCE)
}

/// Bytes on the wire of a full segment of `connection`, and one before its size is known.
fn full_len(personality: &Personality, connection: &Connection) -> u64 {
    let len = u32::try_from(connection.mss().get()).unwrap_or(u32::MAX);
    u64::from(personality.wire_len(&Segment { len, ..Segment::default() })).max(1)
}

/// One end of a reliable decoupling socket.
#[derive(Debug)]
pub struct Socket {
    data: Connection,
    gate: Gate,
    written: Bytes,
}

impl Socket {
    /// An end on a host with the TCP `tcp`. `ours` is the circuit for what is written here, `theirs` the one for what is
    /// written at the other end, which has the two the other way round; at least one is needed. `isn` says the initial
    /// sequence numbers.
    pub fn open(
        opening: Opening,
        tcp: &Personality,
        ours: Option<&Circuit>,
        theirs: Option<&Circuit>,
        isn: &mut dyn FnMut() -> u32,
        clock_phase: Duration,
    ) -> Socket {
        let personality = data_personality(tcp);
        let data = opening.connection(&personality, isn(), clock_phase);
        let sends = ours.map(|circuit| circuit.sender(circuit.connections(opening, isn, clock_phase)));
        let receives = theirs.map(|circuit| circuit.receiver(circuit.connections(opening, isn, clock_phase)));
        let gate = Gate::new(&personality, sends, receives).with_queue(ours.map_or(0, |circuit| circuit.queue));
        Socket { data, gate, written: Bytes::ZERO }
    }

    /// Offers `len` bytes; returns how many were taken: none before the connection is established, none without a circuit
    /// for them, and no more than the send buffer has room for.
    pub fn write(&mut self, len: Bytes) -> Bytes {
        if self.gate.sends.is_none() {
            return Bytes::ZERO;
        }
        let taken = self.data.write(len);
        self.written += taken;
        taken
    }

    /// Bytes in order that the application has not read.
    pub fn readable(&self) -> Bytes {
        self.data.readable()
    }

    /// The application reads up to `len` bytes; returns how many there were.
    pub fn read(&mut self, len: Bytes) -> Bytes {
        self.data.read(len)
    }

    /// No more will be written. What was is delivered, and what the other end writes still comes.
    pub fn close(&mut self) {
        self.data.close();
    }

    /// Bytes that were written and have not left yet, not even once.
    pub fn occupancy(&self) -> Bytes {
        let left = self.data.snapshot().map_or(0, |sender| sender.nxt);
        self.written.saturating_sub(Bytes::new(left))
    }

    /// The data TCP, to be read.
    pub fn data(&self) -> &Connection {
        &self.data
    }

    /// The circuits, to be read.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// A segment of the data TCP arrived.
    pub fn receive(&mut self, now: Time, segment: &Segment) {
        self.data.receive(now, segment);
    }

    /// A segment of control TCP `which` arrived. The other end calls the circuit the other way round.
    pub fn receive_control(&mut self, now: Time, ring: Ring, which: usize, segment: &Segment) {
        self.gate.receive(now, ring, which, segment);
    }

    /// Says what leaves now, or how long to wait.
    pub fn poll(&mut self, now: Time) -> Output {
        self.gate.poll(now, &mut self.data)
    }
}

fn charge(sends: &mut Option<Sender>, len: u32) {
    if let Some(sends) = sends {
        sends.charge(Bytes::new(u64::from(len)));
    }
}

/// The driver knows the addresses.
fn packet(segment: Segment, len: u32) -> Packet {
    let nowhere = Endpoint::default();
    Packet { id: 0, src: nowhere, dst: nowhere, len, class: Class::User, ecn: Ecn::NotEct, body: Body::Tcp(segment) }
}

#[cfg(test)]
mod tests;
