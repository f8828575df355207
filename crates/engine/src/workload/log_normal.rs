//! Sizes whose logarithms are normal.

use super::Distribution;
use super::binary::{exp2_of_minus, scaled_down, scaled_up};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, SIZE_BYTES_MAX, Values};

/// A log-normal distribution, given by its median and its mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    distribution: Distribution,
}

/// Points for each standard deviation, of which there are [`DEVIATIONS`] either way.
const POINTS: u64 = 64;
/// Standard deviations either way of the median: one size in 16,000 would be beyond, and is not.
const DEVIATIONS: u64 = 4;
/// log2(e), in 2^-32.
const LOG2_E: u64 = 6_196_328_019;
/// The standard deviations of the logarithm to the base of two that are tried, in 2^-16.
const SPREADS: [u64; 2] = [1, 8 << 16];

const SIZE: Kind = Kind::Size { min: 1, max: SIZE_BYTES_MAX };

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "log-normal",
        doc: "Sizes whose logarithms are normal.",
        fields: &[
            Field {
                name: "mean",
                kind: SIZE,
                absent: Absent::Required,
                doc: "The mean size, from which the spread follows.",
            },
            Field {
                name: "median",
                kind: SIZE,
                absent: Absent::Required,
                doc: "The size that half of all do not reach.",
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let [median, mean] = ["median", "mean"].map(|field| values.size(field));
        let of_spread = |spread| distribution(median.get(), spread);
        let [narrow, wide] = SPREADS.map(|spread| of_spread(spread).mean());
        if !(narrow..=wide).contains(&mean) {
            let text = format!("is {mean}, and with a median of {median} means from {narrow} to {wide} are possible");
            return Err(Mistake { field: "mean", text });
        }
        let [mut low, mut high] = SPREADS;
        while high - low > 1 {
            let middle = low.midpoint(high);
            if of_spread(middle).mean() > mean { high = middle } else { low = middle }
        }
        Ok(Parameters { distribution: of_spread(low) })
    }
}

impl Parameters {
    /// The distribution itself.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }
}

/// The distribution with a median of so many bytes, the standard deviation of whose logarithm to the base of two is `spread`
/// in 2^-16.
fn distribution(median: u64, spread: u64) -> Distribution {
    let last = DEVIATIONS * POINTS;
    // exp(-z^2 / 2) for z standard deviations, in 2^-40.
    let density = |point: u64| {
        let exponent = u128::from(point * point) * u128::from(LOG2_E) / u128::from(2 * POINTS * POINTS);
        exp2_of_minus(exponent as u64) >> 23
    };
    let mut weight = 0;
    let points: Vec<(u64, u64)> = (0..=2 * last)
        .map(|point| {
            if point > 0 {
                weight += density(point.abs_diff(last)) + density((point - 1).abs_diff(last));
            }
            let exponent = ((point.abs_diff(last) * spread) << 16) / POINTS;
            let size =
                if point < last { scaled_down(median, exponent) } else { scaled_up(median, exponent, SIZE_BYTES_MAX) };
            (size, weight)
        })
        .collect();
    Distribution::of_weights(&points)
}
