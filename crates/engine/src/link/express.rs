//! A link as arithmetic: whoever enters it is told at once when it arrives at the far end.
//!
//! With a constant rate and a queue that drops at its tail, nothing that comes later changes what becomes of a packet, so
//! neither queue nor line hold packets: only times are kept. A [`Graph`](crate::graph::Graph) carries packets over such
//! links with one event a hop. [`Link`](super::Link) does the same packet by packet, and a test holds the one to the other.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::Stats;
use super::loss::Loss;
use crate::packet::{Class, Packet};
use crate::room;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Capacity, Rate};

/// One direction of a link with a constant rate, a drop-tail queue and propagation.
///
/// What every packet touches stands first and together (`repr(C)`), as in a [`Link`](super::Link).
#[derive(Debug)]
#[repr(C)]
pub struct Express {
    /// The instant after the one at which the last service ends: who comes at that very one still waits.
    free_at: Time,
    /// The length served last, and its time: most packets in one direction are equally long.
    last_len: u32,
    is_lossy: bool,
    last_time: Duration,
    propagation: Duration,
    served: u64,
    served_bytes: u64,
    busy: Duration,
    // Beyond the first cache line: what packets touch that have to wait.
    waiting: VecDeque<Waiting>,
    waiting_bytes: Bytes,
    packets_max: u64,
    bytes_max: Bytes,
    /// Time in the queue, summed over all packets served, in nanoseconds.
    waited: u128,
    queued_max: u64,
    queued_bytes_max: Bytes,
    dropped: u64,
    dropped_bytes: u64,
    dropped_user: u64,
    dropped_headers: u64,
    rate: Rate,
    loss: Option<Box<dyn Loss>>,
    lost: u64,
    lost_bytes: u64,
    /// Lost packets whose service had not ended when the last one was lost.
    losses: VecDeque<Passage>,
    books: Books,
}

/// A packet in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The time at which its service starts.
    start: Time,
    len: u32,
}

/// A packet's way through a link up to the end of its service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    pub(crate) entered: Time,
    pub(crate) finish: Time,
    pub(crate) len: u32,
}

/// What was counted when packets entered and has not come about when the books are read.
#[derive(Debug, Default)]
struct Books {
    /// Packets that are not at the far end yet, and their bytes.
    inside: u64,
    inside_bytes: u64,
    /// Those of them whose service has not ended; some of them will be lost then.
    unserved: u64,
    unlost: u64,
    unlost_bytes: u64,
    /// What is to come of service, of sojourns up to its end, and of occupancy.
    busy: Duration,
    sojourn: u128,
    occupancy: u128,
    /// Packets whose service has not begun, and their bytes.
    queued: u64,
    queued_bytes: u64,
}

impl Express {
    /// An idle link at which `buffer` may wait; `None` without propagation, because a packet then leaves at the instant at
    /// which its service ends, and whoever enters at that instant finds the link idle or not as they take turns.
    pub fn new(rate: Rate, buffer: Capacity, loss: Option<Box<dyn Loss>>, propagation: Duration) -> Option<Express> {
        if propagation == Duration::ZERO {
            return None;
        }
        let (packets_max, bytes_max) = buffer.limits();
        Some(Express {
            free_at: Time::ZERO,
            last_len: 0,
            is_lossy: loss.is_some(),
            last_time: Duration::ZERO,
            propagation,
            served: 0,
            served_bytes: 0,
            busy: Duration::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: Bytes::ZERO,
            packets_max,
            bytes_max,
            waited: 0,
            queued_max: 0,
            queued_bytes_max: Bytes::ZERO,
            dropped: 0,
            dropped_bytes: 0,
            dropped_user: 0,
            dropped_headers: 0,
            rate,
            loss,
            lost: 0,
            lost_bytes: 0,
            losses: VecDeque::new(),
            books: Books::default(),
        })
    }

    /// Takes a packet, and says when its service ends; `None` if the queue drops it or the medium loses it.
    #[inline]
    pub(crate) fn enter(&mut self, now: Time, packet: &Packet) -> Option<Time> {
        let mut start = now;
        if self.free_at > now {
            start = Time::from_nanos(self.free_at.as_nanos() - 1);
            if !self.wait(now, start, packet) {
                return None;
            }
        }
        if self.last_len != packet.len {
            self.last_len = packet.len;
            self.last_time = self.rate.time_for(packet.len());
        }
        let finish = start + self.last_time;
        self.free_at = finish + Duration::from_nanos(1);
        self.served += 1;
        self.served_bytes += u64::from(packet.len);
        self.busy += self.last_time;
        if self.is_lossy && self.loses(Passage { entered: now, finish, len: packet.len }) {
            return None;
        }
        Some(finish)
    }

    /// The time from the end of service to the far end.
    #[inline]
    pub(crate) fn propagation(&self) -> Duration {
        self.propagation
    }

    /// Puts a packet into the queue until `start`; false if there is no room for it.
    fn wait(&mut self, now: Time, start: Time, packet: &Packet) -> bool {
        // As in a `Link`, who arrives at the very instant at which a service ends finds the buffer as it was.
        while let Some(first) = self.waiting.front()
            && first.start < now
        {
            self.waiting_bytes -= Bytes::new(u64::from(first.len));
            self.waiting.pop_front();
        }
        let bytes = self.waiting_bytes + packet.len();
        if self.waiting.len() as u64 >= self.packets_max || bytes > self.bytes_max {
            self.dropped += 1;
            self.dropped_bytes += u64::from(packet.len);
            self.dropped_user += u64::from(packet.class == Class::User);
            self.dropped_headers += u64::from(packet.class == Class::Header);
            return false;
        }
        room::for_one_more(&mut self.waiting);
        self.waiting.push_back(Waiting { start, len: packet.len });
        self.waiting_bytes = bytes;
        self.waited += u128::from((start - now).as_nanos());
        self.queued_max = self.queued_max.max(self.waiting.len() as u64);
        self.queued_bytes_max = self.queued_bytes_max.max(bytes);
        true
    }

    /// True if the medium loses a packet at the end of its service. Packets are served in the order in which they entered,
    /// so a model that draws does so in the same order as if it were asked only then.
    #[inline(never)]
    fn loses(&mut self, passage: Passage) -> bool {
        let Passage { entered, finish, len } = passage;
        let loss = self.loss.as_mut().expect("a lossy link has a model of its losses");
        if !loss.strikes(finish, Bytes::new(u64::from(len))) {
            return false;
        }
        self.lost += 1;
        self.lost_bytes += u64::from(len);
        while self.losses.front().is_some_and(|first| first.finish <= entered) {
            self.losses.pop_front();
        }
        room::for_one_more(&mut self.losses);
        self.losses.push_back(passage);
        true
    }

    /// Begins to bring the books up to `now`. Each packet that is inside is to be [noted](Express::note) then.
    pub(crate) fn open_books(&mut self, now: Time) {
        self.books = Books::default();
        for at in 0..self.losses.len() {
            let lost = self.losses[at];
            if lost.finish > now {
                self.note(now, lost);
                self.books.unlost += 1;
                self.books.unlost_bytes += u64::from(lost.len);
            }
        }
    }

    /// Notes that a packet is inside at `now`.
    pub(crate) fn note(&mut self, now: Time, Passage { entered, finish, len }: Passage) {
        let books = &mut self.books;
        let bytes = u64::from(len);
        books.inside += 1;
        books.inside_bytes += bytes;
        if finish <= now {
            return;
        }
        let service = self.rate.time_for(Bytes::new(bytes));
        books.unserved += 1;
        books.sojourn += u128::from((finish - entered).as_nanos());
        books.occupancy += u128::from((finish - now).as_nanos());
        if finish - now > service {
            books.busy += service;
            books.queued += 1;
            books.queued_bytes += bytes;
        } else {
            books.busy += finish - now;
        }
    }

    /// The counters as of when the books were last brought up.
    pub fn stats(&self) -> Stats {
        let Books { inside, inside_bytes, unserved, unlost, unlost_bytes, busy, sojourn, occupancy, .. } = self.books;
        let (lost, lost_bytes) = (self.lost - unlost, self.lost_bytes - unlost_bytes);
        let all = self.waited + u128::from(self.busy.as_nanos());
        Stats {
            arrived: self.served + self.dropped,
            arrived_bytes: self.served_bytes + self.dropped_bytes,
            delivered: self.served - inside - lost,
            delivered_bytes: self.served_bytes - inside_bytes - lost_bytes,
            served: self.served - unserved,
            busy: self.busy - busy,
            sojourn: all - sojourn,
            occupancy: all - occupancy,
            queued_max: self.queued_max,
            queued_bytes_max: self.queued_bytes_max.get(),
            dropped: self.dropped,
            dropped_bytes: self.dropped_bytes,
            lost,
            lost_bytes,
            dropped_user: self.dropped_user,
            dropped_headers: self.dropped_headers,
            inside,
            ..Stats::default()
        }
    }

    /// Packets and bytes waiting, as of when the books were last brought up.
    pub fn backlog(&self) -> (u64, Bytes) {
        (self.books.queued, Bytes::new(self.books.queued_bytes))
    }
}
