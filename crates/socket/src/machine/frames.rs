//! What an application does with unreliable frames.

use headend_engine::time::Time;
use headend_engine::units::Rate;

use super::{Handle, Machine};
use crate::unreliable::{Occupancy, Refused, Ticket};

impl Machine {
    /// Sends a frame that is worth something if it comes before `deadline`. Frames of one flow leave in order, and flows in turns.
    pub fn send_frame(&mut self, handle: Handle, flow: u64, bytes: &[u8], deadline: Time) -> Result<Ticket, Refused> {
        let connection = self.entry(handle).ok_or(Refused::Ended)?;
        connection.streams.frames.sending.send(flow, bytes, deadline)
    }

    /// Puts another frame in the place of one of which something waits.
    pub fn replace_frame(
        &mut self,
        handle: Handle,
        ticket: Ticket,
        bytes: &[u8],
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let connection = self.entry(handle).ok_or(Refused::Ended)?;
        connection.streams.frames.sending.replace(ticket, bytes, deadline)
    }

    /// Takes back what waits of a frame, which then does not come. Returns false if all of it has left.
    pub fn withdraw_frame(&mut self, handle: Handle, ticket: Ticket) -> bool {
        self.entry(handle).is_some_and(|connection| connection.streams.frames.sending.withdraw(ticket))
    }

    /// The next frame that has come; none: later, an event tells when.
    pub fn read_frame(&mut self, handle: Handle) -> Option<Vec<u8>> {
        self.entries.get_mut(&handle.0)?.connection.streams.frames.receiving.read()
    }

    /// Frames that wait to leave.
    pub fn occupancy(&self, handle: Handle) -> Occupancy {
        let entry = self.entries.get(&handle.0);
        entry.map(|entry| entry.connection.streams.frames.sending.occupancy()).unwrap_or_default()
    }

    /// The rate at which frames can leave; `None` before the first round trip.
    pub fn rate(&self, handle: Handle) -> Option<Rate> {
        self.entries.get(&handle.0)?.connection.rate()
    }
}
