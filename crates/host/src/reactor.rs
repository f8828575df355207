//! The driver in real time: any [`Node`] against the clock, with the bytes of packets attached.
//!
//! A packet read from a device becomes a packet of the engine, and its bytes stay in a buffer that its `id` names. The
//! engine's deadlines become wake-ups. Between two wake-ups the engine's time does not stand still: each deadline is
//! settled at its own time, in order, however late the machine was, so a late wake-up delays what it delivers and
//! distorts nothing else. A packet from outside arrives when it came to its device, if the kernel has noted that; else when
//! it is read, and how long it may have waited for that is counted as lateness of its delivery.
//!
//! A world in virtual time and this reactor under a clock of its own making do the same, packet by packet.

mod address;
mod buffers;
mod corrupt;
mod inbox;
mod linux;
mod report;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc::Receiver;

use headend_engine::codec::ip;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Ecn, Endpoint, Packet};
use headend_engine::time::{Duration, Time, earlier};

use crate::error::Error;
use crate::offload::OpenChecksum;

pub use address::{Addresses, Attachment, Destination};
use buffers::Buffers;
use corrupt::Corrupter;
use inbox::{Inbox, Waiting};
pub use linux::{Devices, Gate, Stop};
pub use report::{Lateness, Limits, PortCounts, Report, Strain};

/// Packets read from a device before the others have their turn.
const BATCH: usize = 64;
/// The same where it is known when packets came: until all are read that came, time stands still in the node.
const BATCH_NOTED: usize = 1_024;

/// Where it is not known when packets came, the reactor wakes after so long at the latest, though nothing be due, while packets
/// pass: a pause of the machine shows in a wake-up that comes too late, and is charged to the packets that waited unread
/// meanwhile. A pause that falls between two looks is not seen: this is the floor of what the reactor then knows of itself.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The same while none pass, and where it is known when they came, which costs a thousandth of a core.
const LOOK_EVERY_IDLE: Duration = Duration::from_millis(20);
/// Packets whose coming is noted may wait to be read for so long, on a path of four times this delay at least.
const UNREAD_MAX: Duration = Duration::from_micros(250);
/// It is idle so long after the last packet.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// A wait that took no longer than this did not sleep: it found packets that were there before.
const LOOK_COST_MAX: Duration = Duration::from_micros(20);

/// The surroundings of a reactor: a clock, and a device at each of the node's ports that has one.
pub trait Outside {
    /// The time now. It never runs backwards.
    fn now(&mut self) -> Time;

    /// Waits until `until`, or until a device has packets if `packets` are wanted, or until it shall stop; does not
    /// wait if `until` has passed, but looks.
    fn wait(&mut self, until: Option<Time>, packets: bool) -> Result<Woken, Error>;

    /// Reads a packet from the device at `port` into `buffer`; `None` if there is none now.
    fn read(&mut self, port: Port, buffer: &mut [u8]) -> Result<Option<Received>, Error>;

    /// Gives a packet, and its checksum if that is open, to the device at `port`, which may keep it until `flush`. Says what the device
    /// would not take, of this packet and any before.
    fn write(&mut self, port: Port, packet: &[u8], open: Option<OpenChecksum>) -> Result<Refused, Error>;

    /// The last packets written to the device at `port` that it keeps until `flush`.
    fn kept(&self, _port: Port) -> usize {
        0
    }

    /// Sends what the device at `port` has kept; says what it would not take.
    fn flush(&mut self, _port: Port) -> Result<Refused, Error> {
        Ok(Refused::default())
    }

    /// True if somebody has taken the device at `port` down. Asked at each report.
    fn is_down(&mut self, _port: Port) -> Result<bool, Error> {
        Ok(false)
    }

    /// Bytes before each packet that no link counts: of an Ethernet frame, for instance.
    fn header_bytes(&self) -> usize {
        0
    }

    /// Packets that devices have dropped so far because nobody read them in time.
    fn dropped(&mut self) -> Result<u64, Error>;
}

/// A packet that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length, frame included.
    pub len: usize,
    /// The time at which it came to the device, if that is known.
    pub came: Option<Time>,
    /// Its checksum, if its sender has left it open.
    pub open: Option<OpenChecksum>,
}

/// Packets that a device would not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Their number.
    pub packets: u64,
    /// True if that is so because the device is down.
    pub is_down: bool,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The time has come, or there are packets.
    Up,
    /// The time has come, and packets may have come before: nobody looked.
    Blind,
    /// It shall stop.
    Stop,
}

/// Looks at every packet that enters or leaves.
pub trait Tap: Send {
    /// A packet passed `port` at `time`: into the node if `inward`, out of it otherwise.
    fn packet(&mut self, time: Time, port: Port, inward: bool, bytes: &[u8]);
}

/// The last times at which a device had no packet.
#[derive(Clone, Copy, Debug, Default)]
struct Empty {
    /// It was read and had none.
    seen: Time,
    /// A wait lasted until then, which a packet would have ended.
    inferred: Time,
}

/// A packet on its way out of a device.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    len: usize,
    /// The time at which it had to leave, and by how much that may have been too late.
    due: Time,
    unread: Duration,
}

/// A change of the node, carried out between two packets at the engine's time then.
pub type Order<N> = Box<dyn FnOnce(&mut N, Time) + Send>;

/// Runs a node against the clock.
pub struct Reactor<N> {
    node: N,
    /// The places at the node's ports; `None` where there is no device, and packets that leave there are gone.
    attachments: Vec<Option<Attachment>>,
    tap: Option<Box<dyn Tap>>,
    corrupter: Corrupter,
    /// Changes of the node that somebody wants.
    orders: Option<Receiver<Order<N>>>,
    /// Room for a packet whose checksum is completed for the tap.
    shown: Vec<u8>,
    buffers: Buffers,
    /// The engine's time: that of the last call to the node.
    now: Time,
    /// The time at which the node wants to be polled.
    wake: Option<Time>,
    /// The last look at each port that found no packet.
    empty: Vec<Empty>,
    /// Packets that were read and have not entered the node.
    inbox: Inbox,
    /// True if it is known of packets when they came.
    are_noted: bool,
    /// By port, packets that the node has sent and that their device may still keep.
    leaving: Vec<VecDeque<Leaving>>,
    /// The time at which a packet was last read.
    last_read: Option<Time>,
    /// The times at which the last two came, as far as it is known.
    last_came: [Time; 2],
    /// True if the path takes so long that packets may wait to be read.
    may_wait: bool,
    books: report::ReactorBooks,
}

impl<N: Node> Reactor<N> {
    /// A reactor for `node`, with what is attached at each of its ports, by number.
    pub fn new(node: N, attachments: Vec<Option<Attachment>>, limits: Limits) -> Reactor<N> {
        Reactor {
            node,
            buffers: Buffers::new(limits.packet_bytes_max, limits.buffers_max),
            books: report::ReactorBooks::new(attachments.len(), limits),
            empty: vec![Empty::default(); attachments.len()],
            inbox: Inbox::new(attachments.len()),
            are_noted: false,
            leaving: vec![VecDeque::new(); attachments.len()],
            last_read: None,
            last_came: [Time::ZERO; 2],
            may_wait: limits.delay >= UNREAD_MAX * 4,
            attachments,
            tap: None,
            corrupter: Corrupter::default(),
            orders: None,
            shown: Vec::new(),
            now: Time::ZERO,
            wake: Some(Time::ZERO),
        }
    }

    /// Shows every packet that passes to `tap`.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
    }

    /// Takes changes of the node from here, each within 20 ms.
    pub fn orders(&mut self, orders: Receiver<Order<N>>) {
        self.orders = Some(orders);
    }

    /// The node.
    pub fn node(&self) -> &N {
        &self.node
    }

    /// Takes the reactor apart.
    pub fn into_node(self) -> N {
        self.node
    }

    /// Buffers in which packets wait that are inside the node, or that were when their records of discards were last
    /// taken.
    pub fn buffers_held(&self) -> usize {
        self.buffers.held()
    }

    /// Runs until `outside` says stop or `report` breaks. `report` is called every `interval`, and once at the end,
    /// with the node and what was counted, even if the outside fails.
    pub fn run(
        &mut self,
        outside: &mut impl Outside,
        interval: Duration,
        report: &mut dyn FnMut(&mut N, &Report) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let ran = self.run_until_stopped(outside, interval, report);
        if ran.is_err() {
            self.reclaim();
            let summary = self.books.last_report(outside.now(), self.buffers.held());
            // It ends in any case.
            let _ = report(&mut self.node, &summary);
        }
        ran
    }

    fn run_until_stopped(
        &mut self,
        outside: &mut impl Outside,
        interval: Duration,
        report: &mut dyn FnMut(&mut N, &Report) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let start = outside.now();
        let mut next_report = start + interval;
        let mut next_look = start + LOOK_EVERY_IDLE;
        self.empty.fill(Empty { seen: start, inferred: start });
        loop {
            let until = earlier(self.wake, Some(next_report.min(next_look)));
            let before = outside.now();
            let packets_wait = self.lets_packets_wait(before);
            let until = if packets_wait { earlier(until, Some(before + UNREAD_MAX)) } else { until };
            let watches = !packets_wait && self.has_room();
            let woken = outside.wait(until, watches)?;
            let now = outside.now();
            // What was due before it all began is not late yet.
            let late = until.filter(|&due| due <= now).map(|due| now.since(due.max(start)));
            if let Some(late) = late {
                self.books.woke(late);
            }
            if watches && woken == Woken::Up && now.since(before) > LOOK_COST_MAX {
                self.was_asleep(before, now, late.unwrap_or_default());
            }
            let is_idle = self.last_read.is_none_or(|last| now.since(last) > IDLE_AFTER);
            next_look = now + if is_idle || self.are_noted { LOOK_EVERY_IDLE } else { LOOK_EVERY };
            if !self.are_noted {
                // What is due before now leaves first; at this very instant, arrivals come before anything else.
                self.advance_before(now, outside)?;
                self.flush(outside)?;
            }
            if woken != Woken::Stop {
                self.read_all(now, outside)?;
            }
            let now = outside.now();
            let until = if self.has_room() { self.inbox.complete_until(now) } else { now };
            while let Some((port, waiting)) = self.inbox.take(until) {
                self.enter(port, waiting, outside)?;
            }
            self.advance_before(until + Duration::from_nanos(1), outside)?;
            self.carry_out_orders(now, outside)?;
            self.flush(outside)?;
            if woken == Woken::Stop || now >= next_report {
                let dropped = outside.dropped()?;
                for index in (0..self.attachments.len()).filter(|&index| self.attachments[index].is_some()) {
                    let port = Port(index as u16);
                    self.books.down(port, outside.is_down(port)?);
                }
                self.reclaim();
                let summary = self.books.report(now, dropped, self.buffers.held());
                if report(&mut self.node, &summary).is_break() || woken == Woken::Stop {
                    return Ok(());
                }
                next_report = next_report.max(now) + interval;
            }
        }
    }

    /// True if packets come so often that it is not worth a wake-up to read each, and nothing changes for their waiting: the kernel
    /// notes when they come, and they are not to leave for longer.
    fn lets_packets_wait(&self, now: Time) -> bool {
        let [before, last] = self.last_came;
        self.may_wait
            && self.are_noted
            && last.since(before) < UNREAD_MAX
            && now.since(last) < UNREAD_MAX
            && !self.inbox.is_behind()
    }

    /// Changes the node as somebody wants it to be.
    fn carry_out_orders(&mut self, now: Time, outside: &mut impl Outside) -> Result<(), Error> {
        while let Some(order) = self.orders.as_ref().and_then(|orders| orders.try_recv().ok()) {
            self.now = self.now.max(now);
            order(&mut self.node, self.now);
            self.settle(outside)?;
        }
        Ok(())
    }

    /// Notes that no device had packets while the wait lasted, from `before` on: the first would have ended it. Its end at
    /// `now` came `late`, and packets may have come from then on.
    fn was_asleep(&mut self, before: Time, now: Time, late: Duration) {
        let ended = Time::from_nanos(now.as_nanos().saturating_sub(late.as_nanos())).max(before);
        for empty in &mut self.empty {
            empty.inferred = ended.max(empty.inferred);
        }
    }

    /// Takes a batch of packets from each device. Nobody has looked for packets since `looked`.
    fn read_all(&mut self, looked: Time, outside: &mut impl Outside) -> Result<(), Error> {
        for index in 0..self.attachments.len() {
            if self.attachments[index].is_none() {
                continue;
            }
            let port = Port(index as u16);
            let mut has_more = true;
            for _ in 0..if self.are_noted { BATCH_NOTED } else { BATCH } {
                has_more = self.read(port, looked, outside)?;
                if !has_more {
                    break;
                }
            }
            self.inbox.has_more(port, has_more && self.are_noted);
        }
        Ok(())
    }

    /// Takes a packet from a device; false if there was none.
    fn read(&mut self, port: Port, looked: Time, outside: &mut impl Outside) -> Result<bool, Error> {
        if !self.has_room() {
            self.books.full();
            return Ok(false);
        }
        let (id, buffer) = self.buffers.take();
        let received = outside.read(port, buffer)?;
        let now = outside.now();
        let empty = &mut self.empty[usize::from(port.0)];
        let Some(Received { len, came, open }) = received else {
            *empty = Empty { seen: looked, inferred: now };
            self.buffers.put_back(id);
            return Ok(false);
        };
        self.are_noted = came.is_some();
        let (came, unread) = match came {
            // The clock that the device goes by may have been set.
            Some(came) => (came.clamp(empty.seen, now), Duration::ZERO),
            // It is taken to have come as early as it can have.
            None => (now, now.since(empty.inferred)),
        };
        self.last_read = Some(now);
        self.last_came = [self.last_came[1], came];
        let header = outside.header_bytes();
        let attachment = self.attachments[usize::from(port.0)].as_ref().expect("only devices are read");
        let (is_cut_off, bytes) = (self.buffers.is_cut_off(len), self.buffers.bytes(id));
        // What is shorter than any frame has nothing to carry.
        let is_whole = len > header && !is_cut_off;
        let packet = if is_whole { &bytes[header..len] } else { &[] };
        let to = if is_whole { attachment.destination(packet) } else { None };
        let (class, ecn) = address::marks(packet);
        // The ports tell flows apart for queues that are fair to them; whatever has none is of one flow.
        let (src_port, dst_port) = ip::ports(packet).unwrap_or_default();
        let Some(to) = to else {
            match is_cut_off {
                true => self.books.oversize(),
                false => self.books.stray(port),
            }
            self.buffers.put_back(id);
            return Ok(true);
        };
        let end = |node, port| Endpoint { node, port };
        let packet = Packet {
            id,
            src: end(attachment.node, src_port),
            dst: end(to, dst_port),
            len: (len - header) as u32,
            class,
            ecn,
            body: Body::Opaque,
        };
        self.buffers.fill(id, len, open);
        self.inbox.put(port, Waiting { came, unread, packet });
        Ok(true)
    }

    /// Gives the node a packet, at the time at which it came or, if that is past, now.
    fn enter(&mut self, port: Port, waiting: Waiting, outside: &mut impl Outside) -> Result<(), Error> {
        let Waiting { came, unread, packet } = waiting;
        self.advance_before(came, outside)?;
        self.now = self.now.max(came);
        self.buffers.waited(packet.number(), unread + self.now.since(came));
        self.books.entered(port, packet.len as usize);
        if let Some(tap) = &mut self.tap {
            let (bytes, _, open) = self.buffers.packet(packet.number());
            show(tap.as_mut(), &mut self.shown, (came, port, true), &bytes[outside.header_bytes()..], open);
        }
        self.node.receive(self.now, port, &packet);
        self.settle(outside)
    }

    /// Polls the node at each of its deadlines before `end`.
    fn advance_before(&mut self, end: Time, outside: &mut impl Outside) -> Result<(), Error> {
        while let Some(wake) = self.wake
            && wake < end
        {
            self.now = self.now.max(wake);
            self.settle(outside)?;
        }
        Ok(())
    }

    /// Polls the node until it waits.
    fn settle(&mut self, outside: &mut impl Outside) -> Result<(), Error> {
        loop {
            match self.node.poll(self.now) {
                Step::Send(port, packet) => self.deliver(port, &packet, outside)?,
                Step::Wait(wake) => {
                    self.wake = wake;
                    return Ok(());
                }
            }
        }
    }

    fn deliver(&mut self, port: Port, packet: &Packet, outside: &mut impl Outside) -> Result<(), Error> {
        if packet.ecn == Ecn::Ce {
            // Of two that were one, the other has been marked too, which RFC 3168 lets a queue do.
            self.buffers.mark(packet.number(), outside.header_bytes());
        }
        let (bytes, unread, open) = self.buffers.packet(packet.number());
        let (bytes, open) = match packet.is_corrupted() {
            true => (self.corrupter.corrupt(bytes, open, outside.header_bytes()), None),
            false => (bytes, open),
        };
        let now = outside.now();
        let refused = match self.attachments.get(usize::from(port.0)) {
            Some(Some(_)) => outside.write(port, bytes, open)?,
            _ => Refused { packets: 1, is_down: false },
        };
        let bytes = &bytes[outside.header_bytes()..];
        if let Some(tap) = &mut self.tap {
            show(tap.as_mut(), &mut self.shown, (now, port, false), bytes, open);
        }
        let leaving = Leaving { len: bytes.len(), due: self.now, unread };
        self.books.refused(port, refused);
        self.buffers.done(packet);
        self.leave(port, Some(leaving), now, outside);
        Ok(())
    }

    /// Sends what devices have kept.
    fn flush(&mut self, outside: &mut impl Outside) -> Result<(), Error> {
        for index in 0..self.attachments.len() {
            if self.attachments[index].is_some() {
                let (port, now) = (Port(index as u16), outside.now());
                let refused = outside.flush(port)?;
                self.books.refused(port, refused);
                self.leave(port, None, now, outside);
            }
        }
        Ok(())
    }

    /// Counts packets that left `port` at `now`: all before, and `last`, that the device has not kept.
    fn leave(&mut self, port: Port, last: Option<Leaving>, now: Time, outside: &impl Outside) {
        let Some(leaving) = self.leaving.get_mut(usize::from(port.0)) else {
            // There is no such device: it is gone at once.
            last.into_iter().for_each(|last| self.books.left(port, last.len, last.unread + now.since(last.due)));
            return;
        };
        leaving.extend(last);
        let gone = leaving.len() - outside.kept(port).min(leaving.len());
        for Leaving { len, due, unread } in leaving.drain(..gone) {
            self.books.left(port, len, unread + now.since(due));
        }
    }

    /// True if there is a buffer for another packet; asks for those of discarded packets before it says no.
    fn has_room(&mut self) -> bool {
        if self.buffers.has_spare() {
            return true;
        }
        self.reclaim();
        self.buffers.has_room()
    }

    /// Frees the buffers of packets that will not arrive.
    fn reclaim(&mut self) {
        let discards = self.buffers.discards();
        self.node.take_discards(discards);
        self.buffers.put_back_discarded();
    }
}

/// Shows a packet to `tap` as it is on a wire, with its checksum completed.
fn show(
    tap: &mut dyn Tap,
    room: &mut Vec<u8>,
    (time, port, inward): (Time, Port, bool),
    bytes: &[u8],
    open: Option<OpenChecksum>,
) {
    let Some(open) = open else { return tap.packet(time, port, inward, bytes) };
    room.clear();
    room.extend_from_slice(bytes);
    open.complete(room);
    tap.packet(time, port, inward, room);
}
