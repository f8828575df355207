//! What leaves of a connection: the circuit's sending end, and what was in each datagram that is under way.

use std::collections::VecDeque;

use headend_datagram::Way;
use headend_engine::cc::Algorithm;
use headend_engine::circuit::in_band::{Losses, Sender};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use crate::streams::{Item, Streams};

/// What the engine counts of a datagram as its headers: those that a segment of TCP has.
const HEADERS: u64 = 40;
/// A datagram that every path takes (RFC 9000 s14), and the longest one on a path of Ethernet, before IP and UDP.
const DATAGRAM_MIN: usize = 1_200;
const ETHERNET: usize = 1_500;
/// Times that a longer datagram is tried.
const TRIALS: u8 = 5;
/// Probe timeouts in a row after which longer datagrams are taken for what is lost (RFC 8899 s4.3).
const SILENT_PROBES: u32 = 3;
/// Datagrams that were taken for lost and whose contents are remembered: as many as the engine remembers.
const LOST_MAX: usize = 256;
/// Numbers between two that are left out: so many at least, and a random number of further ones.
const SKIP_MIN: u64 = 128;
const SKIP_SPREAD: u64 = 1_024;
/// Lists that are kept to be used again.
const POOL: usize = 64;

/// The sending end of a path.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) circuit: u8,
    pub(super) sender: Sender,
    /// Something is to leave that the peer answers.
    pub(super) wants_ping: bool,
    /// The contents of datagrams under way, by number from `first` on; `None` once it is known what became of them.
    records: VecDeque<Option<Record>>,
    first: u64,
    lost: VecDeque<(u64, Record)>,
    pool: Vec<Vec<Item>>,
    /// Bytes of IP and UDP before a datagram.
    outer: usize,
    datagram: usize,
    trials: u8,
    /// The number of the datagram that tries whether longer ones pass.
    trial: Option<u64>,
    silent_probes: u32,
    skip_at: u64,
    random: u64,
}

#[derive(Debug, Default)]
struct Record {
    items: Vec<Item>,
}

impl Outgoing {
    pub(super) fn new(circuit: u8, controller: &Algorithm, way: &Way, random: u64) -> Outgoing {
        let mss = Bytes::new(ETHERNET as u64 - HEADERS);
        let personality = Personality { controller: controller.clone(), mss, ..Personality::linux() };
        let mut random = random | 1;
        Outgoing {
            circuit,
            sender: Sender::new(&personality, 1, Losses::All).with_fates(),
            // The first round trip, and a longer datagram.
            wants_ping: true,
            records: VecDeque::new(),
            first: 0,
            lost: VecDeque::new(),
            pool: Vec::new(),
            outer: if way.to.ip().to_canonical().is_ipv4() { 28 } else { 48 },
            datagram: DATAGRAM_MIN,
            trials: 0,
            trial: None,
            silent_probes: 0,
            skip_at: SKIP_MIN + draw(&mut random) % SKIP_SPREAD,
            random,
        }
    }

    /// Bytes of a full datagram.
    pub(super) fn datagram(&self) -> usize {
        self.datagram
    }

    /// Bytes of a datagram with the headers before it.
    pub(super) fn on_wire(&self, len: usize) -> Bytes {
        Bytes::new((self.outer + len) as u64)
    }

    /// The length of a datagram that tries whether longer ones pass, if one is due.
    pub(super) fn probe_len(&mut self) -> Option<usize> {
        let longest = ETHERNET - self.outer;
        if self.datagram >= longest || self.trials >= TRIALS || self.trial.is_some() {
            return None;
        }
        self.trials += 1;
        self.trial = Some(self.sender.next_number());
        Some(longest)
    }

    /// Leaves a number out now and then, which only a liar acknowledges (RFC 9000 s21.4).
    pub(super) fn maybe_skip(&mut self, now: Time) {
        if self.sender.next_number() >= self.skip_at && self.sender.in_flight() > Bytes::ZERO {
            self.skip_at = self.sender.next_number() + SKIP_MIN + draw(&mut self.random) % SKIP_SPREAD;
            self.sender.skip_number(now);
            self.records.push_back(None);
        }
    }

    pub(super) fn take_items(&mut self) -> Vec<Item> {
        self.pool.pop().unwrap_or_default()
    }

    pub(super) fn give_back(&mut self, mut items: Vec<Item>) {
        if self.pool.len() < POOL {
            items.clear();
            self.pool.push(items);
        }
    }

    pub(super) fn on_sent(&mut self, now: Time, len: usize, items: Vec<Item>) {
        let number = self.sender.on_sent(now, self.on_wire(len));
        debug_assert_eq!(number, self.first + self.records.len() as u64);
        self.records.push_back(Some(Record { items }));
    }

    fn take(&mut self, number: u64) -> Option<Record> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let record = self.records.get_mut(at)?.take();
        while let Some(None) = self.records.front() {
            self.records.pop_front();
            self.first += 1;
        }
        record
    }

    pub(super) fn on_delivered(&mut self, number: u64, streams: &mut Streams) {
        self.silent_probes = 0;
        if self.trial == Some(number) {
            self.trial = None;
            self.datagram = ETHERNET - self.outer;
        }
        let Some(record) = self.take(number) else { return };
        record.items.iter().for_each(|item| streams.on_delivered(*item));
        self.give_back(record.items);
    }

    pub(super) fn on_lost(&mut self, number: u64, streams: &mut Streams) {
        if self.trial == Some(number) {
            self.trial = None;
            self.wants_ping = true;
        }
        let Some(record) = self.take(number) else { return };
        record.items.iter().for_each(|item| streams.on_lost(*item));
        if self.lost.len() == LOST_MAX
            && let Some((_, oldest)) = self.lost.pop_front()
        {
            self.give_back(oldest.items);
        }
        self.lost.push_back((number, record));
    }

    /// What came after all need not leave again.
    pub(super) fn on_late(&mut self, number: u64, streams: &mut Streams) {
        if let Some(at) = self.lost.iter().position(|(lost, _)| *lost == number)
            && let Some((_, record)) = self.lost.remove(at)
        {
            record.items.iter().for_each(|item| streams.on_delivered(*item));
            self.give_back(record.items);
        }
    }

    pub(super) fn on_deadline(&mut self, now: Time) {
        let before = self.sender.counters().probes;
        self.sender.on_deadline(now);
        if self.sender.counters().probes > before {
            self.silent_probes += 1;
            if self.silent_probes >= SILENT_PROBES {
                self.datagram = DATAGRAM_MIN;
            }
        }
    }

    /// Puts what was in the oldest datagram under way among what is to leave again.
    pub(super) fn repeat_oldest(&mut self, streams: &mut Streams) {
        if let Some(record) = self.records.iter().flatten().next() {
            record.items.iter().for_each(|item| streams.repeat(*item));
        }
    }

    /// Everything that is under way.
    pub(super) fn into_items(self) -> impl Iterator<Item = Item> {
        self.records.into_iter().flatten().flat_map(|record| record.items)
    }
}

/// The next of a sequence that nobody outside can tell (xorshift64*).
pub(super) fn draw(state: &mut u64) -> u64 {
    *state |= u64::from(*state == 0);
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}
