//! What an application does with connections and streams.

use std::net::SocketAddr;

use headend_datagram::PublicKey;
use headend_engine::time::Time;

use super::{Event, Handle, Machine};
use crate::connection::{Ended, Snapshot};
use crate::frame::VARINT_MAX;
use crate::streams::{StreamError, StreamId};

impl Machine {
    /// Opens a stream; `None` if as many are open as the peer allows, or if the connection has ended.
    pub fn open(&mut self, handle: Handle) -> Option<StreamId> {
        self.entry(handle)?.streams.open()
    }

    /// The next stream that the peer has opened.
    pub fn accept(&mut self, handle: Handle) -> Option<StreamId> {
        self.entry(handle)?.streams.accept()
    }

    /// Writes to a stream. No bytes: later, an event tells when.
    pub fn write(&mut self, handle: Handle, id: StreamId, bytes: &[u8]) -> Result<usize, StreamError> {
        self.entry(handle).ok_or(StreamError::Ended)?.write(id, bytes)
    }

    /// Reads from a stream. `None` is the end; no bytes: later, an event tells when.
    pub fn read(&mut self, handle: Handle, id: StreamId, to: &mut [u8]) -> Result<Option<usize>, StreamError> {
        let entry = self.entries.get_mut(&handle.0).filter(|entry| entry.connection.ended().is_none());
        let entry = entry.ok_or(StreamError::Ended)?;
        let streams = &mut entry.connection.streams;
        let rests = streams.rests();
        let read = streams.read(id, to);
        if streams.has_items() || rests && !streams.rests() {
            self.due.insert(handle.0);
        }
        read
    }

    /// Nothing more will be written to a stream; what was arrives, and then its end.
    pub fn finish(&mut self, handle: Handle, id: StreamId) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.finish(id);
        }
    }

    /// Ends what is written to a stream at once; the peer hears of the code, of which none is above [`VARINT_MAX`]: a larger one counts
    /// as that.
    pub fn reset(&mut self, handle: Handle, id: StreamId, code: u64) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.reset(id, code.min(VARINT_MAX));
        }
    }

    /// Reads no more of a stream; the peer hears of the code, as with [`reset`](Machine::reset).
    pub fn stop(&mut self, handle: Handle, id: StreamId, code: u64) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.stop(id, code.min(VARINT_MAX));
        }
    }

    /// Has done with a stream. What was not ended is reset, with this code, as with [`reset`](Machine::reset).
    pub fn release(&mut self, handle: Handle, id: StreamId, code: u64) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.release(id, code.min(VARINT_MAX));
        }
    }

    /// Returns true if all that was written to a stream has come, the end included, or nobody waits for it any more.
    pub fn is_sent(&mut self, handle: Handle, id: StreamId) -> bool {
        self.entries.get(&handle.0).is_none_or(|entry| entry.connection.streams.is_sent(id))
    }

    /// The peer's reason to read no more of a stream, if it does not.
    pub fn stopped(&self, handle: Handle, id: StreamId) -> Option<u64> {
        self.entries.get(&handle.0)?.connection.streams.stopped(id)
    }

    /// Closes a connection, with a code as with [`reset`](Machine::reset). What has not come by now does not come.
    pub fn close(&mut self, now: Time, handle: Handle, code: u64, reason: &str) {
        if let Some(connection) = self.entry(handle) {
            connection.close(now, code.min(VARINT_MAX), reason);
        } else if self.asking.remove(&handle.0).is_some() {
            self.events.push_back(Event::Ended(handle, Ended::Here));
        }
    }

    /// Closes all connections.
    pub fn close_all(&mut self, now: Time, code: u64, reason: &str) {
        for id in self.entries.keys().chain(self.asking.keys()).copied().collect::<Vec<_>>() {
            self.close(now, Handle(id), code, reason);
        }
    }

    /// The peer's key and address, and the counts of a connection.
    pub fn look(&self, handle: Handle) -> Option<(PublicKey, SocketAddr, Snapshot)> {
        let connection = &self.entries.get(&handle.0)?.connection;
        Some((connection.peer, connection.way.to, connection.snapshot()))
    }
}
