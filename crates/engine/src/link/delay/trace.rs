//! A delay that was recorded.

use super::{Delay, NANOS_MAX, OVERTAKE, steps};
use crate::link::recording::{Recording, Series};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Recorded, Values};
use crate::rng::Rng;
use crate::time::{Duration, Time};

/// How long all lines may take together: 1,000 hours.
const WHOLE_NS_MAX: u64 = 3_600_000_000_000_000;

/// A recording of a link's delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The delays.
    pub delays: Series<Duration>,
    /// True if packets overtake those that take longer.
    pub overtake: bool,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "trace",
        doc: "The delay that was recorded.",
        fields: &[
            Field {
                name: "trace",
                kind: Kind::Recording(Recorded::Delay),
                absent: Absent::Required,
                doc: "A recording, relative to the scenario's folder: a table with a column such as `delay_ms`; delays in milliseconds, \
                      one a line (LeoReplayer's); or times and delays in milliseconds (CellReplay's).",
            },
            Field {
                name: "span",
                kind: Kind::Span { min: 1_000_000, max: NANOS_MAX },
                absent: Absent::Is("10ms"),
                doc: "How long each line of LeoReplayer's format holds.",
            },
            Field::AT_END,
            OVERTAKE,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let delays = match values.recording("trace") {
            Recording::Delays(delays) => delays,
            Recording::DelaysBySpan(delays) => {
                let span = values.span("span");
                if span.as_nanos().checked_mul(delays.len() as u64).is_none_or(|all| all > WHOLE_NS_MAX) {
                    let text = format!("is {span}, and with {} lines that is longer than 1,000 hours", delays.len());
                    return Err(Mistake { field: "span", text });
                }
                let times = (0..).map(|line| Time::ZERO + span * line);
                Series::repeated(times.zip(delays.iter().copied()).collect::<Vec<_>>(), span * delays.len() as u64)
            }
            other => panic!("a recording of delays has some, not {other:?}"),
        };
        let delays = if values.starts_again() { delays } else { delays.hold() };
        Ok(Parameters { delays, overtake: values.flag("overtake") })
    }
}

impl Parameters {
    fn steps(&self) -> steps::Parameters {
        steps::Parameters { steps: self.delays.clone() }
    }

    /// The delay from the start on.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Delay>> {
        self.steps().build(rng)
    }

    /// The shortest of them.
    pub fn shortest(&self) -> Duration {
        self.steps().shortest()
    }

    /// True if packets overtake those that take longer.
    pub fn overtakes(&self) -> bool {
        self.overtake
    }
}
