//! A distribution of sizes, as points of its cumulative distribution.

use std::sync::Arc;

use super::binary::ONE;
use crate::rng::Rng;
use crate::units::Bytes;

/// A distribution of sizes in bytes: points of its cumulative distribution, with straight lines between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Sizes, ascending, each with the chance, in 2^-63, of no more than that: ascending, and one at the end. What comes
    /// before the first is that of just the first.
    points: Arc<[(u64, u64)]>,
}

impl Distribution {
    /// The distribution with these points: sizes in bytes, each with the weight of all that are no larger.
    ///
    /// # Panics
    /// If there are none, sizes or weights do not ascend, or the last weight is zero.
    pub fn of_weights(points: &[(u64, u64)]) -> Distribution {
        let whole = points.last().expect("a point").1;
        assert!(whole > 0, "something has a weight");
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1), "points ascend");
        let share = |weight: u64| (u128::from(weight) * u128::from(ONE) / u128::from(whole)) as u64;
        Distribution { points: points.iter().map(|&(size, weight)| (size, share(weight))).collect() }
    }

    /// A size, at least one byte.
    pub fn draw(&self, rng: &mut Rng) -> Bytes {
        let chance = rng.bits() >> 1;
        let above = self.points.partition_point(|point| point.1 <= chance);
        let (size, reached) = self.points[above];
        let size = match above.checked_sub(1).map(|below| self.points[below]) {
            None => size,
            Some((from, since)) => {
                let [way, done, all] = [size - from, chance - since, reached - since].map(u128::from);
                from + (way * done / all) as u64
            }
        };
        Bytes::new(size.max(1))
    }

    /// The mean size, rounded to a byte; at least one.
    pub fn mean(&self) -> Bytes {
        let first = self.points[0];
        let atom = u128::from(first.0) * 2 * u128::from(first.1);
        let lines = self.points.windows(2).map(|pair| {
            let [(from, since), (to, reached)] = [pair[0], pair[1]];
            u128::from(from + to) * u128::from(reached - since)
        });
        // Twice the mean, in 2^-63. Sizes have 50 bits.
        let twice: u128 = atom + lines.sum::<u128>();
        Bytes::new(((twice + u128::from(ONE)) >> 64).max(1) as u64)
    }
}
