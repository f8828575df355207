//! A delay with a long tail.

use super::{Delay, NANOS_MAX, OVERTAKE, SPAN};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::{Duration, Time};

/// The Pareto distribution of a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The shortest delay.
    pub least: Duration,
    /// The exponent of the tail: a delay is above `x` with the chance `(least / x)^shape`.
    pub shape: u32,
    /// The longest delay: what would be more is it.
    pub most: Duration,
    /// True if packets overtake those that take longer.
    pub overtake: bool,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "pareto",
        doc: "Each packet's delay is drawn from a Pareto distribution, independent of the others: above `x` with the chance \
              `(least / x)^shape`.",
        fields: &[
            Field {
                name: "least",
                kind: Kind::Span { min: 0, max: NANOS_MAX },
                absent: Absent::Is("0s"),
                doc: "The shortest delay, longer than none.",
            },
            Field {
                name: "shape",
                kind: Kind::Count { min: 1, max: 20 },
                absent: Absent::Is("3"),
                doc: "The exponent. The mean is `least shape / (shape - 1)`, but for `most`.",
            },
            Field {
                name: "most",
                kind: SPAN,
                absent: Absent::Required,
                doc: "The longest delay: what would be more is it.",
            },
            OVERTAKE,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let (least, most) = (values.span("least"), values.span("most"));
        if least == Duration::ZERO {
            return Err(Mistake {
                field: "least",
                text: "must be longer than none: all others are multiples of it".into(),
            });
        }
        if most < least {
            return Err(Mistake { field: "most", text: format!("must not be below `least`, {least}") });
        }
        Ok(Parameters { least, shape: values.small("shape"), most, overtake: values.flag("overtake") })
    }
}

impl Parameters {
    /// The delay, with the generator that it draws from.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Delay>> {
        Some(Box::new(Pareto { parameters: self.clone(), rng }))
    }

    /// The lower bound.
    pub fn shortest(&self) -> Duration {
        self.least
    }

    /// True if packets overtake those that take longer.
    pub fn overtakes(&self) -> bool {
        self.overtake
    }
}

/// A delay whose inverse is a power of an even draw, in integers, so that it is the same on every machine.
#[derive(Debug)]
pub struct Pareto {
    parameters: Parameters,
    rng: Rng,
}

/// One, with 32 bits behind the point.
const ONE: u128 = 1 << 32;

impl Delay for Pareto {
    fn after(&mut self, _sent: Time) -> Duration {
        let Parameters { least, shape, most, .. } = self.parameters;
        let least = u128::from(least.as_nanos());
        // The largest factor whose power is at most the inverse of an even draw from above zero up to one.
        let inverse = (ONE << 64) / (u128::from(self.rng.bits()) + 1);
        let (mut low, mut high) = (ONE, u128::from(most.as_nanos()) * ONE / least);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if power(middle, shape, inverse) > inverse {
                high = middle - 1;
            } else {
                low = middle;
            }
        }
        Duration::from_nanos(u64::try_from(least * low / ONE).expect("it is not above the longest"))
    }
}

/// `base^exponent`, or something above `enough` if it is above that; all with 32 bits behind the point.
fn power(base: u128, exponent: u32, enough: u128) -> u128 {
    let mut product = ONE;
    for _ in 0..exponent {
        // At most 2^96 times 2^74: an hour in nanoseconds has 42 bits. What would not fit is enough.
        product = match product.checked_mul(base) {
            Some(product) => product / ONE,
            None => return u128::MAX,
        };
        if product > enough {
            break;
        }
    }
    product
}
