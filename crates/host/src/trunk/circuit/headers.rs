//! The two ends of a circuit whose control TCPs send headers beside users' packets, which the kernel forwards.

use headend_engine::cc::Algorithm;
use headend_engine::circuit::tunnel::Tunnel;
use headend_engine::circuit::turns::{Turns, Waiting};
use headend_engine::circuit::{Output, Receiver, Sender, control_personality};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::{Duration, Time, earlier};
use headend_engine::units::{Bytes, Capacity, Rate};

use super::super::wire::Terms;
use super::Report;

/// Headers that one call of [`release`](HeaderSender::release) sends at most, so that each leaves soon after its data.
const HEADERS_A_ROUND: usize = 16;
/// Part of the window up to which a packet of several segments stays whole; it also does if it takes less than [`BURST`] at
/// the window's rate.
const WINDOW_PARTS: u64 = 16;
const BURST: Duration = Duration::from_millis(1);
/// The largest packet that the kernel makes of several segments.
const WHOLE_MAX: u64 = 65_536;

/// The end that sends.
#[derive(Debug)]
pub(in super::super) struct HeaderSender {
    pub(in super::super) terms: Terms,
    sender: Sender,
    personality: Personality,
    /// True if packets of several segments may stay whole.
    keeps_whole: bool,
    /// The least of what the first control TCP's smoothed round trip has been.
    rtt_least: Option<Duration>,
}

/// The end that receives.
#[derive(Debug)]
pub(in super::super) struct HeaderReceiver {
    pub(in super::super) terms: Terms,
    receiver: Receiver,
    pub(in super::super) headers: u64,
}

/// The function that sends a control TCP's segment to the other end, by the number of the TCP.
pub(in super::super) type Send<'a> = &'a mut dyn FnMut(u8, &Segment);

impl HeaderSender {
    pub(in super::super) fn new(terms: Terms, controller: &Algorithm) -> HeaderSender {
        let base = Personality { controller: controller.clone(), ..Personality::linux() };
        let vmss = Bytes::new(u64::from(terms.vmss));
        let personality = control_personality(&base, vmss);
        let (here, _): (Vec<_>, Vec<_>) = pairs(&terms, &personality).unzip();
        let guaranteed = (terms.guaranteed_bps > 0).then(|| Rate::bit(terms.guaranteed_bps));
        let sender = Sender::new(Tunnel::drop_tail(Capacity::Packets(1)), here, vmss, guaranteed);
        HeaderSender { terms, sender, personality, keeps_whole: false, rtt_least: None }
    }

    pub(in super::super) fn receive(&mut self, now: Time, which: u8, segment: &Segment) {
        if which < self.terms.controls {
            self.sender.receive(now, usize::from(which), segment);
        }
        let first = self.sender.connections().next().and_then(Connection::snapshot);
        let srtt = first.and_then(|snapshot| snapshot.srtt);
        self.rtt_least = self.rtt_least.into_iter().chain(srtt).min();
    }

    /// Lets packets of `edge` leave, as far as they may now, and calls `send` for headers. When it returns, none more may
    /// until the time that it says, or it is to be called again at once.
    pub(in super::super) fn release(
        &mut self,
        now: Time,
        edge: &mut Turns,
        leaving: &mut Vec<Waiting>,
        send: Send<'_>,
    ) -> Option<Time> {
        self.sender.backlog(now, !edge.is_empty());
        let mut headers = 0;
        let wake = loop {
            match self.sender.poll(now) {
                Output::User(packet) => leaving.push(waiting(&packet)),
                Output::Control(which, segment) => {
                    send(which as u8, &segment);
                    headers += 1;
                    if headers == HEADERS_A_ROUND {
                        break Some(now);
                    }
                }
                Output::Wait(wake) if edge.is_empty() => break wake,
                Output::Wait(wake) => {
                    if !self.sender.allows(now) {
                        break earlier(wake, self.sender.allows_at());
                    }
                    let (_, next) = edge.pop().expect("the queue is not empty");
                    self.sender.push(now, 0, packet(next)).expect("there is room for one, and none is there");
                }
            }
        };
        self.sender.backlog(now, !edge.is_empty());
        wake
    }

    /// Counts an acknowledgement of the circuit in the other direction as data (thesis s2.3.2).
    pub(in super::super) fn charge(&mut self, len: usize) {
        self.sender.charge(Bytes::new(len as u64));
    }

    /// Returns true if a control TCP has given up because headers do not come through.
    pub(in super::super) fn has_failed(&self) -> bool {
        self.sender.connections().any(|connection| connection.fault().is_some())
    }

    /// Returns true if packets of several segments may stay whole: the window must not be a few of them, nor may one keep the
    /// network busy for long.
    pub(in super::super) fn keeps_whole(&mut self) -> bool {
        let window = self.sender.window().get();
        let in_a_burst = self
            .srtt()
            .map_or(0, |srtt| u128::from(window) * u128::from(BURST.as_nanos()) / u128::from(srtt.as_nanos().max(1)));
        // Not for and against it in turn while the window is about there.
        let factor = if self.keeps_whole { 1 } else { 2 };
        let is_long = window >= factor * WINDOW_PARTS * WHOLE_MAX;
        let is_fast = in_a_burst >= u128::from(factor * WHOLE_MAX) && window >= factor * 4 * WHOLE_MAX;
        self.keeps_whole = is_long || is_fast;
        self.keeps_whole
    }

    /// The round trip of headers, smoothed; the longest of all control TCPs.
    pub(in super::super) fn srtt(&self) -> Option<Duration> {
        self.sender.connections().filter_map(|connection| connection.snapshot()?.srtt).max()
    }

    #[cfg(test)]
    pub(in super::super) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Times that a control TCP found a loss, and times that its timer expired.
    fn losses(&self) -> (u64, u64) {
        self.sender
            .connections()
            .map(|connection| connection.counters())
            .fold((0, 0), |(losses, timeouts), counters| {
                (losses + counters.fast_retransmits, timeouts + counters.timeouts)
            })
    }

    pub(super) fn report(&self) -> Report {
        let (losses, timeouts) = self.losses();
        let sent = self.sender.counters();
        let srtt = self.srtt();
        let queueing =
            srtt.zip(self.rtt_least).map(|(srtt, least)| if srtt > least { srtt - least } else { Duration::ZERO });
        Report {
            controller: self.personality.controller.name().to_owned(),
            window: self.sender.window(),
            srtt,
            rtt_least: self.rtt_least,
            queueing,
            sent: sent.headers,
            losses,
            timeouts,
            lost: 0,
            controlled_bytes: sent.controlled_bytes,
            guaranteed_bytes: sent.guaranteed_bytes,
            is_suspended: false,
            repaired: None,
        }
    }
}

impl HeaderReceiver {
    pub(in super::super) fn new(terms: Terms) -> HeaderReceiver {
        let personality = control_personality(&Personality::linux(), Bytes::new(u64::from(terms.vmss)));
        let (_, here): (Vec<_>, Vec<_>) = pairs(&terms, &personality).unzip();
        HeaderReceiver { terms, receiver: Receiver::new(here), headers: 0 }
    }

    pub(in super::super) fn receive(&mut self, now: Time, which: u8, segment: &Segment) {
        if which < self.terms.controls {
            self.headers += 1;
            self.receiver.receive(now, usize::from(which), segment);
        }
    }

    /// Calls `send` for acknowledgements that are due. No more are due until the time that it returns.
    pub(in super::super) fn poll(&mut self, now: Time, send: Send<'_>) -> Option<Time> {
        loop {
            match self.receiver.poll(now) {
                Output::Control(which, segment) => send(which as u8, &segment),
                Output::Wait(wake) => return wake,
                Output::User(_) => unreachable!("users' packets do not come near a circuit's receiving end"),
            }
        }
    }
}

/// The control TCPs of a circuit, that each end makes and of which it keeps its half: the sender's and the receiver's. They
/// need no hand-shake because both ends know the terms.
fn pairs(terms: &Terms, personality: &Personality) -> impl Iterator<Item = (Connection, Connection)> {
    let end = |isn| PairedEnd { personality, isn, clock_phase: Duration::ZERO };
    (0..u32::from(terms.controls)).map(move |which| {
        let isn = terms.circuit.wrapping_add(which << 24);
        Connection::pair(end(isn), end(!isn))
    })
}

/// A packet of the kernel as the engine sees it: its flow's number is in both addresses.
fn packet(waiting: Waiting) -> Packet {
    let at =
        |shift: u32| Endpoint { node: (waiting.flow >> (shift + 16)) as u16, port: (waiting.flow >> shift) as u16 };
    let (src, dst) = (at(32), at(0));
    Packet { id: waiting.id, src, dst, len: waiting.len, class: Class::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
}

fn waiting(packet: &Packet) -> Waiting {
    let number = |end: Endpoint| u64::from(end.node) << 16 | u64::from(end.port);
    Waiting { id: packet.id, flow: number(packet.src) << 32 | number(packet.dst), len: packet.len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packets_flow_keeps_its_number_in_the_engine() {
        for flow in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let one = Waiting { id: 7, flow, len: 1_500 };
            assert_eq!(waiting(&packet(one)), one);
        }
    }
}
