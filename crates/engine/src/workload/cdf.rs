//! Sizes as they were recorded.

use super::Distribution;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};

/// A cumulative distribution from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    distribution: Distribution,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "cdf",
        doc: "Sizes as they were recorded.",
        fields: &[Field {
            name: "cdf",
            kind: Kind::Cdf,
            absent: Absent::Required,
            doc: "A file, named relative to the scenario's folder: on each line a size in bytes and the share of all \
                  transfers, from 0 to 1, that are no larger. Both ascend, and the last share is 1; between two lines \
                  every size is as likely.",
        }],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters { distribution: values.cdf("cdf") })
    }
}

impl Parameters {
    /// The distribution itself.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }
}
