//! The hand-shake: the SYNs, and the options that they agree on (RFC 9293 s3.5).

use super::{Agreed, Connection, Fault, Hello, Output, Phase, SYN_ATTEMPTS};
use crate::tcp::segment::{EcnFlags, Flags, Options, Segment};
use crate::tcp::sender::Sender;
use crate::tcp::{seq, timestamp};
use crate::time::Time;

const UNTIL_OPEN: &str = "a hand-shake lasts until its connection opens";

impl Connection {
    pub(super) fn receive_in_listen(&mut self, now: Time, segment: &Segment) {
        if segment.flags.rst {
            return;
        }
        if segment.flags.ack || !segment.flags.syn {
            self.refuse(segment);
            return;
        }
        self.take_syn(now, segment);
        self.agree_on_ecn(segment);
        self.phase = Phase::SynReceived;
        self.hello_mut().due = Some(now);
    }

    pub(super) fn receive_in_syn_sent(&mut self, now: Time, segment: &Segment) {
        let acknowledges = segment.flags.ack;
        if acknowledges && segment.ack != self.isn.wrapping_add(1) {
            self.refuse(segment);
            return;
        }
        if segment.flags.rst {
            if acknowledges {
                self.end(Fault::Refused);
            }
            return;
        }
        if !segment.flags.syn {
            return;
        }
        self.take_syn(now, segment);
        self.agree_on_ecn(segment);
        if acknowledges {
            self.establish(now, segment, 0);
            self.receiver.acknowledge();
        } else {
            // Simultaneous open.
            self.phase = Phase::SynReceived;
            self.hello_mut().due = Some(now);
        }
    }

    pub(super) fn take_syn(&mut self, now: Time, segment: &Segment) {
        self.irs = segment.seq;
        self.agree(&segment.options);
        self.window_from = (0, 0);
        if let Some((value, _)) = segment.options.timestamps {
            self.ts_recent = value;
            self.ts_recent_at = now;
        }
        self.last_ack_sent = 1;
    }

    pub(super) fn agree(&mut self, theirs: &Options) {
        let ours = self.syn_options();
        // RFC 9293 s3.7.1: 536 where the peer says nothing.
        let mss = theirs.mss.unwrap_or(536).min(ours.mss.unwrap_or(536));
        self.agreed = Agreed {
            mss: u64::from(mss),
            timestamps: ours.timestamps.is_some() && theirs.timestamps.is_some(),
            sack: ours.sack_permitted && theirs.sack_permitted,
            scale: theirs.window_scale.zip(ours.window_scale).map(|(theirs, ours)| (theirs.min(14), ours)),
        };
    }

    /// Begins to use ECN if the peer's SYN agrees to it.
    fn agree_on_ecn(&mut self, segment: &Segment) {
        let hello = self.hello();
        let policy = hello.personality.ecn;
        let asked = policy.syn(hello.attempts).has(EcnFlags::BOTH);
        if policy.agrees(asked, segment) {
            self.marks = Some(Box::default());
        }
    }

    pub(super) fn syn_options(&self) -> Options {
        Options {
            mss: Some(self.hello().personality.mss.get().clamp(1, 65_535) as u16),
            window_scale: self.hello().personality.window_scaling.then(|| self.own_scale()),
            sack_permitted: self.hello().personality.sack,
            timestamps: self.hello().personality.timestamps.then_some((0, self.ts_recent)),
            ..Options::default()
        }
    }

    /// The smallest shift that lets 16 bits express the receive buffer (RFC 7323 s2.3).
    pub(super) fn own_scale(&self) -> u8 {
        let buffer = self.hello().personality.receive_buffer.get();
        (0..14).find(|shift| buffer >> shift <= 65_535).unwrap_or(14)
    }

    pub(super) fn payload_max(&self) -> u64 {
        // RFC 6691: the options of data segments come off the payload; timestamps take 12 bytes, padded.
        self.agreed.mss.saturating_sub(if self.agreed.timestamps { 12 } else { 0 }).max(u64::from(self.agreed.mss > 0))
    }

    pub(super) fn establish(&mut self, now: Time, segment: &Segment, extra_window: u64) {
        let hello = self.hello_mut();
        if hello.copies == 1 {
            let sent = hello.sent;
            hello.rto.measure(sent, now);
            self.receiver.note_round_trip(now - sent);
        }
        // The window of a SYN is never scaled (RFC 7323 s2.2).
        let shift = if segment.flags.syn { 0 } else { self.agreed.scale.map_or(0, |(theirs, _)| theirs) };
        let window = u64::from(segment.window) << shift;
        self.open(1 + window, extra_window);
    }

    /// Ends the hand-shake, and lets go what it needed.
    pub(super) fn open(&mut self, edge: u64, extra_window: u64) {
        self.phase = Phase::Open;
        let Some(hello) = self.hello.take() else { unreachable!("a connection opens once") };
        let Hello { mut personality, mut rto, copies, attempts, .. } = *hello;
        // RFC 5681 s3.1: one segment after a lost SYN or SYN-ACK; RFC 6928 s2 with its large window: after two.
        if copies > if personality.initial_window_segments.is_none() { 2 } else { 1 } {
            personality.initial_window_segments = Some(1);
        }
        if attempts > 1 {
            rto.forgive_lost_syn();
        }
        let mut sender = Sender::new(&personality, self.payload_max(), self.agreed.sack, rto, extra_window, edge);
        if self.closing {
            sender.close();
        }
        self.sender = Some(Box::new(sender));
    }

    fn hello(&self) -> &Hello {
        self.hello.as_deref().expect(UNTIL_OPEN)
    }

    fn hello_mut(&mut self) -> &mut Hello {
        self.hello.as_deref_mut().expect(UNTIL_OPEN)
    }

    pub(super) fn poll_hello(&mut self, now: Time) -> Output {
        match self.hello().due {
            Some(due) if due <= now => {}
            due => {
                // In SYN-RECEIVED, what is not acceptable is acknowledged: so ends a simultaneous open.
                let answer = if self.phase == Phase::SynReceived { self.poll_acknowledgement(now) } else { None };
                return answer.map_or(Output::Wait(due), Output::Send);
            }
        }
        let hello = self.hello_mut();
        // Without back-off so many are sent that they take as long.
        let patience = if hello.personality.rto.backoff_max > 1 { 1 } else { SYN_ATTEMPTS };
        if hello.attempts == SYN_ATTEMPTS * patience {
            self.end(Fault::TimedOut);
            return Output::Wait(None);
        }
        if hello.attempts > 0 {
            hello.rto.back_off();
        }
        hello.attempts += 1;
        hello.due = Some(hello.rto.deadline(now));
        Output::Send(self.hello_segment(now))
    }

    /// The SYN, or the SYN-ACK.
    pub(super) fn hello_segment(&mut self, now: Time) -> Segment {
        let (answers, uses_ecn) = (self.phase == Phase::SynReceived, self.marks.is_some());
        let hello = self.hello_mut();
        hello.copies += 1;
        hello.sent = now;
        let ecn = match (answers, uses_ecn) {
            (true, true) => EcnFlags::ECE,
            (true, false) => EcnFlags::NONE,
            (false, _) => hello.personality.ecn.syn(hello.attempts),
        };
        let (_, window) = self.receiver.acknowledged();
        let mut options = self.syn_options();
        if answers {
            // Only what the peer offered (RFC 7323 s1.3, RFC 2018 s2).
            options.sack_permitted = self.agreed.sack;
            options.window_scale = self.agreed.scale.map(|(_, ours)| ours);
        }
        options.timestamps = options
            .timestamps
            .filter(|_| !answers || self.agreed.timestamps)
            .map(|_| (timestamp::value(now), if answers { self.ts_recent } else { 0 }));
        Segment {
            seq: self.isn,
            ack: if answers { seq::number(self.irs, 1) } else { 0 },
            len: 0,
            window: window.min(65_535) as u16,
            flags: Flags { syn: true, ack: answers, ecn, ..Flags::default() },
            options,
        }
    }
}
