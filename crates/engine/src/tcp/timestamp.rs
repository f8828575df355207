//! The clock of the timestamps option (RFC 7323 s3).

use crate::time::{Duration, Time};

/// The clock ticks every millisecond (RFC 7323 s5.4), so an echo is exact to this only.
const TICK: Duration = Duration::from_millis(1);

/// The clock's value at a time.
pub(crate) fn value(at: Time) -> u32 {
    ticks(at) as u32
}

/// The last time not after `now` at which the clock showed `echo`, or zero.
pub(crate) fn sent_at(now: Time, echo: u32) -> Time {
    let age = value(now).wrapping_sub(echo);
    Time::from_nanos(ticks(now).saturating_sub(u64::from(age)) * TICK.as_nanos())
}

/// Ticks since time zero: two times with the same number have the same timestamp.
pub(crate) fn ticks(at: Time) -> u64 {
    at.as_nanos() / TICK.as_nanos()
}
