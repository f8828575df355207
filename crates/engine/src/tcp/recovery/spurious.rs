//! Judges whether the last reduction of the window was a mistake. F-RTO asks after a timeout (RFC 5682 s3, its enhanced form
//! for SACK); timestamps (RFC 3522) and D-SACK (RFC 3708) tell of retransmissions whose originals arrived. RFC 4015 says what
//! to do.

use super::Acknowledgement;
use crate::tcp::flight::Flight;
use crate::tcp::timestamp;
use crate::time::Time;

/// The memory of the last reduction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spurious {
    frto: Option<Frto>,
    episode: Option<Episode>,
}

/// The timer expired and nothing that came since shows whether it had to.
#[derive(Clone, Copy, Debug)]
struct Frto {
    /// The position one past what had been sent by then.
    end: u64,
    /// RFC 5682 s3.1 step 2b: new data before more retransmissions.
    send_new: bool,
}

/// A reduction and the retransmissions that came with it.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// SND.UNA when it began, and one past the last retransmission.
    from: u64,
    to: u64,
    /// The time when the first retransmission left.
    first: Option<Time>,
    /// Retransmissions of which no D-SACK has told.
    unreported: u64,
}

impl Spurious {
    /// The window is reduced now.
    pub(crate) fn on_reduction(&mut self, flight: &Flight) {
        self.frto = None;
        // What was sent again before and is still on its way is no original: its echo shows nothing.
        let first = self.episode.filter(|before| before.to > flight.una).and_then(|before| before.first);
        self.episode =
            flight.undo_spurious.then_some(Episode { from: flight.una, to: flight.una, first, unreported: 0 });
    }

    /// The timer expired now; `unexplained` unless losses were being repaired already.
    pub(crate) fn on_timeout(&mut self, flight: &Flight, unexplained: bool) {
        self.frto = (flight.frto && unexplained).then_some(Frto { end: flight.max, send_new: false });
    }

    /// A segment up to `end` is sent again.
    pub(crate) fn on_resent(&mut self, now: Time, end: u64) {
        if let Some(episode) = &mut self.episode {
            episode.first.get_or_insert(now);
            episode.unreported += 1;
            episode.to = episode.to.max(end);
        }
    }

    /// True while something may still turn out to have been a mistake.
    pub(crate) fn is_open(&self) -> bool {
        self.frto.is_some() || self.episode.is_some()
    }

    /// True if this acknowledgement shows the reduction to have been a mistake. `repairing`: it is still in effect;
    /// `original` is the least end of a segment that was sent only once and is delivered by it; `news`: it reports
    /// something by SACK.
    pub(crate) fn is_shown(
        &mut self,
        flight: &Flight,
        ack: &Acknowledgement<'_>,
        repairing: bool,
        original: u64,
        news: bool,
    ) -> bool {
        let shown = self.shown_by_order(flight, ack, original, news)
            || repairing && self.shown_by_echo(flight, ack)
            || self.shown_by_dsack(flight, ack);
        if shown {
            *self = Spurious::default();
        }
        shown
    }

    /// RFC 5682 s3.1: after the timeout, something arrives that was sent before it and not again.
    fn shown_by_order(&mut self, flight: &Flight, ack: &Acknowledgement<'_>, original: u64, news: bool) -> bool {
        let Some(frto) = &mut self.frto else { return false };
        if original <= frto.end {
            return true;
        }
        let advanced = ack.acked(flight) > 0;
        if flight.una >= frto.end || (flight.max > frto.end && (news || ack.duplicate)) {
            // Step 3a: what was sent since has arrived and the rest has not.
            self.frto = None;
        } else if flight.max > frto.end || !advanced {
            frto.send_new = false;
        } else if flight.max < flight.end.min(flight.edge) {
            frto.send_new = true;
        } else {
            self.frto = None;
        }
        false
    }

    /// RFC 3522 s3.2: the echo is of a segment that left before the first retransmission.
    fn shown_by_echo(&self, flight: &Flight, ack: &Acknowledgement<'_>) -> bool {
        let first = self.episode.and_then(|episode| episode.first);
        ack.acked(flight) > 0
            && first.zip(ack.echoed).is_some_and(|(first, echoed)| timestamp::ticks(echoed) < timestamp::ticks(first))
    }

    /// RFC 3708 s3.2: every retransmission is reported to have come twice.
    fn shown_by_dsack(&mut self, flight: &Flight, ack: &Acknowledgement<'_>) -> bool {
        let (Some(episode), Some((left, right))) = (&mut self.episode, ack.dsack) else { return false };
        if left < episode.from || right > episode.to.min(flight.una) || episode.unreported == 0 {
            return false;
        }
        // A receiver may put several segments into one report.
        let reported = (right - left).div_ceil(flight.mss.max(1));
        episode.unreported = episode.unreported.saturating_sub(reported);
        episode.unreported == 0
    }

    /// True if new data shall leave before what is taken for lost.
    pub(crate) fn wants_new_data(&self) -> bool {
        self.frto.is_some_and(|frto| frto.send_new)
    }
}
