//! The receiving end of frames: parts are joined, each frame is read once, and what is too much is thrown away.

use std::collections::{BTreeMap, VecDeque};

use headend_engine::time::{Duration, Time};

use super::{EACH, Part, longest};
use crate::ranges::Ranges;
use crate::streams::Budget;

/// Frames that are joined at a time.
const PARTIAL_MAX: usize = 256;
/// The time after which a frame does not become whole any more: longer than anybody waits for a picture.
const PARTIAL_AGE: Duration = Duration::from_secs(10);
/// Runs of numbers of frames that are over. Frames before them are too old to tell.
const OVER_MAX: usize = 512;
/// Runs of a frame's places that have come. An honest peer leaves fewer holes: the longest frame has that many parts about.
const HOLES_MAX: usize = 4_096;
/// What the memory of a frame that is joined, and of each piece of it, is counted as besides the bytes: entries in maps, of which up to
/// half are free, and the least that an allocation takes.
const JOINED: u64 = 640;
const PIECE: u64 = 128;

/// A frame of which something is missing.
#[derive(Debug)]
struct Partial {
    total: u64,
    came: Ranges,
    pieces: BTreeMap<u64, Vec<u8>>,
    held: u64,
    since: Time,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiving {
    partial: BTreeMap<u64, Partial>,
    /// Numbers of frames that have come or were thrown away; all before `floor` are.
    over: Ranges,
    floor: u64,
    /// Whole ones, to be read.
    ready: VecDeque<Vec<u8>>,
    held: u64,
    /// The part of it that whole ones hold.
    held_ready: u64,
    limit: u64,
    budget: Budget,
    /// The application waits for a frame, and there is one.
    is_wanted: bool,
    has_news: bool,
    /// Frames that were thrown away, whole or not, for want of room or because the rest did not come.
    pub(crate) dropped: u64,
}

impl Receiving {
    pub(super) fn new(limit: u64, budget: Budget) -> Receiving {
        Receiving {
            partial: BTreeMap::new(),
            over: Ranges::default(),
            floor: 0,
            ready: VecDeque::new(),
            held: 0,
            held_ready: 0,
            limit,
            budget,
            is_wanted: false,
            has_news: false,
            dropped: 0,
        }
    }

    /// The next frame that is whole.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        let frame = self.pop();
        self.is_wanted |= frame.is_none();
        frame
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.ready.pop_front()?;
        let held = frame.len() as u64 + EACH;
        self.held_ready -= held;
        self.give(held);
        Some(frame)
    }

    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Takes a part that came. An error is a rule that the peer has broken.
    pub(super) fn take(&mut self, now: Time, part: Part, bytes: &[u8]) -> Result<(), &'static str> {
        let Part { number, total, start, end } = part;
        if self.limit == 0 || total > longest(self.limit) {
            return Err("a frame that is longer than was allowed");
        }
        if end > total.max(1) || start >= end {
            return Err("a part that is not in its frame");
        }
        if let Some(partial) = self.partial.get(&number)
            && partial.total != total
        {
            return Err("a frame whose length has changed");
        }
        self.set_time(now);
        if number < self.floor || self.over.contains(number) {
            return Ok(());
        }
        if start == 0 && bytes.len() as u64 == total && !self.partial.contains_key(&number) {
            self.finish(number);
            if self.make_room(total + EACH, number) {
                self.put(bytes.to_vec());
            } else {
                self.dropped += 1;
            }
            return Ok(());
        }
        while self.partial.len() >= PARTIAL_MAX && !self.partial.contains_key(&number) {
            let oldest = self.partial.keys().next().copied().expect("there are many");
            self.give_up(oldest);
        }
        let partial = self.partial.entry(number).or_insert_with(|| Partial {
            total,
            came: Ranges::default(),
            pieces: BTreeMap::new(),
            held: 0,
            since: now,
        });
        let mut gaps = Vec::new();
        partial.came.gaps(start, end, |from, to| gaps.push((from, to)));
        for (from, to) in gaps {
            let is_first = self.partial.get(&number).is_some_and(|partial| partial.pieces.is_empty());
            let held = to - from + PIECE + if is_first { JOINED } else { 0 };
            if !self.make_room(held, number) {
                self.give_up(number);
                return Ok(());
            }
            let partial = self.partial.get_mut(&number).expect("room is made of others");
            partial.held += held;
            partial.came.insert(from, to);
            partial.pieces.insert(from, bytes[(from - start) as usize..(to - start) as usize].to_vec());
            if partial.came.len() > HOLES_MAX {
                return Err("a frame with thousands of holes");
            }
        }
        self.join(number);
        Ok(())
    }

    /// Joins a frame of which all has come.
    fn join(&mut self, number: u64) {
        let Some(partial) = self.partial.get(&number).filter(|one| one.came.first() == Some((0, one.total))) else {
            return;
        };
        let mut whole = Vec::with_capacity(partial.total as usize);
        partial.pieces.values().for_each(|piece| whole.extend_from_slice(piece));
        let (held, total) = (partial.held, partial.total);
        self.partial.remove(&number);
        self.finish(number);
        // The pieces took no less.
        self.give(held - (total + EACH));
        self.put(whole);
    }

    fn put(&mut self, frame: Vec<u8>) {
        self.held_ready += frame.len() as u64 + EACH;
        self.ready.push_back(frame);
        self.has_news |= std::mem::take(&mut self.is_wanted);
    }

    /// Notes that a frame is over.
    fn finish(&mut self, number: u64) {
        if number < self.floor {
            return;
        }
        self.over.insert(number, number + 1);
        if self.over.len() > OVER_MAX
            && let Some((_, end)) = self.over.first()
        {
            self.floor = self.floor.max(end);
            self.over.remove_before(end);
            while let Some(old) = self.partial.keys().next().copied().filter(|old| *old < self.floor) {
                self.give_up(old);
            }
        }
    }

    fn give_up(&mut self, number: u64) {
        let Some(partial) = self.partial.remove(&number) else { return };
        self.give(partial.held);
        self.dropped += 1;
        self.finish(number);
    }

    /// Tells the time. What does not become whole any more is given up.
    pub(crate) fn set_time(&mut self, now: Time) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        let is_old = |partial: &Partial| partial.since + PARTIAL_AGE <= now;
        let old: Vec<u64> = self.partial.iter().filter(|(_, one)| is_old(one)).map(|(number, _)| *number).collect();
        old.into_iter().for_each(|number| self.give_up(number));
    }

    /// The time at which something is given up.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.partial.values().map(|partial| partial.since + PARTIAL_AGE).min()
    }

    /// Takes memory for a part of frame `number`, at the cost of older frames: of the whole ones that nobody has read or of those that
    /// are not whole, whichever hold more. Returns false if there are none.
    fn make_room(&mut self, bytes: u64, number: u64) -> bool {
        loop {
            if self.held + bytes <= self.limit && self.budget.take(bytes) {
                self.held += bytes;
                return true;
            }
            let oldest = self.partial.keys().next().copied().filter(|oldest| *oldest < number);
            match oldest.filter(|_| self.held_ready * 2 < self.held || self.ready.is_empty()) {
                Some(oldest) => self.give_up(oldest),
                None if self.pop().is_some() => self.dropped += 1,
                None => return false,
            }
        }
    }

    fn give(&mut self, bytes: u64) {
        self.held -= bytes;
        self.budget.give(bytes);
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.budget.give(self.held);
    }
}

#[cfg(test)]
impl Receiving {
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn partial_len(&self) -> usize {
        self.partial.len()
    }
}
