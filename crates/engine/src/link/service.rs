//! Service: how long a link takes for a packet, at a constant rate, at one that changes, or as was recorded; with or without
//! the time that a processor takes for each packet.
//!
//! A rate model is a file: its parameters describe themselves as the [`part`](crate::part) module says, and build the service.
//! [`RateModel`] has a line for each.

pub mod constant;
pub mod opportunities;
mod processing;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod trace;

use std::fmt::Debug;

use crate::part::registry;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

pub use constant::Constant;
pub use opportunities::Opportunities;
pub use processing::Processing;
pub use steps::Steps;

/// Decides when the service of a packet ends.
pub trait Service: Debug + Send {
    /// The end of the service of `len` bytes that starts at `start`; never before `start`.
    fn finish(&mut self, start: Time, len: Bytes) -> Time;

    /// This service as a constant rate, if it is one.
    fn as_constant(&self) -> Option<Constant> {
        None
    }
}

registry! {
    /// The rates at which a link can serve.
    pub enum RateModel {
        Trace(trace::Parameters),
    } and {
        Constant(constant::Parameters),
        Steps(steps::Parameters),
    }

    /// The service of a link at the start.
    fn build(&self) -> Box<dyn Service>;

    /// About how long a packet of so many bytes takes; where the rate changes, at first.
    fn usual_time_for(&self, len: Bytes) -> Duration;
}

impl RateModel {
    /// The model of a link that is always as fast.
    pub const fn constant(rate: Rate) -> RateModel {
        RateModel::Constant(constant::Parameters { rate })
    }
}
