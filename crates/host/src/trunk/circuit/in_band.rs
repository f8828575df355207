//! The two ends of a circuit whose users' packets go in numbered datagrams, so that what becomes of these is the signal.

use headend_engine::circuit::gmb::Bucket;
use headend_engine::circuit::in_band::{Acknowledgement, Receiver, Sender};
use headend_engine::circuit::repair::{self, ACKNOWLEDGEMENT_HELD_MAX, Place};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time, earlier};
use headend_engine::units::{Bytes, Rate};

use super::super::config::Send;
use super::super::wire::Terms;
use super::Report;

/// Datagrams that make an acknowledgement due (RFC 9000 s13.2.2).
const ACKNOWLEDGE_EVERY: u32 = 2;
/// What the engine counts of a datagram as its headers: those that a segment of TCP has.
const HEADERS: u64 = 40;
/// Time over which the receiving end lets a guaranteed rate be made up for, and bytes that it lets come at once.
const SLACK: Duration = Duration::from_millis(100);
const BURST: u64 = 65_536;
/// The time over which losses are counted for the circuit breaker (RFC 8084 s3.1): several round trips of any path.
const INTERVAL: Duration = Duration::from_secs(10);
/// The least number of datagrams that such a count says anything of.
const COUNTED_MIN: u64 = 20;
/// The time for which the guaranteed rate is suspended when more than half were lost.
const SUSPENSION: Duration = Duration::from_secs(30);

/// The end that sends.
#[derive(Debug)]
pub(in super::super) struct DatagramSender {
    pub(in super::super) terms: Terms,
    sender: Sender,
    repair: Option<Box<repair::Sender<Copy>>>,
    controller: String,
    guarantee: Option<Bucket>,
    breaker: Breaker,
    /// Bytes of a full datagram on the wire.
    unit: Bytes,
    had_backlog: bool,
    controlled_bytes: u64,
    guaranteed_bytes: u64,
}

/// A user's packet that has left and may have to leave again.
#[derive(Debug)]
pub(in super::super) struct Copy {
    pub(in super::super) bytes: Vec<u8>,
    /// True if its checksum is left open.
    pub(in super::super) is_open: bool,
}

/// A user's packet that waits for earlier ones of its flow.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Held {
    pub(in super::super) bytes: Vec<u8>,
    /// True if its checksum is left open.
    pub(in super::super) is_open: bool,
    /// The congestion field of the datagram in which it came.
    pub(in super::super) ecn: u8,
}

/// Whether a packet may leave, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Permission {
    /// Under control: its datagram is to be numbered.
    Numbered,
    /// At the guaranteed rate, without a number.
    Free,
    /// One that was lost may leave again, under control.
    Again,
    /// Not before that time, or before something comes.
    Wait(Option<Time>),
}

/// Suspends the guaranteed rate while the path loses most of what is sent: what nobody controls must not go on into a network that
/// has collapsed (RFC 8084).
#[derive(Clone, Copy, Debug, Default)]
struct Breaker {
    since: Time,
    delivered: u64,
    lost: u64,
    /// Datagrams that had been sent when the interval began.
    sent: u64,
    suspended_until: Option<Time>,
}

impl DatagramSender {
    /// A sending end on these terms, of a site that sends full datagrams of `unit` bytes, all headers included.
    pub(in super::super) fn new(terms: Terms, send: &Send, unit: Bytes) -> DatagramSender {
        let mss = unit.saturating_sub(Bytes::new(HEADERS));
        let personality = Personality { controller: send.controller.clone(), mss, ..Personality::linux() };
        let sender = Sender::new(&personality, u32::from(terms.controls), send.losses);
        let rules = send.repair.filter(|_| terms.repair_us > 0);
        let within = Duration::from_micros(u64::from(terms.repair_us));
        let rules = rules.map(|rules| repair::Rules { within, ..rules });
        DatagramSender {
            terms,
            sender: match rules {
                Some(_) => sender.with_fates().with_held_max(ACKNOWLEDGEMENT_HELD_MAX),
                None => sender,
            },
            repair: rules.map(|rules| Box::new(repair::Sender::new(rules))),
            controller: send.controller.name().to_owned(),
            guarantee: (terms.guaranteed_bps > 0).then(|| Bucket::new(Rate::bit(terms.guaranteed_bps))),
            breaker: Breaker::default(),
            unit,
            had_backlog: false,
            controlled_bytes: 0,
            guaranteed_bytes: 0,
        }
    }

    /// Takes an acknowledgement. Returns false if it tells of what was never sent, and then nothing has changed.
    pub(in super::super) fn told(&mut self, now: Time, told: &Acknowledgement) -> bool {
        self.sender.on_acknowledgement(now, told).is_ok()
    }

    /// Says whether the next packet may leave.
    pub(in super::super) fn ask(&mut self, now: Time, has_backlog: bool) -> Permission {
        while self.sender.deadline().is_some_and(|due| due <= now) {
            self.sender.on_deadline(now);
        }
        let is_again = self.repairs(now, has_backlog);
        if is_again && self.sender.permits(now, self.unit) {
            return Permission::Again;
        }
        if !has_backlog {
            self.had_backlog = false;
            if let Some(bucket) = &mut self.guarantee {
                bucket.drain();
            }
            if is_again {
                return Permission::Wait(earlier(self.sender.release(now), self.sender.deadline()));
            }
            self.sender.on_nothing_to_send();
            return Permission::Wait(self.sender.deadline());
        }
        if let Some(bucket) = self.guarantee.as_mut().filter(|_| !self.had_backlog) {
            bucket.resume(now);
        }
        self.had_backlog = true;
        let is_suspended = self.breaker.watch(now, self.sender.counters().into());
        let mut tick = None;
        if let Some(bucket) = self.guarantee.as_mut().filter(|_| !is_suspended) {
            if bucket.allows(now) {
                return Permission::Free;
            }
            tick = Some(bucket.next_tick());
        }
        if self.sender.permits(now, self.unit) {
            return Permission::Numbered;
        }
        Permission::Wait(earlier(tick, earlier(self.sender.release(now), self.sender.deadline())))
    }

    /// True if a packet is to leave again.
    fn repairs(&mut self, now: Time, has_backlog: bool) -> bool {
        let Some(repair) = &mut self.repair else { return false };
        while let Some(fate) = self.sender.fate() {
            repair.on_fate(now, fate);
        }
        if repair.due(now).is_none() && !has_backlog && self.sender.owes_probe() {
            repair.on_probe(now);
        }
        repair.due(now).is_some()
    }

    /// The place of the packet of this flow that leaves now, in a circuit that repairs.
    pub(in super::super) fn place(&mut self, flow: u64, permission: Permission) -> Option<Place> {
        Some(self.repair.as_mut()?.place(flow, permission == Permission::Numbered))
    }

    /// Keeps a copy of a packet that left under this number.
    pub(in super::super) fn keep(&mut self, now: Time, number: u64, place: Place, copy: Copy) {
        if let Some(repair) = &mut self.repair {
            repair.keep(now, number, place, copy.bytes.len() as u32, copy);
        }
    }

    /// Notes that the packet which is to leave [again](Permission::Again) does, in a datagram with so many bytes around it. Returns
    /// its number, and its place and copy.
    pub(in super::super) fn left_again(&mut self, now: Time, around: u64) -> Option<(u64, Place, &Copy)> {
        let repair = self.repair.as_mut()?;
        let len = repair.due(now)?;
        let number = self.sender.on_sent(now, Bytes::new(around + u64::from(len)));
        let (place, copy) = repair.again(number);
        Some((number, place, copy))
    }

    /// Notes that a packet of `len` bytes leaves in a datagram of `on_wire` bytes. Returns its number, if it is to have one.
    pub(in super::super) fn left(&mut self, now: Time, permission: Permission, len: u64, on_wire: u64) -> Option<u64> {
        if permission == Permission::Numbered {
            self.controlled_bytes += len;
            return Some(self.sender.on_sent(now, Bytes::new(on_wire)));
        }
        self.guaranteed_bytes += len;
        if let Some(bucket) = &mut self.guarantee {
            bucket.spend(Bytes::new(len));
        }
        None
    }

    pub(in super::super) fn report(&self) -> Report {
        let counters = self.sender.counters();
        Report {
            controller: self.controller.clone(),
            window: self.sender.window(),
            srtt: self.sender.rtt(),
            rtt_least: self.sender.rtt_least(),
            queueing: self.sender.queueing(),
            sent: counters.datagrams,
            losses: counters.reductions,
            timeouts: counters.collapses,
            lost: counters.lost.saturating_sub(counters.late),
            controlled_bytes: self.controlled_bytes,
            guaranteed_bytes: self.guaranteed_bytes,
            is_suspended: self.breaker.suspended_until.is_some(),
            repaired: self.repair.as_ref().map(|repair| repair.counters()),
        }
    }
}

/// Datagrams so far: sent, delivered and lost.
#[derive(Clone, Copy, Debug)]
struct Fates {
    sent: u64,
    delivered: u64,
    lost: u64,
}

impl From<headend_engine::circuit::in_band::Counters> for Fates {
    fn from(counters: headend_engine::circuit::in_band::Counters) -> Fates {
        let lost = counters.lost.saturating_sub(counters.late);
        Fates { sent: counters.datagrams, delivered: counters.delivered, lost }
    }
}

impl Breaker {
    /// Returns true while the guaranteed rate is suspended.
    fn watch(&mut self, now: Time, fates: Fates) -> bool {
        if now.since(self.since) >= INTERVAL {
            let delivered = fates.delivered.saturating_sub(self.delivered);
            let lost = fates.lost.saturating_sub(self.lost);
            let sent = fates.sent.saturating_sub(self.sent);
            // Nothing at all comes back: the other end hears nothing, or is not heard.
            let is_silent = sent >= COUNTED_MIN && delivered == 0;
            if is_silent || lost + delivered >= COUNTED_MIN && lost > delivered {
                self.suspended_until = Some(now + SUSPENSION);
            }
            let suspended_until = self.suspended_until;
            *self = Breaker {
                since: now,
                suspended_until,
                ..Breaker { delivered: fates.delivered, lost: fates.lost, sent: fates.sent, ..*self }
            };
        }
        if self.suspended_until.is_some_and(|until| until <= now) {
            self.suspended_until = None;
        }
        self.suspended_until.is_some()
    }
}

/// The end that receives.
#[derive(Debug)]
pub(in super::super) struct DatagramReceiver {
    pub(in super::super) terms: Terms,
    receiver: Receiver,
    /// Packets that wait for earlier ones of their flow, in a circuit that repairs.
    pub(in super::super) order: Option<repair::Receiver<Held>>,
    pub(in super::super) datagrams: u64,
    /// Bytes that may still come without control.
    free: u64,
    filled: Time,
}

impl DatagramReceiver {
    pub(in super::super) fn new(terms: Terms, now: Time) -> DatagramReceiver {
        let receiver = Receiver::new(ACKNOWLEDGE_EVERY);
        let within = Duration::from_micros(u64::from(terms.repair_us));
        let (receiver, order) = match terms.repair_us {
            0 => (receiver, None),
            _ => (receiver.with_held_max(ACKNOWLEDGEMENT_HELD_MAX), Some(repair::Receiver::new(within))),
        };
        DatagramReceiver { terms, receiver, order, datagrams: 0, free: 0, filled: now }
    }

    /// Notes that a user's packet came. Returns false if it came without control and beyond the guaranteed rate.
    pub(in super::super) fn receive(&mut self, now: Time, number: Option<u64>, len: u64) -> bool {
        self.datagrams += 1;
        match number {
            Some(number) => {
                self.receiver.receive(now, number);
                true
            }
            None => self.is_granted(now, len),
        }
    }

    /// The acknowledgement that is due, or the time when one will be.
    pub(in super::super) fn poll(&mut self, now: Time) -> Result<Acknowledgement, Option<Time>> {
        self.receiver.poll(now).ok_or_else(|| self.receiver.deadline())
    }

    fn is_granted(&mut self, now: Time, len: u64) -> bool {
        let rate = u128::from(self.terms.guaranteed_bps);
        let earned =
            |span: Duration| u64::try_from(rate * u128::from(span.as_nanos()) / 8_000_000_000).unwrap_or(u64::MAX);
        let span = now.since(self.filled);
        let most = earned(SLACK) + BURST;
        // A short while earns no whole byte.
        if earned(span) > 0 {
            self.free = self.free.saturating_add(earned(span)).min(most);
            self.filled = now;
        }
        let is_granted = rate > 0 && self.free >= len;
        self.free -= if is_granted { len } else { 0 };
        is_granted
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Carriage;
    use super::*;

    fn terms(guaranteed_bps: u64) -> Terms {
        Terms { circuit: 7, carriage: Carriage::Sealed, controls: 2, vmss: 6_000, guaranteed_bps, repair_us: 0 }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn sender(guaranteed_bps: u64) -> DatagramSender {
        DatagramSender::new(terms(guaranteed_bps), &Send::default(), Bytes::new(1_500))
    }

    /// Sends all that it may, and returns the numbers and how many had none.
    fn send_all(sender: &mut DatagramSender, now: Time) -> (Vec<u64>, u64) {
        let (mut numbers, mut free) = (Vec::new(), 0);
        loop {
            match sender.ask(now, true) {
                Permission::Wait(_) => return (numbers, free),
                permission => match sender.left(now, permission, 1_400, 1_500) {
                    Some(number) => numbers.push(number),
                    None => free += 1,
                },
            }
        }
    }

    #[test]
    fn a_first_window_leaves_and_then_as_much_as_has_come() {
        let mut sender = sender(0);
        let (numbers, free) = send_all(&mut sender, at(0));
        assert_eq!((numbers.len(), free), (18, 0), "nine for each of two flows: the bytes of ten segments (RFC 6928)");
        let told = Acknowledgement { received: at(10), held: Duration::ZERO, ranges: vec![(0, 17)] };
        assert!(sender.told(at(20), &told));
        assert!(send_all(&mut sender, at(20)).0.len() >= 34, "slow start");
        let lie = Acknowledgement { received: at(10), held: Duration::ZERO, ranges: vec![(0, 1_000)] };
        assert!(!sender.told(at(21), &lie), "what was never sent");
        assert_eq!(send_all(&mut sender, at(21)).0.len(), 0, "and earns nothing");
    }

    /// A peer that says of all but the newest that it has not come, again and again.
    #[test]
    fn a_peer_that_denies_everything_gets_no_more_copies_than_tries() {
        let rules = repair::Rules { within: Duration::from_millis(1_000), tries: 2 };
        let send = Send { repair: Some(rules), ..Send::default() };
        let terms = Terms { repair_us: 1_000_000, ..terms(0) };
        let mut sender = DatagramSender::new(terms, &send, Bytes::new(1_500));
        let (mut left, mut copies, mut newest) = (0, 0, 0);
        for ms in 0..5_000 {
            let now = at(ms);
            loop {
                match sender.ask(now, left < 300) {
                    Permission::Wait(_) => break,
                    Permission::Again => {
                        copies += 1;
                        newest = sender.left_again(now, 78).expect("one is due").0;
                    }
                    permission => {
                        let place = sender.place(left, permission).expect("it repairs");
                        let number = sender.left(now, permission, 1_400, 1_500).expect("nothing is guaranteed");
                        sender.keep(now, number, place, Copy { bytes: vec![0; 1_400], is_open: false });
                        (left, newest) = (left + 1, number);
                    }
                }
            }
            let told = Acknowledgement { received: now, held: Duration::ZERO, ranges: vec![(newest, newest)] };
            assert!(sender.told(now, &told));
        }
        assert_eq!(left, 300, "and does not hold up the rest");
        assert!(copies <= 2 * left, "{copies} copies of {left} packets");
    }

    #[test]
    fn a_guaranteed_rate_goes_on_without_answers_and_is_suspended_after_a_while() {
        // A packet of 1400 bytes every 10 ms.
        let mut sender = sender(1_120_000);
        let mut free = [0; 3];
        for ms in 0..30_000 {
            free[ms as usize / 10_000] += send_all(&mut sender, at(ms)).1;
        }
        assert!((990..=1_001).contains(&free[0]), "{free:?}");
        assert!(free[1] <= 10 && sender.report().is_suspended, "nothing was heard for ten seconds: {free:?}");
    }

    #[test]
    fn the_breaker_lets_a_path_pass_that_loses_less_than_half() {
        for (lost, is_suspended) in [(300, false), (700, true)] {
            let mut breaker = Breaker::default();
            let fates = Fates { sent: 1_000, delivered: 1_000 - lost, lost };
            assert_eq!(breaker.watch(at(10_000), fates), is_suspended);
            assert!(!breaker.watch(at(10_000) + SUSPENSION, Fates { sent: 2_000, delivered: 1_900, lost }));
        }
    }

    #[test]
    fn a_receiver_takes_no_more_without_control_than_it_has_granted() {
        let mut receiver = DatagramReceiver::new(terms(8_000_000), at(0));
        let taken = (0..10_000_u64).filter(|ms| {
            // Twice the rate.
            receiver.receive(at(*ms), None, 2_000)
        });
        let taken = taken.count() as u64 * 2_000;
        assert!((9_900_000..10_000_000 + 800_000 / 8 + BURST).contains(&taken), "{taken}");
        let mut none = DatagramReceiver::new(terms(0), at(0));
        assert!(!none.receive(at(5_000), None, 20) && none.receive(at(5_000), Some(1), 20));
    }
}
