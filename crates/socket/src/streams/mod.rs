//! The streams of a connection: who may open how many, and what application and peer do with them.
//!
//! A stream has two halves that end on their own. Ids are as QUIC's of bidirectional streams (RFC 9000 s2.1): those of the client
//! are multiples of four, those of the server one more. What waits of one stream does not hold up another: each datagram takes
//! pieces of the stream whose turn it is, and bytes that came in order are read whatever another stream misses.

mod flow;
mod leaving;
mod receiving;
mod sending;

use std::collections::{BTreeMap, VecDeque};

use headend_engine::time::{Duration, Time};

use crate::frame::{self, Frame};
use crate::unreliable::{Part, Unreliable};
use flow::Flow;
pub(crate) use flow::{Budget, SHARE};
use receiving::{Reading, Receiving, Wrong};
use sending::Sending;

/// Bytes that wait in a stream at least before its writer has to.
const WAITING_MIN: u64 = 65_536;
/// Bytes for which any empty buffer keeps memory. Those of the streams that were read last, so many, keep all of theirs, until nothing has
/// come or gone for this time: what is given back at once is taken again from the system with the next burst, page by page.
const SPARE: usize = 4_096;
const KEEPERS: usize = SHARE as usize;
const RESTED: Duration = Duration::from_secs(1);
/// The longest id: its varint is short.
const ID_MAX: u64 = 1 << 40;

/// A stream's name in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u64);

impl StreamId {
    /// The number, the same at both ends.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The limits of a connection's streams at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) window: u64,
    pub(crate) window_max: u64,
    pub(crate) streams: u64,
    /// Bytes of unreliable frames that are held in each direction.
    pub(crate) frames: u64,
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
    Part(Part),
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
    flow: Flow,
    peer_window: u64,
    is_open_wanted: bool,
    /// The time at which bytes came or went last, if buffers may hold memory for more than they have to.
    stirred: Option<Time>,
    /// Streams whose empty receiving buffers keep their memory.
    keepers: VecDeque<u64>,
    events: VecDeque<StreamEvent>,
    /// Frames, which leave in turns with streams, and datagrams of streams since the last one of frames.
    pub(crate) frames: Unreliable,
    since_frames: usize,
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
            flow: Flow::new(limits.window, limits.window_max, theirs.data.into(), budget.clone()),
            peer_window: theirs.stream_data.into(),
            is_open_wanted: false,
            stirred: None,
            keepers: VecDeque::new(),
            events: VecDeque::new(),
            frames: Unreliable::new(limits.frames, theirs.frame.into(), budget),
            since_frames: 0,
        }
    }

    /// Tells the time, and how long a round trip takes.
    pub(crate) fn set_time(&mut self, now: Time, rtt: Duration) {
        self.flow.set_time(now, rtt);
    }

    /// Gives back the memory of empty buffers, once no bytes have come or gone for a while. Returns when that will be.
    pub(crate) fn rest(&mut self) -> Option<Time> {
        let due = self.stirred? + RESTED;
        if self.flow.now < due {
            return Some(due);
        }
        self.stirred = None;
        self.keepers = VecDeque::new();
        for stream in self.streams.values_mut() {
            stream.sending.rest();
            stream.receiving.rest();
        }
        None
    }

    /// Returns true if no buffer has memory to give back.
    pub(crate) fn rests(&self) -> bool {
        self.stirred.is_none()
    }

    /// Bytes of memory that buffers hold.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.streams.values().map(|stream| stream.sending.held() + stream.receiving.held()).sum()
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
        self.stirred = Some(self.flow.now);
        stream.sending.is_wanted = taken < bytes.len();
        self.queue(id.0);
        Ok(taken)
    }

    /// Reads. `None` at the end; no bytes: later.
    pub(crate) fn read(&mut self, id: StreamId, to: &mut [u8]) -> Result<Option<usize>, StreamError> {
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Ended)?;
        let before = stream.receiving.consumed();
        let reading = stream.receiving.read(to);
        self.flow.on_read(stream.receiving.consumed() - before);
        match reading {
            Reading::Bytes(0) if !to.is_empty() => {
                stream.receiving.is_wanted = true;
                Ok(Some(0))
            }
            Reading::Bytes(len) => {
                self.stirred = Some(self.flow.now);
                let is_swollen = stream.receiving.is_swollen();
                if stream.receiving.wants_to_tell() {
                    self.put(Item::StreamMax(id.0));
                }
                if is_swollen {
                    self.keep(id.0);
                }
                self.tell_of_room();
                Ok(Some(len))
            }
            Reading::End => Ok(None),
            Reading::Reset(code) => Err(StreamError::Reset(code)),
        }
    }

    /// Lets a stream's empty buffer keep its memory, in the place of the one that does for longest if too many do: a peer that
    /// fills one stream after the other must not make all of them hold a window's worth.
    fn keep(&mut self, id: u64) {
        if self.keepers.contains(&id) {
            return;
        }
        self.keepers.push_back(id);
        if self.keepers.len() > KEEPERS
            && let Some(stream) = self.keepers.pop_front().and_then(|oldest| self.streams.get_mut(&oldest))
        {
            stream.receiving.rest();
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
            // A write that waits has nothing to wait for.
            self.events.push_back(StreamEvent::Writable(id));
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
        self.flow.on_read(stream.receiving.consumed() - before);
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
                self.stirred = Some(self.flow.now);
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
                self.flow.raise(most);
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
            Frame::Part { number, total, offset: start, bytes } => {
                let end = start.saturating_add(bytes.len() as u64 + u64::from(total == 0));
                self.frames.take(self.flow.now, Part { number, total, start, end }, bytes)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts bytes that came towards what all streams together may bring.
    fn count(&mut self, id: u64, grown: u64, read: u64) -> Result<(), Violation> {
        self.flow.on_came(grown, read)?;
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
        let wants_more = stream.receiving.is_tight() && self.flow.may_tune(stream.tuned);
        if wants_more {
            self.put(Item::StreamMax(id));
        }
        if self.flow.is_tight() {
            self.put(Item::DataMax);
        }
        self.sweep(id);
        Ok(())
    }

    fn tell_of_room(&mut self) {
        if self.flow.wants_to_tell() {
            self.put(Item::DataMax);
        }
    }

    /// Forgets a stream that both ends have done with; then the peer may open another.
    fn sweep(&mut self, id: u64) {
        let Some(stream) = self.streams.get(&id) else { return };
        if !stream.is_released || !stream.sending.is_done() || !stream.receiving.is_done() {
            return;
        }
        let extra = stream.receiving.window.saturating_sub(self.limits.window);
        self.flow.give_back(extra);
        self.streams.remove(&id);
        if id % 4 == u64::from(self.is_client) {
            self.theirs_max += 1;
            self.put(Item::StreamsMax);
        }
    }
}

fn violation(wrong: Wrong) -> Violation {
    match wrong {
        Wrong::TooMuch => Violation(frame::code::FLOW, "more bytes of a stream than were allowed"),
        Wrong::End => Violation(frame::code::PROTOCOL, "a stream whose end has changed"),
        Wrong::Holes => Violation(frame::code::FLOW, "a stream with thousands of holes"),
    }
}
