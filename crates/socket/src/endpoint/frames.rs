//! Unreliable frames of a connection, as applications have them.

use std::time::Instant;

use headend_engine::time::Time;
use headend_engine::units::Rate;

use super::{Connection, Shared};
use crate::connection::Ended;
use crate::unreliable::{Fate, Occupancy, Refused, Ticket};

/// Fates that are kept for an application that does not ask. Then the oldest are forgotten.
pub(super) const FATES_MAX: usize = 1_024;

impl Connection {
    /// Sends a frame that is worth something if all of it comes before `deadline`. What cannot come by then is not sent. Frames leave
    /// in order, in turns with streams.
    pub fn send_frame(&self, bytes: &[u8], deadline: Instant) -> Result<Ticket, Refused> {
        self.send_frame_of(0, bytes, deadline)
    }

    /// Sends a frame of one flow among several: those of each leave in order, and flows in turns. Only this end knows of flows.
    pub fn send_frame_of(&self, flow: u64, bytes: &[u8], deadline: Instant) -> Result<Ticket, Refused> {
        let shared = self.shared();
        let sent = shared.lock().machine.send_frame(self.line.handle, flow, bytes, shared.time_of(deadline));
        shared.work.notify_one();
        sent
    }

    /// Puts another frame in the place of one of which something waits to leave.
    pub fn replace(&self, ticket: Ticket, bytes: &[u8], deadline: Instant) -> Result<Ticket, Refused> {
        let shared = self.shared();
        let sent = shared.lock().machine.replace_frame(self.line.handle, ticket, bytes, shared.time_of(deadline));
        shared.work.notify_one();
        sent
    }

    /// Takes back what waits of a frame, which then does not come. Returns false if all of it has left.
    pub fn withdraw(&self, ticket: Ticket) -> bool {
        self.shared().lock().machine.withdraw_frame(self.line.handle, ticket)
    }

    /// The frames that wait to leave.
    pub fn occupancy(&self) -> Occupancy {
        self.shared().lock().machine.occupancy(self.line.handle)
    }

    /// The rate at which frames can leave if nothing changes, for an encoder; `None` before the first round trip. It is the rate of
    /// the connection, in equal parts with the streams that have something to send. It grows only while it is used.
    pub fn rate(&self) -> Option<Rate> {
        self.shared().lock().machine.rate(self.line.handle)
    }

    /// The next frame that has come whole. Frames come in the order in which they became whole, each once.
    pub async fn read_frame(&self) -> Result<Vec<u8>, Ended> {
        self.until(|machine, handle| machine.read_frame(handle)).await
    }

    /// What became of the next frame of which that is known. The last 1024 such news are kept.
    pub async fn fate(&self) -> Result<(Ticket, Fate), Ended> {
        self.until_state(|state, handle| state.lines.get_mut(&handle)?.fates.pop_front()).await
    }
}

impl Shared {
    fn time_of(&self, at: Instant) -> Time {
        let since = at.saturating_duration_since(self.start).as_nanos();
        Time::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }
}
