//! Losses in bursts.

use super::Loss;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

/// The chances of a medium that is good or bad, as [`GilbertElliott`] explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Chance, at each packet, of leaving the good state.
    pub good_to_bad: Chance,
    /// Chance, at each packet, of leaving the bad state.
    pub bad_to_good: Chance,
    /// Chance of loss in the good state.
    pub loss_good: Chance,
    /// Chance of loss in the bad state.
    pub loss_bad: Chance,
}

const fn chance(name: &'static str, absent: Absent, doc: &'static str) -> Field {
    Field { name, kind: Kind::Chance, absent, doc }
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "gilbert-elliott",
        doc: "Packets are lost in bursts, by a medium that is good or bad.",
        fields: &[
            chance("good_to_bad", Absent::Required, "Chance, at each packet, of leaving the good state."),
            chance("bad_to_good", Absent::Required, "Chance, at each packet, of leaving the bad state."),
            chance("loss_good", Absent::Is("0%"), "Chance of loss in the good state."),
            chance("loss_bad", Absent::Is("100%"), "Chance of loss in the bad state."),
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters {
            good_to_bad: values.chance("good_to_bad"),
            bad_to_good: values.chance("bad_to_good"),
            loss_good: values.chance("loss_good"),
            loss_bad: values.chance("loss_bad"),
        })
    }
}

impl Parameters {
    /// The medium, in its long-run state.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Loss>> {
        let Parameters { good_to_bad, bad_to_good, loss_good, loss_bad } = *self;
        Some(Box::new(GilbertElliott::new(good_to_bad, bad_to_good, loss_good, loss_bad, rng)))
    }
}

/// A medium that is good or bad, and loses packets with a chance that depends on which (Gilbert 1960, Elliott 1963).
///
/// With `g = good_to_bad`, `b = bad_to_good`, the losses `l_good` and `l_bad` and one step for each packet:
///
/// - the medium is bad for `1/b` packets at a time on average, good for `1/g`, and bad for `g / (g + b)` of all;
/// - the mean loss is `(b l_good + g l_bad) / (g + b)`;
/// - a run of consecutive losses is `1/b` long on average if `l_good` is 0 and `l_bad` 1 (Gilbert's simplest case), and
///   `1 / (1 - l_bad (1 - b))` for any `l_bad` as long as `l_good` is 0.
///
/// The first packet finds the medium bad with the long-run chance `g / (g + b)`, so that the mean loss is the same for
/// short transfers as for long ones; a medium that cannot change (both zero) is good.
#[derive(Debug)]
pub struct GilbertElliott {
    good_to_bad: Chance,
    bad_to_good: Chance,
    loss_good: Chance,
    loss_bad: Chance,
    bad: bool,
    rng: Rng,
}

impl GilbertElliott {
    /// A medium that changes state with the first two chances for each packet, and loses it with the others.
    pub fn new(
        good_to_bad: Chance,
        bad_to_good: Chance,
        loss_good: Chance,
        loss_bad: Chance,
        mut rng: Rng,
    ) -> GilbertElliott {
        let bad = rng.strikes(share(good_to_bad, bad_to_good));
        GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad, bad, rng }
    }
}

impl Loss for GilbertElliott {
    fn strikes(&mut self, _now: Time, _len: Bytes) -> bool {
        let (loss, change) =
            if self.bad { (self.loss_bad, self.bad_to_good) } else { (self.loss_good, self.good_to_bad) };
        let lost = self.rng.strikes(loss);
        self.bad ^= self.rng.strikes(change);
        lost
    }
}

/// `part / (part + rest)`, or never if both are never.
fn share(part: Chance, rest: Chance) -> Chance {
    let whole = u128::from(part.raw()) + u128::from(rest.raw());
    if whole == 0 {
        return Chance::NEVER;
    }
    let share = (u128::from(part.raw()) << 64) / whole;
    Chance::from_raw(u64::try_from(share).unwrap_or(u64::MAX))
}
