//! Losses that no queue caused: on the medium, after service.
//!
//! A model is a file: its parameters describe themselves as the [`part`](crate::part) module says, and build the medium.
//! [`LossModel`] has a line for each.
//!
//! A model that draws owns its generator, so that adding a link changes no other link's losses.

pub mod bernoulli;
pub mod bit;
pub mod gilbert_elliott;
pub mod list;
pub mod steps;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::part::registry;
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

pub use bernoulli::Bernoulli;
pub use bit::Bit;
pub use gilbert_elliott::GilbertElliott;
pub use list::List;
pub use steps::Steps;

/// Decides which packets the medium destroys.
pub trait Loss: Debug + Send {
    /// True if the packet of `len` bytes whose service ends at `now` is lost. Asked once for each packet served, in
    /// the order of service.
    fn strikes(&mut self, now: Time, len: Bytes) -> bool;
}

registry! {
    /// The ways in which a medium can lose packets.
    pub enum LossModel {
        Bernoulli(bernoulli::Parameters),
        Bit(bit::Parameters),
        GilbertElliott(gilbert_elliott::Parameters),
        List(list::Parameters),
        Steps(steps::Parameters),
    }

    /// A medium that loses packets so, with the generator that it draws from; `None` if it loses none, so that a link need
    /// not ask it.
    fn build(&self, rng: Rng) -> Option<Box<dyn Loss>>;
}

impl LossModel {
    /// The model of a medium that loses nothing.
    pub const NONE: LossModel = LossModel::bernoulli(Chance::NEVER);

    /// The model of a medium that loses each packet with the same chance.
    pub const fn bernoulli(chance: Chance) -> LossModel {
        LossModel::Bernoulli(bernoulli::Parameters { chance })
    }

    /// The model of a medium that loses the packets with these numbers, counted from 1.
    pub const fn list(packets: Vec<u64>) -> LossModel {
        LossModel::List(list::Parameters { packets })
    }
}
