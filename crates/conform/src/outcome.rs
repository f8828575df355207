//! The outcome of one end of a connection: what it did and saw, from which faults are judged.

use std::io;

use super::fault::Fault;
use super::pattern::Difference;
use super::told::Told;

/// The end of the direction towards an end, as it arrived there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It had not when this end left.
    Open,
    /// It ended with a FIN.
    Clean,
    /// It ended with a reset, or what the kernel makes of one.
    Reset,
}

/// The doings of one end, and what it saw.
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
    /// Faults that it saw by itself.
    pub(crate) faults: Vec<Fault>,
    /// The proxy answered in place of the server; with this.
    pub(crate) refused: Option<String>,
    /// An answer said that its connection ends, and it did not.
    pub(crate) is_unclosed: bool,
    /// The client that the server was told of.
    pub(crate) told: Option<Told>,
}
