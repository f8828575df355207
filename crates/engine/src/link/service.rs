//! How long a link takes to serve a packet.

use std::fmt::Debug;

use crate::time::Time;
use crate::units::{Bytes, Rate};

/// Decides when the service of a packet ends.
pub trait Service: Debug + Send {
    /// When the service of `len` bytes ends that starts at `start`; never before `start`.
    fn finish(&mut self, start: Time, len: Bytes) -> Time;
}

/// A constant rate.
impl Service for Rate {
    fn finish(&mut self, start: Time, len: Bytes) -> Time {
        start + self.time_for(len)
    }
}
