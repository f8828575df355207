//! The sampler of `TCP_INFO`: the time series of each sender, and what only a series shows.

use std::time::Duration as StdDuration;

use headend_engine::time::Time;
use headend_engine::units::Bytes;
use headend_host::socket::{Info, RecoveryPhase};
use headend_scenario::results::trace::Sample;

use super::stage::Stage;
use super::traffic::Transfer;

/// The time between two questions. A fast recovery lasts a round trip at least, so hardly one comes and goes unseen.
const EVERY: StdDuration = StdDuration::from_millis(5);

/// The facts that the samples of one sender show.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// A sample for each change that was seen; times count from the beginning of the run.
    pub(super) samples: Vec<Sample>,
    pub(super) cwnd_max: Bytes,
    /// Fast recoveries that were seen to begin.
    pub(super) recoveries: u64,
    was_recovering: bool,
}

impl Series {
    fn take(&mut self, at: Time, info: &Info) {
        let mss = info.mss.get();
        let sent = info.sent.unwrap_or_default().saturating_sub(info.resent.unwrap_or_default());
        let sample = Sample {
            time: at,
            cwnd: info.cwnd().get(),
            ssthresh: info.ssthresh_segments.map(|segments| u64::from(segments) * mss),
            in_flight: info.in_flight().get(),
            rto: info.rto,
            una: info.acked.unwrap_or_default().get(),
            nxt: sent.get(),
        };
        if self.samples.last().is_none_or(|last| !last.says_the_same(&sample)) {
            self.samples.push(sample);
        }
        self.cwnd_max = self.cwnd_max.max(info.cwnd());
        let is_recovering = info.phase == RecoveryPhase::Recovery;
        self.recoveries += u64::from(is_recovering && !self.was_recovering);
        self.was_recovering = is_recovering;
    }
}

/// Samples all senders until the run stops. `begun` is when the run began.
pub(super) fn sample(transfers: &[Transfer], begun: Time, stage: &Stage) -> Vec<Series> {
    let mut series = vec![Series::default(); transfers.len()];
    let every = headend_engine::time::Duration::from_nanos(EVERY.as_nanos() as u64);
    let mut next = begun;
    loop {
        for (transfer, series) in transfers.iter().zip(&mut series) {
            if let Some(info) = transfer.sender_info() {
                series.take(Time::ZERO + stage.now().since(begun), &info);
            }
        }
        next = (next + every).max(stage.now());
        if !stage.sleep_until(next) {
            return series;
        }
    }
}
