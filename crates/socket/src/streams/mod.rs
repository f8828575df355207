//! The streams of a connection: who may open how many, whose turn it is, and how much both ends may send.
//!
//! A stream has two halves that end on their own. Ids are as QUIC's of bidirectional streams (RFC 9000 s2.1): those of the client
//! are multiples of four, those of the server one more. What waits of one stream does not hold up another: each datagram takes
//! pieces of the stream whose turn it is, and bytes that came in order are read whatever another stream misses.

mod receiving;
mod sending;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headend_engine::time::{Duration, Time};

use crate::frame::{self, Frame};
use receiving::{Reading, Receiving, Wrong};
use sending::{Piece, Sending};

/// Bytes that wait in a stream at least before its writer has to.
const WAITING_MIN: u64 = 65_536;
/// Streams that have the least window for themselves in that of their connection.
pub(crate) const SHARE: u64 = 4;
/// The time for which an end without memory for larger windows does not ask for it again.
const BROKE: Duration = Duration::from_secs(1);
/// The part of the largest window of a connection that one stream may have: those that nobody reads must leave some.
const STREAM_PART: u64 = 16;
/// The longest id: its varint is short.
const ID_MAX: u64 = 1 << 40;

/// A stream's name in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u64);

/// Memory that connections may take beyond what each has from the start; all of an endpoint share it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget(Arc::new(AtomicU64::new(bytes)))
    }

    pub(crate) fn take(&self, bytes: u64) -> bool {
        let spent = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_ok()
    }

    pub(crate) fn give(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The limits of a connection's streams at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) window: u64,
    pub(crate) window_max: u64,
    pub(crate) streams: u64,
}

/// Why an application cannot do what it wants with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// There is no such stream any more.
    #[error("the stream has ended")]
    Ended,
    /// The peer has reset it.
    #[error("the peer has reset the stream (code {0})")]
    Reset(u64),
    /// The peer reads no more of it.
    #[error("the peer reads no more of the stream (code {0})")]
    Stopped(u64),
}

/// A rule that the peer has broken, for which the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) u64, pub(crate) &'static str);

/// An item of a datagram, that is sent again if the datagram is lost and the item still matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Ping,
    Data { stream: u64, start: u64, end: u64, is_last: bool },
    Reset(u64),
    Stop(u64),
    DataMax,
    StreamMax(u64),
    StreamsMax,
}

/// What an application is told of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer has opened a stream.
    Opened,
    /// Another stream may be opened.
    MayOpen,
    /// A read that had to wait need not any more.
    Readable(StreamId),
    /// A write that had to wait need not any more.
    Writable(StreamId),
}

#[derive(Debug)]
struct Stream {
    sending: Sending,
    receiving: Receiving,
    /// The peer's reason to read no more.
    stopped: Option<u64>,
    /// It is among those that have something to send.
    is_queued: bool,
    /// The application has done with it.
    is_released: bool,
    tuned: Time,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    is_client: bool,
    streams: BTreeMap<u64, Stream>,
    /// Streams that were opened by each end, and that may be.
    ours: u64,
    ours_max: u64,
    theirs: u64,
    theirs_max: u64,
    limits: Limits,
    opened: VecDeque<u64>,
    /// Streams with something to send, in turn.
    turns: VecDeque<u64>,
    /// Items that go before data.
    items: VecDeque<Item>,
    /// Bytes that have left for the first time, and that may.
    sent: u64,
    sent_max: u64,
    peer_window: u64,
    /// Bytes that came, that were read, and that may come.
    came: u64,
    consumed: u64,
    told: u64,
    window: u64,
    tuned: Time,
    is_open_wanted: bool,
    /// There was no memory for larger windows, and until then nobody asks again.
    broke_until: Time,
    /// The time and the round trip, as they were told last.
    now: Time,
    rtt: Duration,
    budget: Budget,
    /// Bytes of the budget that are taken.
    taken: u64,
    events: VecDeque<StreamEvent>,
}

impl Streams {
    /// Streams of an end with these limits, whose peer has those.
    pub(crate) fn new(is_client: bool, limits: Limits, theirs: &crate::wire::Terms, budget: Budget) -> Streams {
        Streams {
            is_client,
            streams: BTreeMap::new(),
            ours: 0,
            ours_max: theirs.streams.into(),
            theirs: 0,
            theirs_max: limits.streams,
            limits,
            opened: VecDeque::new(),
            turns: VecDeque::new(),
            items: VecDeque::new(),
            sent: 0,
            sent_max: theirs.data.into(),
            peer_window: theirs.stream_data.into(),
            came: 0,
            consumed: 0,
            told: limits.window * SHARE,
            window: limits.window * SHARE,
            tuned: Time::ZERO,
            is_open_wanted: false,
            broke_until: Time::ZERO,
            now: Time::ZERO,
            rtt: Duration::ZERO,
            budget,
            taken: 0,
            events: VecDeque::new(),
        }
    }

    /// Tells the time, and how long a round trip takes.
    pub(crate) fn set_time(&mut self, now: Time, rtt: Duration) {
        (self.now, self.rtt) = (now, rtt);
    }

    pub(crate) fn event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// The number of streams that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    // What the application does.

    /// Opens a stream, unless as many are open as the peer allows.
    pub(crate) fn open(&mut self) -> Option<StreamId> {
        if self.ours >= self.ours_max {
            self.is_open_wanted = true;
            return None;
        }
        let id = self.ours * 4 + u64::from(!self.is_client);
        self.ours += 1;
        self.insert(id);
        Some(StreamId(id))
    }

    /// The next stream that the peer has opened.
    pub(crate) fn accept(&mut self) -> Option<StreamId> {
        self.opened.pop_front().map(StreamId)
    }

    fn insert(&mut self, id: u64) {
        let (sending, receiving) = (Sending::new(self.peer_window), Receiving::new(self.limits.window));
        let stream =
            Stream { sending, receiving, stopped: None, is_queued: false, is_released: false, tuned: Time::ZERO };
        self.streams.insert(id, stream);
    }

    /// Takes bytes of the application, so many that a window of `congestion` bytes does not run dry. None: later.
    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8], congestion: u64) -> Result<usize, StreamError> {
        let share = congestion / self.streams.len().max(1) as u64;
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Ended)?;
        if let Some(code) = stream.stopped {
            return Err(StreamError::Stopped(code));
        }
        if !stream.sending.is_open() {
            return Err(StreamError::Ended);
        }
        let taken = stream.sending.write(bytes, share.max(WAITING_MIN));
        stream.sending.is_wanted = taken < bytes.len();
        self.queue(id.0);
        Ok(taken)
    }

    /// Reads. `None` at the end; no bytes: later.
    pub(crate) fn read(&mut self, id: StreamId, to: &mut [u8]) -> Result<Option<usize>, StreamError> {
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Ended)?;
        let before = stream.receiving.consumed();
        let reading = stream.receiving.read(to);
        self.consumed += stream.receiving.consumed() - before;
        match reading {
            Reading::Bytes(0) if !to.is_empty() => {
                stream.receiving.is_wanted = true;
                Ok(Some(0))
            }
            Reading::Bytes(len) => {
                if stream.receiving.wants_to_tell() {
                    self.put(Item::StreamMax(id.0));
                }
                self.tell_of_room();
                Ok(Some(len))
            }
            Reading::End => Ok(None),
            Reading::Reset(code) => Err(StreamError::Reset(code)),
        }
    }

    /// Nothing more will be written to a stream.
    pub(crate) fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id.0) {
            stream.sending.finish();
            self.queue(id.0);
        }
    }

    /// Ends the sending half of a stream before its time.
    pub(crate) fn reset(&mut self, id: StreamId, code: u64) {
        let Some(stream) = self.streams.get_mut(&id.0) else { return };
        if stream.sending.reset(code) {
            self.put(Item::Reset(id.0));
        }
    }

    /// Reads no more of a stream.
    pub(crate) fn stop(&mut self, id: StreamId, code: u64) {
        let Some(stream) = self.streams.get_mut(&id.0) else { return };
        let before = stream.receiving.consumed();
        if stream.receiving.stop(code) {
            self.put(Item::Stop(id.0));
        }
        let Some(stream) = self.streams.get_mut(&id.0) else { return };
        self.consumed += stream.receiving.consumed() - before;
        self.tell_of_room();
    }

    /// The application has done with a stream. What it has not ended is reset.
    pub(crate) fn release(&mut self, id: StreamId, code: u64) {
        let Some(stream) = self.streams.get_mut(&id.0) else { return };
        stream.is_released = true;
        if stream.sending.is_open() {
            self.reset(id, code);
        }
        self.stop(id, code);
        self.sweep(id.0);
    }

    /// Returns true if all that was written has come, the end included, or nobody waits for it.
    pub(crate) fn is_sent(&self, id: StreamId) -> bool {
        self.streams.get(&id.0).is_none_or(|stream| stream.sending.is_done())
    }

    /// The peer's reason to read no more of a stream, if it does not.
    pub(crate) fn stopped(&self, id: StreamId) -> Option<u64> {
        self.streams.get(&id.0)?.stopped
    }

    // What the peer says.

    /// Finds the stream that the peer means; `None` if it has ended here.
    fn theirs(&mut self, id: u64) -> Result<Option<&mut Stream>, Violation> {
        let is_ours = id % 4 == u64::from(!self.is_client);
        let is_theirs = id % 4 == u64::from(self.is_client);
        let count = id / 4;
        if is_ours && count < self.ours {
            return Ok(self.streams.get_mut(&id));
        }
        if !is_theirs || id > ID_MAX {
            return Err(Violation(frame::code::PROTOCOL, "a stream that nobody has opened"));
        }
        if count >= self.theirs_max {
            return Err(Violation(frame::code::FLOW, "more streams than were allowed"));
        }
        // Those before it are open as well: what opened them is still under way (RFC 9000 s3.2).
        while self.theirs <= count {
            let id = self.theirs * 4 + u64::from(self.is_client);
            self.theirs += 1;
            self.insert(id);
            self.opened.push_back(id);
            self.events.push_back(StreamEvent::Opened);
        }
        Ok(self.streams.get_mut(&id))
    }

    /// Takes a frame of a stream, or of what streams have in common.
    pub(crate) fn take(&mut self, frame: &Frame<'_>) -> Result<(), Violation> {
        match *frame {
            Frame::Data { stream: id, offset, is_last, bytes } => {
                let Some(stream) = self.theirs(id)? else { return Ok(()) };
                let before = stream.receiving.consumed();
                let grown = stream.receiving.take(offset, bytes, is_last).map_err(violation)?;
                let read = stream.receiving.consumed() - before;
                self.count(id, grown, read)?;
            }
            Frame::Reset { stream: id, code, end } => {
                let Some(stream) = self.theirs(id)? else { return Ok(()) };
                let before = stream.receiving.consumed();
                let grown = stream.receiving.reset(code, end).map_err(violation)?;
                let read = stream.receiving.consumed() - before;
                self.count(id, grown, read)?;
            }
            Frame::Stop { stream: id, code } => {
                let Some(stream) = self.theirs(id)? else { return Ok(()) };
                if !stream.sending.is_done() {
                    stream.stopped = Some(code);
                    // RFC 9000 s3.5: the answer is a reset.
                    if stream.sending.reset(code) {
                        self.put(Item::Reset(id));
                    }
                    self.events.push_back(StreamEvent::Writable(StreamId(id)));
                }
            }
            Frame::DataMax(most) => {
                self.sent_max = self.sent_max.max(most);
            }
            Frame::StreamMax { stream: id, most } => {
                let Some(stream) = self.theirs(id)? else { return Ok(()) };
                stream.sending.most = stream.sending.most.max(most);
                self.queue(id);
            }
            Frame::StreamsMax(most) => {
                self.ours_max = self.ours_max.max(most.min(ID_MAX / 4));
                if std::mem::take(&mut self.is_open_wanted) {
                    self.events.push_back(StreamEvent::MayOpen);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts bytes that came towards what all streams together may bring.
    fn count(&mut self, id: u64, grown: u64, read: u64) -> Result<(), Violation> {
        self.came += grown;
        self.consumed += read;
        if self.came > self.told {
            return Err(Violation(frame::code::FLOW, "more bytes than were allowed"));
        }
        let stream = self.streams.get_mut(&id).expect("it was there");
        if stream.receiving.is_wanted && stream.receiving.is_readable() {
            stream.receiving.is_wanted = false;
            self.events.push_back(StreamEvent::Readable(StreamId(id)));
        }
        if read > 0 {
            self.tell_of_room();
        }
        // A window that is used up before its bytes can be read, because some are missing, must be larger; and bytes that nobody
        // reads must not take the room of other streams.
        let stream = &self.streams[&id];
        let wants_more = stream.receiving.is_tight() && self.may_tune(stream.tuned);
        if wants_more {
            self.put(Item::StreamMax(id));
        }
        if self.is_tight() {
            self.put(Item::DataMax);
        }
        self.sweep(id);
        Ok(())
    }

    /// True if the peer has used up half of what all streams together may bring.
    fn is_tight(&self) -> bool {
        let may_grow = self.window < self.limits.window_max && self.now >= self.broke_until;
        may_grow && self.told - self.came < self.window / 2
    }

    /// True if a window that was looked at then may be looked at again: what it grew by takes a round trip to be used.
    fn may_tune(&self, before: Time) -> bool {
        self.now.since(before) >= self.rtt / 2
    }

    // What leaves.

    fn put(&mut self, item: Item) {
        if !self.items.contains(&item) {
            self.items.push_back(item);
        }
    }

    fn queue(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if !stream.is_queued && stream.sending.has_piece(u64::MAX) {
            stream.is_queued = true;
            self.turns.push_back(id);
        }
    }

    fn tell_of_room(&mut self) {
        if self.told - self.consumed < self.window / 2 {
            self.put(Item::DataMax);
        }
    }

    /// Returns true if something goes before data.
    pub(crate) fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns true if there is something that may leave.
    pub(crate) fn has_something(&mut self) -> bool {
        if !self.items.is_empty() {
            return true;
        }
        let credit = self.sent_max - self.sent;
        // Those that only credit of their own could move give up their turn until they get it.
        while let Some(id) = self.turns.front() {
            match self.streams.get_mut(id) {
                Some(stream) if stream.sending.has_piece(u64::MAX) => {
                    if stream.sending.has_piece(credit) {
                        return true;
                    }
                    // Others may have lost something, which takes no credit.
                    break;
                }
                Some(stream) => stream.is_queued = false,
                None => {}
            }
            self.turns.pop_front();
        }
        let streams = &self.streams;
        self.turns.iter().any(|id| streams.get(id).is_some_and(|stream| stream.sending.has_piece(credit)))
    }

    /// Writes into `out`, up to `room` bytes in all, and notes in `items` what it was.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>, room: usize, items: &mut Vec<Item>) {
        /// More than any frame of an item takes.
        const ITEM_MAX: usize = 32;
        while room - out.len() >= ITEM_MAX
            && let Some(item) = self.items.pop_front()
        {
            if self.write_item(item, out) {
                items.push(item);
            }
        }
        let mut passed = 0;
        while passed < self.turns.len()
            && let Some(id) = self.turns.front().copied()
        {
            let credit = self.sent_max - self.sent;
            let Some(stream) = self.streams.get_mut(&id) else {
                self.turns.pop_front();
                continue;
            };
            // As long as its offset may make it.
            let header = frame::data_header_len(id, stream.sending.sent());
            let Some(len) = room.checked_sub(out.len() + header).filter(|len| *len > 0) else { break };
            let before = stream.sending.sent();
            let Some(piece) = stream.sending.piece(len as u64, credit) else {
                self.turns.pop_front();
                if stream.sending.has_piece(u64::MAX) {
                    // Without credit of the connection it keeps a place.
                    self.turns.push_back(id);
                    passed += 1;
                } else {
                    stream.is_queued = false;
                }
                continue;
            };
            self.sent += stream.sending.sent() - before;
            let Piece { start, end, is_last } = piece;
            frame::data_header(id, start, (end - start) as usize, is_last, out);
            stream.sending.copy(piece, out);
            items.push(Item::Data { stream: id, start, end, is_last });
            self.wake_writer(id);
            let stream = self.streams.get_mut(&id).expect("it was there");
            if !stream.sending.has_piece(u64::MAX) {
                stream.is_queued = false;
                self.turns.pop_front();
            }
        }
        // The next datagram is the next stream's.
        if self.turns.len() > 1 {
            self.turns.rotate_left(1);
        }
    }

    fn wake_writer(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.sending.is_wanted && stream.sending.has_room() {
            stream.sending.is_wanted = false;
            self.events.push_back(StreamEvent::Writable(StreamId(id)));
        }
    }

    /// Writes an item; false if it does not matter any more.
    fn write_item(&mut self, item: Item, out: &mut Vec<u8>) -> bool {
        match item {
            Item::Ping => Frame::Ping.write(out),
            Item::Reset(id) => {
                let Some((code, end)) = self.streams.get(&id).and_then(|stream| stream.sending.reset_code()) else {
                    return false;
                };
                Frame::Reset { stream: id, code, end }.write(out);
            }
            Item::Stop(id) => {
                let Some(code) = self.streams.get(&id).and_then(|stream| stream.receiving.stopped()) else {
                    return false;
                };
                Frame::Stop { stream: id, code }.write(out);
            }
            Item::DataMax => {
                let before = if self.is_tight() { self.now } else { self.tuned };
                (self.window, self.tuned) = self.tuned(self.window, before, self.limits.window_max);
                self.told = self.told.max(self.consumed + self.window);
                Frame::DataMax(self.told).write(out);
            }
            Item::StreamMax(id) => {
                let Some(stream) = self.streams.get(&id) else { return false };
                if stream.receiving.is_done() || stream.receiving.stopped().is_some() {
                    return false;
                }
                let is_tight = stream.receiving.is_tight() && self.may_tune(stream.tuned);
                let before = if is_tight { self.now } else { stream.tuned };
                let most = self.window.min(self.limits.window_max / STREAM_PART);
                let (window, tuned) = self.tuned(stream.receiving.window, before, most);
                let stream = self.streams.get_mut(&id).expect("it was there");
                (stream.receiving.window, stream.tuned) = (window, tuned);
                let most = stream.receiving.tell();
                Frame::StreamMax { stream: id, most }.write(out);
            }
            Item::StreamsMax => Frame::StreamsMax(self.theirs_max).write(out),
            Item::Data { .. } => unreachable!("data wait in their streams"),
        }
        true
    }

    /// The window for who has used half of one in less than two round trips: twice as much, if there is memory for it.
    fn tuned(&mut self, window: u64, before: Time, most: u64) -> (u64, Time) {
        let is_fast = before > Time::ZERO && self.now.since(before) < self.rtt * 2;
        let more = window.min(most.saturating_sub(window));
        if is_fast && more > 0 {
            if self.budget.take(more) {
                self.taken += more;
                return (window + more, self.now);
            }
            self.broke_until = self.now + BROKE;
        }
        (window, self.now)
    }

    /// Notes that an item's datagram has come.
    pub(crate) fn on_delivered(&mut self, item: Item) {
        match item {
            Item::Data { stream: id, start, end, is_last } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                stream.sending.on_delivered(Piece { start, end, is_last });
                if stream.sending.is_done() {
                    self.events.push_back(StreamEvent::Writable(StreamId(id)));
                    self.sweep(id);
                }
            }
            Item::Reset(id) => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                stream.sending.on_reset_heard();
                self.sweep(id);
            }
            _ => {}
        }
    }

    /// Notes that an item's datagram was lost.
    pub(crate) fn on_lost(&mut self, item: Item) {
        match item {
            Item::Data { stream: id, start, end, is_last } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                stream.sending.on_lost(Piece { start, end, is_last });
                self.queue(id);
            }
            Item::Ping => {}
            item => self.put(item),
        }
    }

    /// Forgets a stream that both ends have done with; then the peer may open another.
    fn sweep(&mut self, id: u64) {
        let Some(stream) = self.streams.get(&id) else { return };
        if !stream.is_released || !stream.sending.is_done() || !stream.receiving.is_done() {
            return;
        }
        let extra = stream.receiving.window.saturating_sub(self.limits.window).min(self.taken);
        self.taken -= extra;
        self.budget.give(extra);
        self.streams.remove(&id);
        if id % 4 == u64::from(self.is_client) {
            self.theirs_max += 1;
            self.put(Item::StreamsMax);
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.budget.give(self.taken);
    }
}

fn violation(wrong: Wrong) -> Violation {
    match wrong {
        Wrong::TooMuch => Violation(frame::code::FLOW, "more bytes of a stream than were allowed"),
        Wrong::End => Violation(frame::code::PROTOCOL, "a stream whose end has changed"),
        Wrong::Holes => Violation(frame::code::FLOW, "a stream with thousands of holes"),
    }
}
