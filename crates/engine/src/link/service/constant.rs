//! A link that is always as fast.

use super::Service;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// A rate that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The rate.
    pub rate: Rate,
}

impl Parameters {
    /// The link.
    pub fn build(&self) -> Box<dyn Service> {
        Box::new(Constant::new(self.rate))
    }

    /// The time that the link takes for so many bytes.
    pub fn usual_time_for(&self, len: Bytes) -> Duration {
        self.rate.time_for(len)
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
