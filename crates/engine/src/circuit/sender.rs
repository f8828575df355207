//! The sending end of a circuit (thesis s2.2.5): who may send the next packet, and when a header follows.

use super::fair::Shrinking;
use super::gmb::Bucket;
use super::tunnel::{Ticket, Tunnel};
use super::{ENDLESS, Output};
use crate::packet::{Class, Packet};
use crate::tcp::connection::{self, Connection};
use crate::tcp::personality::Personality;
use crate::tcp::segment::Segment;
use crate::time::{Time, earlier};
use crate::units::{Bytes, Rate};

/// Counters of what a circuit has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Users' packets sent under control.
    pub controlled: u64,
    /// Bytes of users' packets sent under control.
    pub controlled_bytes: u64,
    /// Users' packets sent at the guaranteed rate.
    pub guaranteed: u64,
    /// Bytes of users' packets sent at the guaranteed rate.
    pub guaranteed_bytes: u64,
    /// Header packets, those sent again included and copies not.
    pub headers: u64,
    /// Copies of header packets.
    pub copies: u64,
    /// Bytes of acknowledgements that were charged as data.
    pub charged_bytes: u64,
}

/// The sending end of a circuit: a tunnel queue, and those who take packets from it.
///
/// Each control TCP spends up to a VMSS of data for each segment that it may send, and then sends the segment's header:
/// data trigger headers, and never the other way round. A packet is sent whole, so the last one may take more than is left;
/// that is then missing next time. A header that was lost is sent again like any other, with new data before it.
#[derive(Debug)]
pub struct Sender {
    tunnel: Tunnel,
    controls: Vec<Control>,
    /// The control TCP whose turn it is: the one that has begun a VMSS ends it.
    turn: usize,
    vmss: Bytes,
    /// The longest user's packet that ever came.
    longest: Bytes,
    /// A packet longer than a VMSS waits for credit for all of it.
    awaits_whole_credit: bool,
    guaranteed: Option<Bucket>,
    /// Packets wait in somebody's queue before the tunnel queue.
    backlogged: bool,
    /// The control TCP that is charged next for an acknowledgement.
    charged: usize,
    /// The number of copies that follow each header.
    copies: u32,
    /// The header that left last, and how many of its copies are still to follow.
    copying: Option<(usize, Segment, u32)>,
    counters: Counters,
}

#[derive(Debug)]
struct Control {
    connection: Connection,
    /// Bytes of data that no header stands for yet.
    unpaid: Bytes,
    /// The connection wanted to send when it was asked last, and neither a header has left since nor anything arrived. It is
    /// not asked again before: while data come slowly, its timer would expire again and again for a header that is held.
    permitted: bool,
    /// The stream that is never sent has been written.
    opened: bool,
    /// True if something arrived for the connection, or a timer of its receiving half may have expired.
    answers: bool,
    /// The time at which the connection has to be looked at though there is nothing to send.
    answer_at: Option<Time>,
}

impl Sender {
    /// The sending end of a circuit: the ends of its control TCPs that send, made with
    /// [`control_personality`](super::control_personality), and the rate at which packets leave without their permission.
    ///
    /// # Panics
    /// If there is no control TCP, or if `vmss` is zero.
    pub fn new(tunnel: Tunnel, connections: Vec<Connection>, vmss: Bytes, guaranteed: Option<Rate>) -> Sender {
        assert!(!connections.is_empty(), "a circuit has a control TCP");
        assert!(vmss > Bytes::ZERO, "a header stands for data");
        let control = |connection| Control {
            connection,
            unpaid: Bytes::ZERO,
            permitted: false,
            opened: false,
            answers: true,
            answer_at: None,
        };
        Sender {
            tunnel,
            controls: connections.into_iter().map(control).collect(),
            turn: 0,
            vmss,
            longest: Bytes::ZERO,
            awaits_whole_credit: false,
            guaranteed: guaranteed.map(Bucket::new),
            backlogged: false,
            charged: 0,
            copies: 0,
            copying: None,
            counters: Counters::default(),
        }
    }

    /// Holds a packet that is longer than a VMSS until the window has room for all of it (s2.2.5.2). Not for callers who push a
    /// packet only when the circuit [allows](Sender::allows) one, whatever its length: it is to leave then.
    pub fn with_whole_credit(self) -> Sender {
        Sender { awaits_whole_credit: true, ..self }
    }

    /// Sends each header so many times more, right behind itself: then it is lost only if all of them are (s4.9). Copies
    /// stand for no data. The other end must know ([`Receiver::with_copies`](super::Receiver::with_copies)).
    ///
    /// # Panics
    /// If there are copies and the control TCPs have no timestamps, by which a copy is told from a header sent again.
    pub fn with_copies(self, copies: u32, personality: &Personality) -> Sender {
        assert!(copies == 0 || personality.timestamps, "a copy is told from a header sent again by its timestamp");
        Sender { copies, ..self }
    }

    /// Offers a user's packet to class `class` of the tunnel queue; `None` if it was dropped.
    pub fn push(&mut self, now: Time, class: usize, packet: Packet) -> Option<Ticket> {
        if self.tunnel.is_empty()
            && !self.backlogged
            && let Some(bucket) = &mut self.guaranteed
        {
            bucket.resume(now);
        }
        self.longest = self.longest.max(packet.len());
        self.tunnel.push(now, class, packet)
    }

    /// Takes back a packet that still waits.
    pub fn withdraw(&mut self, now: Time, ticket: Ticket) -> Option<Packet> {
        self.tunnel.withdraw(now, ticket)
    }

    /// Puts another packet in the place of one that still waits; see [`Tunnel::replace`].
    pub fn replace(&mut self, ticket: Ticket, packet: Packet) -> Result<Packet, Packet> {
        self.longest = self.longest.max(packet.len());
        self.tunnel.replace(ticket, packet)
    }

    /// Puts a packet right behind one that still waits; see [`Tunnel::insert_after`].
    pub fn insert_after(&mut self, ticket: Ticket, packet: Packet) -> Option<Ticket> {
        self.longest = self.longest.max(packet.len());
        self.tunnel.insert_after(ticket, packet)
    }

    /// The tunnel queue, to be read.
    pub fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    /// The control TCPs.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.controls.iter().map(|control| &control.connection)
    }

    /// The windows of all control TCPs together.
    pub fn window(&self) -> Bytes {
        self.connections().map(Connection::window).sum()
    }

    /// The window of all control TCPs together, in packets of a VMSS.
    pub fn window_packets(&self) -> u64 {
        self.window().get() / self.vmss.get()
    }

    /// Bytes of data for each header.
    pub fn vmss(&self) -> Bytes {
        self.vmss
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Data that left under control and for which no header has left yet: less than a VMSS and a packet for each control TCP,
    /// and what was charged.
    pub fn unpaid(&self) -> Bytes {
        self.controls.iter().map(|control| control.unpaid).sum()
    }

    /// Counts a packet that left beside the tunnel queue, an acknowledgement of the reverse circuit, as data (s2.3.2).
    pub fn charge(&mut self, len: Bytes) {
        self.controls[self.charged].unpaid += len;
        self.charged = (self.charged + 1) % self.controls.len();
        self.counters.charged_bytes += len.get();
    }

    /// A segment arrived for control TCP `which`.
    pub fn receive(&mut self, now: Time, which: usize, segment: &Segment) {
        self.act(now, which, |control| {
            control.connection.receive(now, segment);
            control.connection.read(Bytes::MAX);
            control.answers = true;
            control.permitted = false;
        });
    }

    /// Lets a control TCP act, and tells the tunnel queue if it found a loss.
    fn act<T>(&mut self, now: Time, which: usize, act: impl FnOnce(&mut Control) -> T) -> T {
        let window = self.window_packets();
        let control = &mut self.controls[which];
        let before = control.reductions();
        let result = act(control);
        if control.reductions() > before && self.tunnel.is_fair() {
            let controls = self.controls.len() as u64;
            self.tunnel.trunk_shrank(Shrinking { now, window, controls });
        }
        result
    }

    /// Says what leaves now, or how long to wait. Nothing does for whose sake no data are there, or were.
    pub fn poll(&mut self, now: Time) -> Output {
        if let Some((which, segment, left)) = self.copying {
            self.copying = (left > 1).then_some((which, segment, left - 1));
            self.counters.copies += 1;
            return Output::Control(which, segment);
        }
        for (which, control) in self.controls.iter_mut().enumerate() {
            if let Some(segment) = control.answer(now) {
                return Output::Control(which, segment);
            }
        }
        if let Some(packet) = self.poll_guaranteed(now) {
            return Output::User(packet);
        }
        if let Some(output) = self.poll_controlled(now) {
            return output;
        }
        Output::Wait(self.deadline())
    }

    fn poll_guaranteed(&mut self, now: Time) -> Option<Packet> {
        let bucket = self.guaranteed.as_mut()?;
        if self.tunnel.is_empty() || !bucket.allows(now) {
            return None;
        }
        let packet = self.tunnel.pop(now)?;
        bucket.spend(packet.len());
        if self.tunnel.is_empty() && !self.backlogged {
            bucket.drain();
        }
        self.counters.guaranteed += 1;
        self.counters.guaranteed_bytes += u64::from(packet.len);
        Some(mark(packet))
    }

    fn poll_controlled(&mut self, now: Time) -> Option<Output> {
        for _ in 0..self.controls.len() {
            let owes = self.controls[self.turn].unpaid >= self.vmss;
            if (owes || !self.tunnel.is_empty()) && self.may_send(now) && (owes || self.has_credit(now)) {
                let which = self.turn;
                if owes {
                    self.controls[which].permitted = false;
                    // Its timer may have expired while there were no data.
                    let connection::Output::Send(segment) =
                        self.act(now, which, |control| control.connection.poll(now))
                    else {
                        // It has given up meanwhile.
                        continue;
                    };
                    self.controls[which].unpaid -= self.vmss;
                    self.counters.headers += 1;
                    self.copying = (self.copies > 0).then_some((which, segment, self.copies));
                    self.turn = (which + 1) % self.controls.len();
                    return Some(Output::Control(which, segment));
                }
                let packet = self.tunnel.pop(now)?;
                self.controls[which].unpaid += packet.len();
                self.counters.controlled += 1;
                self.counters.controlled_bytes += u64::from(packet.len);
                if self.tunnel.is_empty()
                    && !self.backlogged
                    && let Some(bucket) = &mut self.guaranteed
                {
                    bucket.drain();
                }
                return Some(Output::User(mark(packet)));
            }
            self.turn = (self.turn + 1) % self.controls.len();
        }
        None
    }

    /// True if the control TCP whose turn it is may send. Its timers run only while there is something to send: without, what
    /// is lost is sent again when data trigger it.
    fn may_send(&mut self, now: Time) -> bool {
        if self.controls[self.turn].permitted {
            return true;
        }
        self.act(now, self.turn, |control| {
            control.permitted = control.connection.wants_to_send(now);
            control.permitted
        })
    }

    /// True if the control TCP whose turn it is, which may send, has credit for all of the packet that leaves next. Where
    /// packets are longer than a VMSS it "waits for more credits" (s2.2.5.2): each VMSS of them needs a header, and a router's
    /// buffer is measured for no more data than headers may follow (s2.2.7.2).
    #[inline]
    fn has_credit(&mut self, now: Time) -> bool {
        !self.awaits_whole_credit || self.longest <= self.vmss || self.has_credit_for_first(now)
    }

    #[cold]
    fn has_credit_for_first(&mut self, now: Time) -> bool {
        let Some(len) = self.tunnel.first().map(Packet::len).filter(|len| *len > self.vmss) else { return true };
        let control = &mut self.controls[self.turn];
        let has = control.connection.credit().is_none_or(|credit| control.unpaid + len <= credit);
        if !has {
            // It is asked again, and its timers run meanwhile: those that came due while it had its permission, now.
            control.permitted = false;
            self.act(now, self.turn, |control| control.connection.wants_to_send(now));
        }
        has
    }

    /// True if a packet that is pushed now may leave, for callers that choose the packet only then. To be asked after
    /// [`poll`](Sender::poll) has said to wait, and only by callers that have a packet, because timers of control TCPs run
    /// meanwhile. A circuit with a guaranteed rate takes one at any time, and sends it when that allows.
    pub fn permits(&mut self, now: Time) -> bool {
        self.guaranteed.is_some() || self.permits_control(now)
    }

    fn permits_control(&mut self, now: Time) -> bool {
        for _ in 0..self.controls.len() {
            if self.controls[self.turn].unpaid < self.vmss && self.may_send(now) {
                return true;
            }
            self.turn = (self.turn + 1) % self.controls.len();
        }
        false
    }

    /// The time at which [`permits`](Sender::permits) may say something else, if nothing arrives before.
    pub fn permit_deadline(&self) -> Option<Time> {
        self.connections().fold(None, |wake, connection| earlier(wake, connection.send_deadline()))
    }

    /// Tells the circuit whether packets wait in a queue before it, whose owner pushes one only when it may
    /// [leave](Sender::allows): the guaranteed rate is for those that wait there too.
    pub fn backlog(&mut self, now: Time, waits: bool) {
        if self.backlogged == waits {
            return;
        }
        self.backlogged = waits;
        if let Some(bucket) = &mut self.guaranteed {
            if waits { bucket.resume(now) } else { bucket.drain() }
        }
    }

    /// True if a packet that is pushed now would leave now, by the guaranteed rate or by a control TCP. To be asked when
    /// [`poll`](Sender::poll) has said to wait, the tunnel queue is empty and there is a packet to push.
    pub fn allows(&mut self, now: Time) -> bool {
        self.guaranteed.as_mut().is_some_and(|bucket| bucket.allows(now)) || self.permits_control(now)
    }

    /// The time at which [`allows`](Sender::allows) may say something else, if nothing arrives before.
    pub fn allows_at(&self) -> Option<Time> {
        earlier(self.permit_deadline(), self.guaranteed.as_ref().map(Bucket::next_tick))
    }

    fn deadline(&self) -> Option<Time> {
        let mut wake = None;
        let waits = !self.tunnel.is_empty();
        for control in &self.controls {
            wake = earlier(wake, control.answer_at);
            if waits || control.unpaid >= self.vmss {
                wake = earlier(wake, control.connection.send_deadline());
            }
        }
        let tick = self.guaranteed.as_ref().filter(|_| waits).map(Bucket::next_tick);
        earlier(wake, tick)
    }
}

impl Control {
    /// Times that the connection found a loss.
    fn reductions(&self) -> u64 {
        let counters = self.connection.counters();
        counters.fast_retransmits + counters.timeouts
    }

    /// The next segment that the connection sends without data: its part of the hand-shake, and acknowledgements of what never
    /// comes.
    fn answer(&mut self, now: Time) -> Option<Segment> {
        if !self.answers && self.answer_at.is_none_or(|at| at > now) {
            return None;
        }
        match self.connection.poll_without_data(now) {
            connection::Output::Send(segment) => return Some(segment),
            connection::Output::Wait(wake) => self.answer_at = wake,
        }
        self.answers = false;
        if !self.opened && self.connection.is_established() {
            self.opened = true;
            self.connection.write(ENDLESS);
        }
        None
    }
}

fn mark(packet: Packet) -> Packet {
    Packet { class: Class::User, ..packet }
}
