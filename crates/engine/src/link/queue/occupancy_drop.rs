//! The router queue of TCP decoupling for circuits whose VMSS nobody knows (thesis s2.3.1, the last alternative): header
//! packets are dropped by all bytes that wait.

use super::header_drop::{Early, HeaderDrop, UNMARKED, bytes_max, header_departure, unmarked_is_header};
use super::red::{WEIGHT_BITS, weight_bits};
use super::{Queue, Site};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, SIZE_BYTES_MAX, Values};
use crate::units::Bytes;

/// The parameters of a queue that drops headers first, by all bytes that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The average of waiting bytes from which on header packets are dropped by chance.
    pub threshold: Bytes,
    /// Bytes that may wait at all; more than the threshold.
    pub bytes_max: Bytes,
    /// True if a packet of no circuit counts as a header.
    pub unmarked_is_header: bool,
    /// What decides follows the waiting bytes with the weight 2^-`weight_bits`; 0 is those bytes themselves.
    pub weight_bits: u32,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "occupancy-drop",
        doc: "As `header-drop`, by all bytes that wait (section 2.3.1 of the thesis).",
        fields: &[
            Field {
                name: "buffer",
                kind: Kind::Capacity,
                absent: Absent::Is("unlimited"),
                doc: "How many bytes may wait: a size, larger than the `threshold`.",
            },
            Field {
                name: "threshold",
                kind: Kind::Size { min: 1, max: SIZE_BYTES_MAX },
                absent: Absent::Required,
                doc: "From this average of waiting bytes on some header packets are dropped, all of them when the `buffer` \
                      is full.",
            },
            UNMARKED,
            Field {
                doc: "What decides follows the waiting bytes with the weight 2^-`weight_bits` at each header that comes; 0 \
                      is those bytes themselves, which is what the thesis goes by.",
                ..WEIGHT_BITS
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let (threshold, bytes_max) = (values.size("threshold"), bytes_max(values)?);
        if bytes_max == Bytes::MAX || threshold >= bytes_max {
            let text = format!("a buffer in bytes, more than the threshold of {threshold}, is what all are dropped at");
            return Err(Mistake { field: "buffer", text });
        }
        Ok(Parameters {
            threshold,
            bytes_max,
            unmarked_is_header: unmarked_is_header(values),
            weight_bits: weight_bits(values, 0),
        })
    }
}

impl Parameters {
    /// An empty queue.
    pub fn build(&self, site: Site<'_>) -> Box<dyn Queue> {
        let early = Early::Occupancy(self.threshold);
        let departure = header_departure(&site);
        Box::new(HeaderDrop::new(early, self.bytes_max, self.unmarked_is_header, self.weight_bits, departure, site.rng))
    }
}
