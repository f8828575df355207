//! How long a link takes to serve a packet: at a constant rate, at one that changes, or as was recorded; with or without
//! what a processor takes for each packet.

mod opportunities;
mod processing;
mod steps;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

pub use opportunities::Opportunities;
pub use processing::Processing;
pub use steps::Steps;

/// Decides when the service of a packet ends.
pub trait Service: Debug + Send {
    /// When the service of `len` bytes ends that starts at `start`; never before `start`.
    fn finish(&mut self, start: Time, len: Bytes) -> Time;

    /// The same service, if it is a constant rate.
    fn as_constant(&self) -> Option<Constant> {
        None
    }
}

/// A constant rate.
#[derive(Clone, Debug)]
pub struct Constant {
    rate: Rate,
    /// The length served last and its time: most packets in one direction are equally long, and a division costs as
    /// much as the rest of a service.
    last: (Bytes, Duration),
}

impl Constant {
    /// Serves at `rate`.
    pub fn new(rate: Rate) -> Constant {
        Constant { rate, last: (Bytes::ZERO, Duration::ZERO) }
    }
}

impl Service for Constant {
    #[inline]
    fn finish(&mut self, start: Time, len: Bytes) -> Time {
        if self.last.0 != len {
            self.last = (len, self.rate.time_for(len));
        }
        start + self.last.1
    }

    fn as_constant(&self) -> Option<Constant> {
        Some(self.clone())
    }
}
