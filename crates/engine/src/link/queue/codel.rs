//! CoDel: packets are dropped as they leave, ever more often, while none of them has waited less than the target for an interval
//! (Nichols, Jacobson, McGregor and Iyengar, RFC 8289).

use super::late::{MARKS, Struck};
use super::{Fifo, Queue, Site};
use crate::packet::Packet;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Capacity};

/// The parameters of a queue that CoDel manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// A limit to what may wait.
    pub buffer: Capacity,
    /// The law's target and interval.
    pub times: Times,
    /// True if packets that may be marked are marked, and not dropped.
    pub marks: bool,
}

/// The two times by which CoDel goes (RFC 8289 s4.2 and s4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The wait that a standing queue may have.
    pub target: Duration,
    /// A time in which some packet should have waited less: a round trip, at the worst.
    pub interval: Duration,
}

pub(super) const TARGET: Field = Field {
    name: "target",
    kind: Kind::Span { min: 1_000, max: 10_000_000_000 },
    absent: Absent::Follows("`codel` and `fq-codel`: 5ms; `pie` and `dualpi2`: 15ms"),
    doc: "The wait that a standing queue may have.",
};
pub(super) const INTERVAL: Field = Field {
    name: "interval",
    kind: Kind::Span { min: 1_000, max: 100_000_000_000 },
    absent: Absent::Is("100ms"),
    doc: "A time in which some packet should have waited less than the target: a round trip, at the worst.",
};

/// The value of [`TARGET`], or what holds for the discipline without it.
pub(super) fn target(values: &Values, absent: Duration) -> Duration {
    values.given(TARGET.name).map_or(absent, |_| values.span(TARGET.name))
}

impl Times {
    pub(super) fn read(values: &Values) -> Result<Times, Mistake> {
        let times = Times { target: target(values, Duration::from_millis(5)), interval: values.span(INTERVAL.name) };
        if times.target >= times.interval {
            return Err(Mistake {
                field: TARGET.name,
                text: format!("is not below interval = {}, in which a packet shall have waited less", times.interval),
            });
        }
        Ok(times)
    }
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "codel",
        doc: "Drops as packets leave, ever more often, while all have waited longer than the target for an interval (RFC 8289).",
        fields: &[
            Field {
                name: "buffer",
                kind: Kind::Capacity,
                absent: Absent::Is("unlimited"),
                doc: "How much may wait at all.",
            },
            TARGET,
            INTERVAL,
            MARKS,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let (buffer, marks) = (values.capacity("buffer"), values.flag(MARKS.name));
        Ok(Parameters { buffer, times: Times::read(values)?, marks })
    }
}

impl Parameters {
    /// An empty queue.
    pub fn build(&self, _site: Site<'_>) -> Box<dyn Queue> {
        Box::new(Codel::new(*self))
    }
}

/// The largest packet of a link: with no more than that waiting, nothing is dropped (RFC 8289 s4.4).
const MTU: Bytes = Bytes::new(1_500);

/// The law of CoDel over one queue (RFC 8289 s5.4 and s5.5, whose names these are).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Law {
    first_above_time: Option<Time>,
    drop_next: Time,
    count: u64,
    last_count: u64,
    dropping: bool,
}

/// The packets that wait under the law: those of a link, or of a flow.
pub(super) trait Waiting {
    /// Takes the packet that has waited longest.
    fn pop(&mut self) -> Option<(Time, Packet)>;

    /// Bytes that are left, for which the link has time.
    fn left(&self) -> Bytes;
}

impl Waiting for Fifo {
    fn pop(&mut self) -> Option<(Time, Packet)> {
        Fifo::pop(self)
    }

    fn left(&self) -> Bytes {
        self.bytes()
    }
}

impl Law {
    /// The packet to serve next, after those that are dropped now (`CoDelQueue::deque`). One that is marked and not dropped is the
    /// next to be served.
    pub(super) fn dequeue(
        &mut self,
        now: Time,
        times: &Times,
        waiting: &mut impl Waiting,
        struck: &mut Struck,
    ) -> Option<(Time, Packet)> {
        let (mut next, mut ok_to_drop) = self.pop(now, times, waiting);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                let (entered, mut packet) = next?;
                self.count += 1;
                if struck.mark(&mut packet) {
                    self.drop_next = control_law(self.drop_next, times, self.count);
                    return Some((entered, packet));
                }
                struck.drop(entered, packet);
                (next, ok_to_drop) = self.pop(now, times, waiting);
                self.dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next = control_law(self.drop_next, times, self.count);
                }
            }
        } else if ok_to_drop {
            let (entered, mut packet) = next?;
            if struck.mark(&mut packet) {
                next = Some((entered, packet));
            } else {
                struck.drop(entered, packet);
                (next, _) = self.pop(now, times, waiting);
            }
            self.dropping = true;
            // Who dropped not long ago goes on at the rate at which it then controlled the queue.
            let delta = self.count.saturating_sub(self.last_count);
            let is_recent = now < self.drop_next + times.interval * 16;
            self.count = if delta > 1 && is_recent { delta } else { 1 };
            self.drop_next = control_law(now, times, self.count);
            self.last_count = self.count;
        }
        next
    }

    /// The first packet, and whether it may be dropped (`CoDelQueue::dodeque`).
    fn pop(&mut self, now: Time, times: &Times, waiting: &mut impl Waiting) -> (Option<(Time, Packet)>, bool) {
        let Some((entered, packet)) = waiting.pop() else {
            self.first_above_time = None;
            return (None, false);
        };
        if now.since(entered) < times.target || waiting.left() <= MTU {
            self.first_above_time = None;
            return (Some((entered, packet)), false);
        }
        let first_above_time = *self.first_above_time.get_or_insert(now + times.interval);
        (Some((entered, packet)), now >= first_above_time)
    }
}

/// The next time to drop, sqrt(`count`) times as soon as an interval (RFC 8289 s3.3 and s5.2): the root of whole nanoseconds.
fn control_law(from: Time, times: &Times, count: u64) -> Time {
    let interval = u128::from(times.interval.as_nanos());
    let step = (interval * interval / u128::from(count.max(1))).isqrt();
    from + Duration::from_nanos(step as u64)
}

/// First in, first out, with CoDel.
#[derive(Debug)]
pub struct Codel {
    waiting: Fifo,
    packets_max: u64,
    bytes_max: Bytes,
    times: Times,
    law: Law,
    struck: Struck,
}

impl Codel {
    /// An empty queue.
    pub fn new(parameters: Parameters) -> Codel {
        let Parameters { buffer, times, marks } = parameters;
        let (packets_max, bytes_max) = buffer.limits();
        Codel {
            waiting: Fifo::default(),
            packets_max,
            bytes_max,
            times,
            law: Law::default(),
            struck: Struck::new(marks),
        }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, now: Time, packet: &Packet, _in_service: Bytes) -> Option<(Time, Packet)> {
        if self.waiting.packets() >= self.packets_max || self.waiting.bytes() + packet.len() > self.bytes_max {
            return Some((now, *packet));
        }
        self.waiting.push(now, packet);
        None
    }

    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)> {
        self.law.dequeue(now, &self.times, &mut self.waiting, &mut self.struck)
    }

    fn bytes(&self) -> Bytes {
        self.waiting.bytes()
    }

    fn waited(&self, now: Time) -> u128 {
        self.waiting.waited(now)
    }

    fn drops_late(&self) -> bool {
        true
    }

    fn take_dropped(&mut self) -> Option<(Time, Packet)> {
        self.struck.take()
    }

    fn marked(&self) -> u64 {
        self.struck.marked()
    }
}
