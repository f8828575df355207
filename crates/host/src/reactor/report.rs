//! The counts of a reactor: packets by port, how late it was, and whether the machine could not keep up.

use hdrhistogram::Histogram;
use headend_engine::node::Port;
use headend_engine::time::{Duration, Time};

use super::Refused;

/// The bounds of a reactor's memory, and of the lateness from which on it calls itself late.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest packet: the devices' MTU.
    pub packet_bytes_max: usize,
    /// Most packets inside at any time. Beyond, none is read, and the devices drop what they cannot keep.
    pub buffers_max: usize,
    /// The path's delay from end to end, at the least.
    pub delay: Duration,
    /// A delivery that is later than this is late; of all deliveries since the start, one in a hundred may be.
    pub late: Duration,
    /// No wake-up may be later than this.
    pub latest: Duration,
}

impl Limits {
    /// Limits for devices with this MTU and a path with this delay from end to end: half a gigabyte of buffers; a delivery is late
    /// by more than 1 ms or a twentieth of the delay, whichever is more, and a wake-up by more than 100 ms, half of the
    /// shortest usual RTO.
    pub fn new(mtu: u32, delay: Duration) -> Limits {
        const BUFFER_BYTES_MAX: usize = 512 << 20;
        let packet_bytes_max = (mtu as usize).max(64);
        Limits {
            packet_bytes_max,
            buffers_max: BUFFER_BYTES_MAX / packet_bytes_max,
            delay,
            late: Duration::from_millis(1).max(delay / 20),
            latest: Duration::from_millis(100),
        }
    }
}

/// The lateness of deliveries, or of wake-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The number of times that it was measured.
    pub count: u64,
    /// Half of them were no later.
    pub p50: Duration,
    /// 99 in 100 were no later.
    pub p99: Duration,
    /// The largest lateness.
    pub max: Duration,
}

/// The packets that passed a port since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Packets that came in.
    pub entered: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Packets that left.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Packets for addresses that nobody has.
    pub strays: u64,
    /// Packets that left and that the device would not take, though it was up.
    pub refused: u64,
    /// Packets that left and met a device that was down.
    pub down: u64,
    /// True if the device was seen to be down, with packets for it or without.
    pub was_down: bool,
}

/// Signs that the machine could not keep up with the model, since the start. All zero if it could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strain {
    /// Packets that devices dropped because they were not read in time.
    pub dropped: u64,
    /// Packets that a device would not take.
    pub refused: u64,
    /// Times that no packet could be read for want of a buffer.
    pub full: u64,
    /// Packets that were longer than they may be: a device or its driver has joined several.
    pub oversize: u64,
    /// Late deliveries, if they are more than one in a hundred.
    pub late: u64,
    /// Wake-ups that were much too late: until then nobody read what came.
    pub stalls: u64,
}

impl Strain {
    /// True if the machine kept up.
    pub fn is_none(&self) -> bool {
        *self == Strain::default()
    }
}

/// The counts of a reactor at a time.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The time of the report.
    pub now: Time,
    /// The counts by port, since the start.
    pub ports: Vec<PortCounts>,
    /// Wake-ups for a deadline, in this interval.
    pub wakeups: Lateness,
    /// The time that packets took beyond what the engine asks for, in this interval: the time before they were read, late
    /// wake-ups, and what else took time.
    pub deliveries: Lateness,
    /// Wake-ups since the start.
    pub wakeups_all: Lateness,
    /// Deliveries since the start.
    pub deliveries_all: Lateness,
    /// The signs of a machine that did not keep up, since the start.
    pub strain: Strain,
    /// Packets inside.
    pub inside: usize,
}

/// The books of a reactor.
pub(super) struct ReactorBooks {
    ports: Vec<PortCounts>,
    wakeups: Record,
    deliveries: Record,
    /// Late deliveries since the start.
    late: u64,
    strain: Strain,
    limits: Limits,
}

/// Lateness in this interval and since the start.
struct Record {
    interval: Latenesses,
    all: Latenesses,
}

struct Latenesses {
    /// The lateness of each, in nanoseconds.
    histogram: Histogram<u64>,
    max: Duration,
}

impl ReactorBooks {
    pub(super) fn new(ports: usize, limits: Limits) -> ReactorBooks {
        ReactorBooks {
            ports: vec![PortCounts::default(); ports],
            wakeups: Record::new(),
            deliveries: Record::new(),
            late: 0,
            strain: Strain::default(),
            limits,
        }
    }

    pub(super) fn woke(&mut self, late: Duration) {
        self.wakeups.add(late);
        self.strain.stalls += u64::from(late > self.limits.latest);
    }

    pub(super) fn full(&mut self) {
        self.strain.full += 1;
    }

    pub(super) fn oversize(&mut self) {
        self.strain.oversize += 1;
    }

    pub(super) fn stray(&mut self, port: Port) {
        self.port(port).strays += 1;
    }

    pub(super) fn entered(&mut self, port: Port, len: usize) {
        let counts = self.port(port);
        counts.entered += 1;
        counts.entered_bytes += len as u64;
    }

    /// What the device would not take. That somebody has taken it down is not the machine's fault.
    pub(super) fn refused(&mut self, port: Port, Refused { packets, is_down }: Refused) {
        if packets == 0 {
            return;
        }
        let Some(counts) = self.ports.get_mut(usize::from(port.0)) else { return };
        if is_down {
            counts.down += packets;
            counts.was_down = true;
        } else {
            counts.refused += packets;
            self.strain.refused += packets;
        }
    }

    pub(super) fn down(&mut self, port: Port, is_down: bool) {
        self.port(port).was_down |= is_down;
    }

    pub(super) fn left(&mut self, port: Port, len: usize, late: Duration) {
        self.deliveries.add(late);
        self.late += u64::from(late > self.limits.late);
        let Some(counts) = self.ports.get_mut(usize::from(port.0)) else { return };
        counts.left += 1;
        counts.left_bytes += len as u64;
    }

    /// Ends the interval.
    pub(super) fn report(&mut self, now: Time, dropped: u64, inside: usize) -> Report {
        let (wakeups, wakeups_all) = self.wakeups.end();
        let (deliveries, deliveries_all) = self.deliveries.end();
        self.strain.late = if self.late * 100 > deliveries_all.count { self.late } else { 0 };
        self.strain.dropped = dropped;
        Report {
            now,
            ports: self.ports.clone(),
            wakeups,
            deliveries,
            wakeups_all,
            deliveries_all,
            strain: self.strain,
            inside,
        }
    }

    /// Ends the last interval, when devices can no longer say what they have dropped.
    pub(super) fn last_report(&mut self, now: Time, inside: usize) -> Report {
        self.report(now, self.strain.dropped, inside)
    }

    fn port(&mut self, port: Port) -> &mut PortCounts {
        &mut self.ports[usize::from(port.0)]
    }
}

impl Record {
    fn new() -> Record {
        Record { interval: Latenesses::new(), all: Latenesses::new() }
    }

    #[inline]
    fn add(&mut self, late: Duration) {
        self.interval.histogram.saturating_record(late.as_nanos());
        self.interval.max = self.interval.max.max(late);
    }

    /// Ends the interval: what it was, and all.
    fn end(&mut self) -> (Lateness, Lateness) {
        let interval = self.interval.lateness();
        self.all.histogram.add(&self.interval.histogram).expect("both have the same bounds");
        self.all.max = self.all.max.max(interval.max);
        self.interval.histogram.reset();
        self.interval.max = Duration::ZERO;
        (interval, self.all.lateness())
    }
}

impl Latenesses {
    /// 1 ns to a minute, to a thousandth of the value; later than a minute is a minute.
    fn new() -> Latenesses {
        const MAX_NS: u64 = 60_000_000_000;
        let histogram = Histogram::new_with_bounds(1, MAX_NS, 3).expect("these bounds and digits are allowed");
        Latenesses { histogram, max: Duration::ZERO }
    }

    fn lateness(&self) -> Lateness {
        let quantile = |q| Duration::from_nanos(self.histogram.value_at_quantile(q)).min(self.max);
        Lateness { count: self.histogram.len(), p50: quantile(0.5), p99: quantile(0.99), max: self.max }
    }
}
