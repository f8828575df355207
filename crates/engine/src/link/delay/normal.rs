//! A delay around a mean.

use super::{Delay, OVERTAKE, SPAN};
use crate::part::{Absent, Description, Field, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::{Duration, Time};

/// The normal distribution of a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The mean.
    pub mean: Duration,
    /// The standard deviation.
    pub deviation: Duration,
    /// The shortest delay: what would be less is it.
    pub least: Duration,
    /// True if packets overtake those that take longer.
    pub overtake: bool,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "normal",
        doc: "Each packet's delay is drawn from a normal distribution (as the sum of twelve even draws), independent of the others.",
        fields: &[
            Field { name: "mean", kind: SPAN, absent: Absent::Required, doc: "The mean delay." },
            Field { name: "deviation", kind: SPAN, absent: Absent::Required, doc: "The standard deviation." },
            Field { name: "least", kind: SPAN, absent: Absent::Is("0s"), doc: "The shortest delay." },
            OVERTAKE,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let [mean, deviation, least] = ["mean", "deviation", "least"].map(|field| values.span(field));
        if least > mean {
            return Err(Mistake { field: "least", text: format!("must not be above `mean`, {mean}") });
        }
        Ok(Parameters { mean, deviation, least, overtake: values.flag("overtake") })
    }
}

impl Parameters {
    /// The delay, with the generator that it draws from.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Delay>> {
        Some(Box::new(Normal { parameters: self.clone(), rng }))
    }

    /// The least, or six deviations below the mean.
    pub fn shortest(&self) -> Duration {
        self.least.max(self.mean.saturating_sub(self.deviation * 6))
    }

    /// True if packets overtake those that take longer.
    pub fn overtakes(&self) -> bool {
        self.overtake
    }
}

/// The sum of twelve even draws has a standard deviation of one, and is the normal distribution's to 2% of a deviation within two of
/// the mean; it ends six deviations from it. All in integers, so that it is the same on every machine.
#[derive(Debug)]
pub struct Normal {
    parameters: Parameters,
    rng: Rng,
}

impl Delay for Normal {
    fn after(&mut self, _sent: Time) -> Duration {
        let Parameters { mean, deviation, least, .. } = self.parameters;
        let twelve: i128 = (0..6)
            .map(|_| {
                let bits = self.rng.bits();
                i128::from(bits >> 32) + i128::from(bits & 0xffff_ffff)
            })
            .sum();
        let off = ((twelve - (6 << 32)) * i128::from(deviation.as_nanos())) >> 32;
        let nanos = (i128::from(mean.as_nanos()) + off).max(i128::from(least.as_nanos()));
        Duration::from_nanos(u64::try_from(nanos).expect("an hour and six deviations of as much fit"))
    }
}
