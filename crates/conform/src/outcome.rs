//! What one end of a connection did and saw, from which faults are judged.

use std::io;

use super::fault::Fault;
use super::pattern::Difference;
use super::told::Told;

/// How the direction towards an end ended there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It had not when this end left.
    Open,
    /// With a FIN.
    Clean,
    /// With a reset, or what the kernel makes of one.
    Reset,
}

/// What one end did and saw.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) difference: Option<Difference>,
    pub(crate) arrival: Arrival,
    /// Why it could not write on.
    pub(crate) write_error: Option<io::ErrorKind>,
    /// It was told to leave before its part was over; at this.
    pub(crate) cut_at: Option<&'static str>,
    /// Bytes on the way when nothing held it back.
    pub(crate) not_held: Option<u64>,
    /// What it saw that is wrong by itself.
    pub(crate) faults: Vec<Fault>,
    /// The proxy answered in place of the server; with this.
    pub(crate) refused: Option<String>,
    /// An answer said that its connection ends, and it did not.
    pub(crate) is_unclosed: bool,
    /// What the server was told of the client.
    pub(crate) told: Option<Told>,
}
