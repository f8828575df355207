//! Losses that no queue caused: on the medium, after service.
//!
//! | model | a packet of `len` bytes is lost |
//! |---|---|
//! | [`Bernoulli`] | with the same chance as any other |
//! | [`Bit`] | if any of its `8 len` bits is wrong |
//! | [`GilbertElliott`] | with a chance that depends on whether the medium is in its good or its bad state |
//! | [`List`] | if its number is on the list |
//! | [`Steps`] | with a chance that changes at known times |
//!
//! A model that draws owns its generator, so that adding a link changes no other link's losses.

mod bernoulli;
mod bit;
mod gilbert_elliott;
mod list;
mod steps;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::time::Time;
use crate::units::Bytes;

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
