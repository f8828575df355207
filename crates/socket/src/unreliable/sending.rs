//! The sending end of frames: what waits, what has left, and what became of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};

use super::{EACH, Fate, Occupancy, Refused, Ticket, longest};
use crate::frame;
use crate::ranges::Ranges;

/// What is known of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    /// The time that a part takes to come at least, and that it takes as long as queues are as they are.
    pub(crate) trip: Duration,
    pub(crate) trip_now: Duration,
    /// The rate at which frames can leave.
    pub(crate) rate: Option<Rate>,
}

/// A part of a frame: its places `start..end` of `total`. A frame without bytes has one place, in which there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) total: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A frame of which something waits, or of which it is not known what became.
#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
    total: u64,
    flow: u64,
    /// Its place in the order in which frames leave: its number, or that of the one that it replaced.
    place: u64,
    deadline: Time,
    /// The place before which all has left once; those that were lost and leave again; those that have come.
    next: u64,
    lost: Ranges,
    came: Ranges,
    /// It holds memory, because it may leave again.
    is_held: bool,
}

/// Frames that leave in order, and the memory that they hold.
#[derive(Debug, Default)]
struct Flow {
    /// Numbers of those of which something waits, by place.
    queue: BTreeMap<u64, u64>,
    held: u64,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sending {
    frames: BTreeMap<u64, Frame>,
    flows: BTreeMap<u64, Flow>,
    /// Flows of which something waits, in turn.
    turns: VecDeque<u64>,
    /// When frames expire that hold memory.
    deadlines: BTreeSet<(Time, u64)>,
    next: u64,
    held: u64,
    limit: u64,
    most: u64,
    now: Time,
    path: Path,
    fates: VecDeque<(Ticket, Fate)>,
}

impl Frame {
    fn places(&self) -> u64 {
        self.total.max(1)
    }

    fn waits(&self) -> bool {
        self.next < self.places() || !self.lost.is_empty()
    }

    fn waiting_bytes(&self) -> u64 {
        let lost: u64 = self.lost.iter().map(|(start, end)| end - start).sum();
        (self.total.saturating_sub(self.next) + lost).min(self.total)
    }
}

impl Sending {
    pub(super) fn new(limit: u64, most: u64) -> Sending {
        Sending {
            frames: BTreeMap::new(),
            flows: BTreeMap::new(),
            turns: VecDeque::new(),
            deadlines: BTreeSet::new(),
            next: 0,
            held: 0,
            limit,
            most: most.min(longest(limit)),
            now: Time::ZERO,
            path: Path::default(),
            fates: VecDeque::new(),
        }
    }

    /// Tells the time, and what is known of the path. What is too late by now is given up.
    pub(crate) fn set_time(&mut self, now: Time, path: Path) {
        (self.now, self.path) = (now, path);
        while let Some((deadline, number)) = self.deadlines.first().copied().filter(|first| self.is_late(first.0)) {
            self.deadlines.remove(&(deadline, number));
            let frame = self.frames.get_mut(&number).expect("a frame with a deadline is held");
            let (has_left, waits) = (frame.next >= frame.places(), frame.waits());
            if waits {
                self.end(number, Some(if has_left { Fate::Lost } else { Fate::Expired }));
            } else {
                // What is under way may come in time, or not: it will be told.
                self.let_go(number);
            }
        }
    }

    fn is_late(&self, deadline: Time) -> bool {
        deadline < self.now + self.path.trip
    }

    /// The time at which something is given up.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let (deadline, _) = self.deadlines.first()?;
        // One nanosecond after the last at which it is in time.
        let last = deadline.as_nanos().saturating_sub(self.path.trip.as_nanos());
        Some(Time::from_nanos(last.saturating_add(1)).max(self.now))
    }

    /// Takes a frame of a flow, or refuses it whole.
    pub(crate) fn send(&mut self, flow: u64, bytes: &[u8], deadline: Time) -> Result<Ticket, Refused> {
        let place = self.next;
        self.put(flow, bytes, deadline, place)
    }

    fn put(&mut self, flow: u64, bytes: &[u8], deadline: Time, place: u64) -> Result<Ticket, Refused> {
        let total = bytes.len() as u64;
        if total > self.most || self.most == 0 {
            return Err(Refused::TooLong { len: bytes.len(), most: self.most as usize });
        }
        // A flow has no more than what is free, so that others find room (Choudhury and Hahne's dynamic threshold).
        let held = total + EACH;
        let mine = self.flows.get(&flow).map_or(0, |flow| flow.held);
        if mine + held > self.limit.saturating_sub(self.held) {
            return Err(Refused::Full);
        }
        let number = self.next;
        self.next += 1;
        let (lost, came) = (Ranges::default(), Ranges::default());
        let frame = Frame { bytes: bytes.to_vec(), total, flow, place, deadline, next: 0, lost, came, is_held: true };
        self.frames.insert(number, frame);
        self.held += held;
        self.flows.entry(flow).or_default().held += held;
        self.deadlines.insert((deadline, number));
        self.queue(number);
        Ok(Ticket(number))
    }

    /// Takes back what waits of a frame. Returns false if all of it has left; then it does not leave again.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> bool {
        let Some(frame) = self.frames.get(&ticket.0) else { return false };
        if frame.waits() {
            self.end(ticket.0, None);
            return true;
        }
        self.let_go(ticket.0);
        false
    }

    /// Puts another frame in the place of one of which something waits.
    pub(crate) fn replace(&mut self, ticket: Ticket, bytes: &[u8], deadline: Time) -> Result<Ticket, Refused> {
        let old = self.frames.get(&ticket.0).filter(|frame| frame.waits()).ok_or(Refused::Left)?;
        let (flow, place, freed) = (old.flow, old.place, if old.is_held { old.total + EACH } else { 0 });
        if bytes.len() as u64 > self.most {
            return Err(Refused::TooLong { len: bytes.len(), most: self.most as usize });
        }
        let mine = self.flows.get(&flow).map_or(0, |flow| flow.held) - freed;
        if mine + bytes.len() as u64 + EACH > self.limit.saturating_sub(self.held - freed) {
            return Err(Refused::Full);
        }
        self.end(ticket.0, None);
        self.put(flow, bytes, deadline, place)
    }

    /// What waits.
    pub(crate) fn occupancy(&self) -> Occupancy {
        let waiting = self.flows.values().flat_map(|flow| flow.queue.values());
        waiting.fold(Occupancy::default(), |sum, number| Occupancy {
            frames: sum.frames + 1,
            bytes: sum.bytes + self.frames[number].waiting_bytes(),
        })
    }

    /// What became of the next frame of which that is known by now.
    pub(super) fn fate(&mut self) -> Option<(Ticket, Fate)> {
        self.fates.pop_front()
    }

    /// Returns true if something is to leave.
    pub(crate) fn has_something(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Writes parts of the flow whose turn it is, and of others if there is room, up to `room` bytes in all.
    /// A datagram that `has_data` gets no part of what fits into one of its own.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>, room: usize, has_data: bool, mut note: impl FnMut(Part)) {
        let before = out.len();
        let first = self.turns.front().copied();
        while let Some(flow) = self.turns.front().copied() {
            self.skip_hopeless(flow);
            let queue = &self.flows[&flow].queue;
            let (place, number) = queue.first_key_value().map(|(place, number)| (*place, *number)).expect("it waits");
            let frame = self.frames.get_mut(&number).expect("what waits is held");
            let (start, end) = frame.lost.first().unwrap_or((frame.next, frame.places()));
            let header = frame::part_header_len(number, frame.total, start);
            let Some(len) = room.checked_sub(out.len() + header).filter(|len| *len > 0) else { break };
            // What fits into a datagram is not cut to fill the end of another: it would be lost twice as often.
            let is_cut = end - start > len as u64;
            if is_cut && (has_data || out.len() > before) && end - start <= (room - header) as u64 {
                break;
            }
            let end = end.min(start + len as u64);
            let bytes = &frame.bytes[start as usize..end.min(frame.total) as usize];
            frame::part_header(number, frame.total, start, bytes.len(), out);
            out.extend_from_slice(bytes);
            if frame.lost.is_empty() {
                frame.next = end;
                if end == frame.places() {
                    self.fates.push_back((Ticket(number), Fate::Sent));
                }
            } else {
                frame.lost.remove(start, end);
            }
            note(Part { number, total: frame.total, start, end });
            if !frame.waits() {
                self.unqueue(flow, place);
            }
        }
        // The next datagram is the next flow's.
        if self.turns.len() > 1 && self.turns.front().copied() == first {
            self.turns.rotate_left(1);
        }
    }

    /// Gives up frames that have not begun to leave and would end too late, as long as newer ones wait behind them: a queue that is
    /// longer than a deadline would else send nothing but the beginnings of frames. One alone is tried, as a window grows by use.
    fn skip_hopeless(&mut self, flow: u64) {
        let Some(rate) = self.path.rate.filter(|rate| rate.get() > 0) else { return };
        while let Some(number) =
            self.flows[&flow].queue.values().next().copied().filter(|_| self.flows[&flow].queue.len() > 1)
        {
            let frame = &self.frames[&number];
            let takes = rate.time_for(Bytes::new(frame.total));
            if frame.next > 0 || frame.deadline >= self.now + self.path.trip_now + takes {
                return;
            }
            self.end(number, Some(Fate::Expired));
        }
    }

    fn queue(&mut self, number: u64) {
        let frame = &self.frames[&number];
        let flow = self.flows.entry(frame.flow).or_default();
        if flow.queue.is_empty() {
            self.turns.push_back(frame.flow);
        }
        flow.queue.insert(frame.place, number);
    }

    fn unqueue(&mut self, flow: u64, place: u64) {
        let Some(state) = self.flows.get_mut(&flow) else { return };
        if state.queue.remove(&place).is_some() && state.queue.is_empty() {
            self.turns.retain(|one| *one != flow);
            if state.held == 0 {
                self.flows.remove(&flow);
            }
        }
    }

    /// A frame does not leave again: its bytes are not needed any more.
    fn let_go(&mut self, number: u64) {
        let Some(frame) = self.frames.get_mut(&number).filter(|frame| frame.is_held) else { return };
        frame.is_held = false;
        frame.bytes = Vec::new();
        self.deadlines.remove(&(frame.deadline, number));
        let held = frame.total + EACH;
        self.held -= held;
        if let Some(flow) = self.flows.get_mut(&frame.flow) {
            flow.held -= held;
            if flow.held == 0 && flow.queue.is_empty() {
                self.flows.remove(&frame.flow);
            }
        }
    }

    /// A frame's end, and what is told of it.
    fn end(&mut self, number: u64, fate: Option<Fate>) {
        let Some(frame) = self.frames.get(&number) else { return };
        let (flow, place, waits) = (frame.flow, frame.place, frame.waits());
        if waits {
            self.unqueue(flow, place);
        }
        self.let_go(number);
        self.frames.remove(&number);
        if let Some(fate) = fate {
            self.fates.push_back((Ticket(number), fate));
        }
    }

    /// Notes that a part has come.
    pub(crate) fn on_delivered(&mut self, part: Part) {
        let Some(frame) = self.frames.get_mut(&part.number) else { return };
        let waited = frame.waits();
        frame.came.insert(part.start, part.end);
        frame.lost.remove(part.start, part.end);
        if frame.came.first() == Some((0, frame.places())) {
            if waited {
                let (flow, place) = (frame.flow, frame.place);
                self.unqueue(flow, place);
            }
            self.end(part.number, Some(Fate::Acknowledged));
        } else if waited && !frame.waits() {
            let (flow, place) = (frame.flow, frame.place);
            self.unqueue(flow, place);
        }
    }

    /// Notes that a part is lost. It leaves again if it can come in time, and else the frame is lost.
    pub(crate) fn on_lost(&mut self, part: Part) {
        if !self.repeat(part) && self.frames.get(&part.number).is_some_and(|frame| misses(frame, part)) {
            self.end(part.number, Some(Fate::Lost));
        }
    }

    /// Has a part leave again that may be lost. Returns false if that is too late.
    pub(crate) fn repeat(&mut self, part: Part) -> bool {
        let is_late = |deadline: Time| deadline < self.now + self.path.trip;
        let Some(frame) = self.frames.get_mut(&part.number) else { return false };
        if !frame.is_held || is_late(frame.deadline) || !misses(frame, part) {
            return false;
        }
        let lost = &mut frame.lost;
        frame.came.gaps(part.start, part.end, |start, end| lost.insert(start, end));
        self.queue(part.number);
        true
    }
}

/// Returns true if not all of a part has come.
fn misses(frame: &Frame, part: Part) -> bool {
    let mut any = false;
    frame.came.gaps(part.start, part.end, |_, _| any = true);
    any
}
