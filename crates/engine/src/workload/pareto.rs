//! Sizes with a heavy tail.

use super::Distribution;
use super::binary::{ONE, exp2_of_minus, log2, scaled_down};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, SIZE_BYTES_MAX, Values};
use crate::units::Bytes;

/// A Pareto distribution that is cut off at both ends, given by its mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    distribution: Distribution,
}

/// Lines between points of the cumulative distribution, each as many times as large as the one before.
const LINES: u64 = 512;
/// The shapes that are tried, in 2^-16: from so flat that the logarithms of sizes are uniform to one that leaves little but
/// the smallest.
const SHAPES: [u64; 2] = [1, 64 << 16];

const SIZE: Kind = Kind::Size { min: 1, max: SIZE_BYTES_MAX };

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "pareto",
        doc: "Sizes with a heavy tail: of those above some size, the share above its double is always the same.",
        fields: &[
            Field {
                name: "mean",
                kind: SIZE,
                absent: Absent::Required,
                doc: "The mean size, from which the shape follows.",
            },
            Field { name: "least", kind: SIZE, absent: Absent::Required, doc: "The smallest size." },
            Field { name: "most", kind: SIZE, absent: Absent::Required, doc: "The largest size." },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let [least, mean, most] = ["least", "mean", "most"].map(|field| values.size(field));
        if most.get().saturating_sub(least.get()) <= least.get() / 100 {
            let text = format!("is {least}, and `most` is {most}: it must be less, by more than a hundredth of it");
            return Err(Mistake { field: "least", text });
        }
        let of_shape = |shape| distribution(least.get(), most.get(), shape);
        let [flat, steep] = SHAPES.map(|shape| of_shape(shape).mean());
        if !(steep..=flat).contains(&mean) {
            let text = format!("is {mean}, and from {least} to {most} means from {steep} to {flat} are possible");
            return Err(Mistake { field: "mean", text });
        }
        // The steeper, the less.
        let [mut low, mut high] = SHAPES;
        while high - low > 1 {
            let middle = low.midpoint(high);
            if of_shape(middle).mean() < mean { high = middle } else { low = middle }
        }
        Ok(Parameters { distribution: of_shape(low) })
    }
}

impl Parameters {
    /// The distribution itself.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }
}

/// The distribution of sizes from `least` to `most` bytes of which a share of (size / least)^-shape is larger, before it is
/// cut off; `shape` in 2^-16.
fn distribution(least: u64, most: u64, shape: u64) -> Distribution {
    // How often `least` doubles, in 2^-32.
    let doublings = log2(most) - log2(least);
    let points: Vec<(u64, u64)> = (0..=LINES)
        .map(|line| {
            let size = scaled_down(most, doublings * (LINES - line) / LINES).max(least);
            let doublings = u128::from(doublings) * u128::from(line) / u128::from(LINES);
            let larger = exp2_of_minus(u64::try_from((doublings * u128::from(shape)) >> 16).unwrap_or(u64::MAX));
            (Bytes::new(size).get(), ONE - larger)
        })
        .collect();
    Distribution::of_weights(&points)
}
