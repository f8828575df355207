//! The half of a stream that receives: what came, in order or not, and what of it was read.

use std::collections::VecDeque;

use super::SPARE;
use crate::ranges::Ranges;

/// The receiving half of a stream.
#[derive(Debug)]
pub(super) struct Receiving {
    /// Bytes from `read` on, with holes.
    bytes: VecDeque<u8>,
    /// The place before which all was read.
    read: u64,
    /// Places behind `whole` that have come.
    islands: Ranges,
    /// The place before which all has come.
    whole: u64,
    /// One past the last place that has come.
    highest: u64,
    /// The length of the stream, once it is known.
    end: Option<u64>,
    /// Bytes that the peer may send, as it was told last, and by how much that is ahead of what was read.
    pub(super) told: u64,
    pub(super) window: u64,
    state: State,
    /// The application waits for bytes.
    pub(super) is_wanted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The application reads.
    Open,
    /// The peer has reset the stream, and the application has not heard of it.
    Reset(u64),
    /// The application reads no more; what comes is thrown away, and the peer was told so.
    Stopped(u64),
    /// The application has heard of the reset.
    ResetHeard(u64),
    /// The application knows how it ended.
    Done,
}

/// A peer that does what it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// More than it was allowed.
    TooMuch,
    /// The stream's end changes, or bytes come behind it.
    End,
    /// More holes than anybody has who sends in order.
    Holes,
}

/// Holes in a stream at most: each is some memory.
const HOLES_MAX: usize = 4_096;

/// What there is to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// So many bytes; none, and not the end: later.
    Bytes(usize),
    /// The end.
    End,
    /// The peer has reset it.
    Reset(u64),
}

impl Receiving {
    pub(super) fn new(window: u64) -> Receiving {
        Receiving {
            bytes: VecDeque::new(),
            read: 0,
            islands: Ranges::default(),
            whole: 0,
            highest: 0,
            end: None,
            told: window,
            window,
            state: State::Open,
            is_wanted: false,
        }
    }

    /// Takes bytes that came. Returns by how much the highest place has grown.
    pub(super) fn take(&mut self, offset: u64, bytes: &[u8], is_last: bool) -> Result<u64, Wrong> {
        let end = offset + bytes.len() as u64;
        if end > self.told {
            return Err(Wrong::TooMuch);
        }
        if self.end.is_some_and(|known| end > known || is_last && end != known) || is_last && end < self.highest {
            return Err(Wrong::End);
        }
        if is_last {
            self.end = Some(end);
        }
        let grown = end.saturating_sub(self.highest);
        self.highest += grown;
        if self.state != State::Open {
            self.finish_if_complete();
            return Ok(grown);
        }
        self.put(offset, bytes);
        if self.islands.len() > HOLES_MAX {
            return Err(Wrong::Holes);
        }
        Ok(grown)
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if end <= self.whole {
            return;
        }
        let start = offset.max(self.whole);
        let bytes = &bytes[(start - offset) as usize..];
        let filled = self.read + self.bytes.len() as u64;
        if start == filled {
            self.bytes.extend(bytes);
        } else {
            let to = (end - self.read) as usize;
            if to > self.bytes.len() {
                self.bytes.resize(to, 0);
            }
            let from = (start - self.read) as usize;
            let (front, back) = self.bytes.as_mut_slices();
            let split = front.len().saturating_sub(from).min(bytes.len());
            if split > 0 {
                front[from..from + split].copy_from_slice(&bytes[..split]);
            }
            if split < bytes.len() {
                let at = (from + split) - front.len();
                back[at..at + bytes.len() - split].copy_from_slice(&bytes[split..]);
            }
        }
        if start == self.whole && self.islands.is_empty() {
            self.whole = end;
            return;
        }
        self.islands.insert(start, end);
        if let Some((first, last)) = self.islands.first()
            && first <= self.whole
        {
            self.whole = last;
            self.islands.remove_before(last);
        }
    }

    /// Reads.
    pub(super) fn read(&mut self, to: &mut [u8]) -> Reading {
        match self.state {
            State::Open => {}
            State::Reset(code) | State::ResetHeard(code) => {
                self.state = State::ResetHeard(code);
                return Reading::Reset(code);
            }
            State::Stopped(code) => return Reading::Reset(code),
            State::Done => return Reading::End,
        }
        let len = ((self.whole - self.read) as usize).min(to.len());
        let (front, back) = self.bytes.as_slices();
        let split = front.len().min(len);
        to[..split].copy_from_slice(&front[..split]);
        to[split..len].copy_from_slice(&back[..len - split]);
        self.bytes.drain(..len);
        self.read += len as u64;
        if self.end == Some(self.read) && (len == 0 || to.is_empty()) {
            self.state = State::Done;
            self.bytes = VecDeque::new();
            return Reading::End;
        }
        Reading::Bytes(len)
    }

    /// Returns true if it holds memory for more than it has.
    pub(super) fn is_swollen(&self) -> bool {
        self.bytes.is_empty() && self.bytes.capacity() > SPARE
    }

    /// Gives back the memory that a burst took, if all of it was read.
    pub(super) fn rest(&mut self) {
        if self.bytes.is_empty() {
            self.bytes.shrink_to(SPARE);
        }
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns true if a read would not have to wait.
    pub(super) fn is_readable(&self) -> bool {
        match self.state {
            State::Open => self.whole > self.read || self.end == Some(self.whole),
            _ => true,
        }
    }

    /// Takes the peer's reset at this length. Returns by how much the highest place has grown.
    pub(super) fn reset(&mut self, code: u64, end: u64) -> Result<u64, Wrong> {
        if self.end.is_some_and(|known| known != end) || end < self.highest {
            return Err(Wrong::End);
        }
        if end > self.told {
            return Err(Wrong::TooMuch);
        }
        let grown = end - self.highest;
        self.highest = end;
        // All that was to come has: then it is as if it had ended well.
        let is_complete = self.end == Some(self.whole);
        self.end = Some(end);
        match self.state {
            State::Open if !is_complete => {
                self.state = State::Reset(code);
                self.forget();
            }
            State::Stopped(_) => self.state = State::Done,
            _ => {}
        }
        Ok(grown)
    }

    /// The application reads no more. Returns true if the peer is to be told.
    pub(super) fn stop(&mut self, code: u64) -> bool {
        if self.state != State::Open {
            if let State::Reset(_) = self.state {
                self.state = State::Done;
            }
            return false;
        }
        self.state = State::Stopped(code);
        self.forget();
        self.finish_if_complete();
        self.state != State::Done
    }

    fn finish_if_complete(&mut self) {
        // Nobody looks whether there are holes any more: the end is known, so no more is to be counted.
        if matches!(self.state, State::Stopped(_)) && self.end == Some(self.highest) {
            self.state = State::Done;
        }
    }

    fn forget(&mut self) {
        self.bytes = VecDeque::new();
        self.islands = Ranges::default();
    }

    /// The code with which the application has stopped reading, while the peer may still send.
    pub(super) fn stopped(&self) -> Option<u64> {
        match self.state {
            State::Stopped(code) => Some(code),
            _ => None,
        }
    }

    /// Bytes that count as read, as those do that are thrown away.
    pub(super) fn consumed(&self) -> u64 {
        if self.state == State::Open { self.read } else { self.highest }
    }

    /// Returns true if the peer may be told of so much room that it is worth a frame.
    pub(super) fn wants_to_tell(&self) -> bool {
        self.state == State::Open && self.end.is_none() && self.told - self.read < self.window / 2
    }

    /// True if the peer has used up half of its window although the application reads all that it can.
    pub(super) fn is_tight(&self) -> bool {
        let keeps_up = self.whole - self.read < self.window / 4;
        self.state == State::Open && self.end.is_none() && keeps_up && self.told - self.highest < self.window / 2
    }

    /// The number of bytes that the peer may send from now on.
    pub(super) fn tell(&mut self) -> u64 {
        self.told = self.told.max(self.read + self.window);
        self.told
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done | State::ResetHeard(_))
    }
}
