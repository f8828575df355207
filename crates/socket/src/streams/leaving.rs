//! What leaves of a connection's streams: whose turn it is, what a datagram takes, and what became of it.

use super::sending::Piece;
use super::{Item, StreamEvent, StreamId, Streams};
use crate::frame::{self, Frame};

impl Streams {
    pub(super) fn put(&mut self, item: Item) {
        if !self.items.contains(&item) {
            self.items.push_back(item);
        }
    }

    pub(super) fn queue(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if !stream.is_queued && stream.sending.has_piece(u64::MAX) {
            stream.is_queued = true;
            self.turns.push_back(id);
        }
    }

    /// Returns true if something goes before data.
    pub(crate) fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Streams that have something to send.
    pub(crate) fn turns_len(&self) -> usize {
        self.turns.len()
    }

    /// Returns true if there is something that may leave.
    pub(crate) fn has_something(&mut self) -> bool {
        if !self.items.is_empty() || self.frames.sending.has_something() {
            return true;
        }
        let credit = self.flow.credit();
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
        // Frames have a turn as one stream has.
        let is_turn_of_frames = self.frames.sending.has_something() && self.since_frames >= self.turns.len();
        self.since_frames = if is_turn_of_frames { 0 } else { self.since_frames.saturating_add(1) };
        let at = out.len();
        if is_turn_of_frames {
            self.frames.sending.fill(out, room, false, |part| items.push(Item::Part(part)));
        }
        self.fill_data(out, room, items);
        if !is_turn_of_frames && self.frames.sending.has_something() {
            let has_data = out.len() > at;
            self.frames.sending.fill(out, room, has_data, |part| items.push(Item::Part(part)));
        }
    }

    /// Writes bytes of the streams whose turn it is.
    fn fill_data(&mut self, out: &mut Vec<u8>, room: usize, items: &mut Vec<Item>) {
        let before = out.len();
        let mut passed = 0;
        while passed < self.turns.len()
            && let Some(id) = self.turns.front().copied()
        {
            let credit = self.flow.credit();
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
            self.flow.on_sent(stream.sending.sent() - before);
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
        if self.turns.len() > 1 && out.len() > before {
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
                Frame::DataMax(self.flow.tell()).write(out);
            }
            Item::StreamMax(id) => {
                let Some(stream) = self.streams.get(&id) else { return false };
                if stream.receiving.is_done() || stream.receiving.stopped().is_some() {
                    return false;
                }
                let is_tight = stream.receiving.is_tight() && self.flow.may_tune(stream.tuned);
                let before = if is_tight { self.flow.now } else { stream.tuned };
                let (window, tuned) = self.flow.grown_stream(stream.receiving.window, before);
                let stream = self.streams.get_mut(&id).expect("it was there");
                (stream.receiving.window, stream.tuned) = (window, tuned);
                let most = stream.receiving.tell();
                Frame::StreamMax { stream: id, most }.write(out);
            }
            Item::StreamsMax => Frame::StreamsMax(self.theirs_max).write(out),
            Item::Data { .. } | Item::Part(_) => unreachable!("data wait in their streams, and parts in their frames"),
        }
        true
    }

    /// Notes that an item's datagram has come.
    pub(crate) fn on_delivered(&mut self, item: Item) {
        match item {
            Item::Data { stream: id, start, end, is_last } => {
                let Some(stream) = self.streams.get_mut(&id) else { return };
                stream.sending.on_delivered(Piece { start, end, is_last });
                self.stirred = Some(self.flow.now);
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
            Item::Part(part) => self.frames.sending.on_delivered(part),
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
            Item::Part(part) => self.frames.sending.on_lost(part),
            item => self.put(item),
        }
    }

    /// Has an item leave again whose datagram may be lost.
    pub(crate) fn repeat(&mut self, item: Item) {
        match item {
            Item::Part(part) => {
                self.frames.sending.repeat(part);
            }
            item => self.on_lost(item),
        }
    }
}
