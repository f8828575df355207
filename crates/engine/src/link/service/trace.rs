//! A link that was recorded: by its opportunities, or by its rates.

use std::sync::Arc;

use super::{Opportunities, Service, Steps, steps};
use crate::link::recording::{Recording, Series};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Recorded, SIZE_BYTES_MAX, Values};
use crate::time::Duration;
use crate::units::{Bytes, Rate};

/// A recording of a link's rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// The times at which the link could deliver so many bytes; after the last of them it starts again.
    Opportunities {
        /// The times, ascending, of which the last is not zero.
        times: Arc<[Duration]>,
        /// The bytes of each.
        each: Bytes,
    },
    /// The rates at which it served.
    Rates(Series<Rate>),
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "trace",
        doc: "A link that was recorded.",
        fields: &[
            Field {
                name: "trace",
                kind: Kind::Recording(Recorded::Rate),
                absent: Absent::Required,
                doc: "A recording, relative to the scenario's folder: a table with a column such as `rate_mbps`, or one in mahimahi's \
                      format, with on each line a time in milliseconds at which the link can deliver 1500 bytes. After the last it \
                      starts again.",
            },
            Field {
                name: "opportunity",
                kind: Kind::Size { min: 1, max: SIZE_BYTES_MAX },
                absent: Absent::Is("1500B"),
                doc: "What a line of mahimahi's format is good for; CellReplay's are for 1400 bytes.",
            },
            Field::AT_END,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let mistake = |field, text: &str| Err(Mistake { field, text: text.to_owned() });
        match values.recording("trace") {
            Recording::Opportunities(_) if !values.starts_again() => {
                mistake("at_end", "a recording of opportunities has no rate that could hold: leave it out")
            }
            Recording::Opportunities(times) => {
                Ok(Parameters::Opportunities { times, each: values.size("opportunity") })
            }
            Recording::Rates(rates) if values.starts_again() => Ok(Parameters::Rates(rates)),
            Recording::Rates(rates) => {
                let rates = rates.hold();
                if rates.last_held() == Some(Rate::bit(0)) {
                    return mistake("at_end", "the recording ends with a rate of zero, which would hold for good");
                }
                Ok(Parameters::Rates(rates))
            }
            other => panic!("a recording of rates has some, not {other:?}"),
        }
    }
}

impl Parameters {
    /// The link at the start of the recording.
    pub fn build(&self) -> Box<dyn Service> {
        match self {
            Parameters::Opportunities { times, each } => Box::new(Opportunities::new(times.clone(), *each)),
            Parameters::Rates(rates) => Box::new(Steps::new(rates.clone())),
        }
    }

    /// The mean time from one opportunity to the next, or what the first rate takes.
    pub fn usual_time_for(&self, len: Bytes) -> Duration {
        match self {
            Parameters::Opportunities { times, .. } => times[times.len() - 1] / times.len() as u64,
            Parameters::Rates(rates) => steps::Parameters { steps: rates.clone() }.usual_time_for(len),
        }
    }
}
