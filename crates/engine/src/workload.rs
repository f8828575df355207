//! Workloads: how large the transfers are that users ask for, and when the next user comes.
//!
//! A model of sizes is a file: its parameters describe themselves as the [`part`](crate::part) module says, and are a
//! [`Distribution`]. [`SizeModel`] has a line for each. All is in integers, so that a seed means the same transfers on
//! every machine.

mod binary;
pub mod cdf;
pub mod distribution;
pub mod log_normal;
pub mod pareto;
pub mod published;
#[cfg(test)]
mod tests;

use crate::part::registry;
use crate::rng::Rng;
use crate::time::Duration;

pub use distribution::Distribution;

registry! {
    /// The distributions that the sizes of transfers can have.
    pub enum SizeModel {
        Cdf(cdf::Parameters),
        WebSearch(published::WebSearch),
        DataMining(published::DataMining),
        Pareto(pareto::Parameters),
        LogNormal(log_normal::Parameters),
    }

    /// The distribution itself.
    fn distribution(&self) -> &Distribution;
}

/// The natural logarithm of 2, in 2^-32.
const LN_2: u64 = 2_977_044_472;

/// The times of a Poisson process before `end`, `gap` apart in the mean, ascending; no more than `most` of them.
pub fn arrivals(rng: &mut Rng, gap: Duration, end: Duration, most: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut now = 0_u64;
    while times.len() < most {
        // -ln(u) for a uniform u in (0, 1], in 2^-32.
        let doublings = (64 << 32) - binary::log2(rng.bits().max(1));
        let unit = (u128::from(doublings) * u128::from(LN_2)) >> 32;
        let gap = (unit * u128::from(gap.as_nanos())) >> 32;
        now = now.saturating_add(u64::try_from(gap).unwrap_or(u64::MAX));
        if now >= end.as_nanos() {
            break;
        }
        times.push(Duration::from_nanos(now));
    }
    times
}
