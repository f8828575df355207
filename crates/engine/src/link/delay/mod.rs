//! Propagation: how long packets take from the end of their service to the far end, if that is not always the same.
//!
//! A model is a file: its parameters describe themselves as the [`part`](crate::part) module says, and build the delay.
//! [`DelayModel`] has a line for each.
//!
//! A model that draws owns its generator, so that adding a link changes no other link's delays.

pub mod constant;
pub mod normal;
pub mod pareto;
pub mod samples;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod uniform;

use std::fmt::Debug;

use crate::part::{Absent, Field, Kind, registry};
use crate::rng::Rng;
use crate::time::{Duration, Time};

/// Decides how long packets take to the far end.
pub trait Delay: Debug + Send {
    /// The time that a packet takes whose service ends at `sent`. Asked once for each packet, in the order of service.
    fn after(&mut self, sent: Time) -> Duration;
}

registry! {
    /// The delays that a link can have, one way.
    pub enum DelayModel {
        Trace(trace::Parameters),
        Uniform(uniform::Parameters),
        Normal(normal::Parameters),
        Pareto(pareto::Parameters),
        Samples(samples::Parameters),
    } and {
        Constant(constant::Parameters),
        Steps(steps::Parameters),
    }

    /// The delay from the start on, with the generator that it draws from; `None` if it is always the
    /// [shortest](DelayModel::shortest), so that a link need not ask.
    fn build(&self, rng: Rng) -> Option<Box<dyn Delay>>;

    /// The shortest time that a packet can take.
    fn shortest(&self) -> Duration;

    /// True if a packet that takes less time than one before it overtakes it; otherwise it waits for it.
    fn overtakes(&self) -> bool;
}

impl DelayModel {
    /// The model of a link whose packets all take as long.
    pub const fn constant(delay: Duration) -> DelayModel {
        DelayModel::Constant(constant::Parameters { delay })
    }
}

/// The longest delay: an hour.
const NANOS_MAX: u64 = 3_600_000_000_000;
const SPAN: Kind = Kind::Span { min: 0, max: NANOS_MAX };
const OVERTAKE: Field = Field {
    name: "overtake",
    kind: Kind::Flag,
    absent: Absent::Is("false"),
    doc: "A packet that takes less time than one before it overtakes it. Otherwise it waits for it.",
};
