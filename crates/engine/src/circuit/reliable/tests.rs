//! Two ends of a socket over a path that delays packets and loses any of them: segments, headers and acknowledgements.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::tcp::connection::Fault;
use crate::tcp::personality::DelayedAck;
use crate::tcp::seq;

const DELAY: Duration = Duration::from_millis(5);
const FULL_LEN: u64 = 1_500;

/// A packet under way.
#[derive(Clone, Copy)]
enum Packed {
    Data(Segment),
    Control(Ring, usize, Segment),
}

/// One end with its application, and what somebody who watches its packets knows.
struct Side {
    socket: Socket,
    isn: u32,
    /// Bytes that the application has still to write. Then it closes, or if it has none, after its peer.
    to_write: u64,
    reads: bool,
    written: u64,
    read: u64,
    /// Parts of the peer's stream that have arrived in some packet.
    arrived: BTreeSet<(u64, u64)>,
    /// Data segments that left, with the positions at which they begin and end.
    sent: Vec<(Time, u64, u64)>,
}

struct Net {
    sides: [Side; 2],
    under_way: BTreeMap<(Time, u64), (usize, Packed)>,
    next: u64,
    /// The fates of the next packets, true for a loss; those beyond are not lost.
    losses: VecDeque<bool>,
    /// The delays of the next packets; those beyond take `DELAY`.
    delays: VecDeque<Duration>,
    /// The number of next headers that are lost.
    lost_headers: usize,
    /// True if all packets of the control TCPs of the circuit from the second side to the first are lost.
    no_way_back: bool,
    /// The number of packets lost, of each connection: the data TCP, or that control TCP of the circuit from that side.
    lost: BTreeMap<Option<(usize, usize)>, usize>,
    /// True if the data segment that begins at `start` is lost when it leaves for the n-th time, with n = `times`.
    fate: fn(start: u64, times: usize) -> bool,
}

/// A circuit whose windows grow slowly from 20 segments on.
fn circuit(controls: usize, vmss: u64) -> Circuit {
    let bsd = Personality::bsd_reno_1996();
    let tcp = Personality { timestamps: true, initial_ssthresh_segments: Some(20), ..bsd };
    Circuit { tcp, controls, vmss: Bytes::new(vmss), copies: 0, queue: 0 }
}

/// Options of a data TCP whose acknowledgements are not delayed for longer than its timer waits.
fn host() -> Personality {
    let base = Personality::newreno();
    let delayed_ack = DelayedAck { timeout: Duration::from_millis(40), ..base.delayed_ack };
    Personality { delayed_ack, ..base }
}

impl Net {
    /// `to_write` bytes each way; a side that writes none has no circuit.
    fn new(tcp: &Personality, circuit: &Circuit, to_write: [u64; 2]) -> Net {
        let ways = to_write.map(|bytes| (bytes > 0).then_some(circuit));
        let side = |at: usize| {
            // The stream's sequence numbers wrap round.
            let isn = u32::MAX - 20_000 * (1 + at as u32);
            let (opening, phase) = ([Opening::Connect, Opening::Listen][at], Duration::ZERO);
            let socket = Socket::open(opening, tcp, ways[at], ways[1 - at], &mut || isn, phase);
            Side {
                socket,
                isn,
                to_write: to_write[at],
                reads: true,
                written: 0,
                read: 0,
                arrived: BTreeSet::new(),
                sent: Vec::new(),
            }
        };
        Net {
            sides: [side(0), side(1)],
            under_way: BTreeMap::new(),
            next: 0,
            losses: VecDeque::new(),
            delays: VecDeque::new(),
            lost_headers: 0,
            no_way_back: false,
            lost: BTreeMap::new(),
            fate: |_, _| false,
        }
    }

    fn leaves(&mut self, now: Time, from: usize, packed: Packed) {
        let side = &mut self.sides[from];
        let mut lost = self.losses.pop_front().unwrap_or(false);
        let delay = self.delays.pop_front().unwrap_or(DELAY);
        match packed {
            Packed::Data(segment) if segment.len > 0 => {
                let start = seq::position(side.isn, segment.seq, side.written).expect("it was written") - 1;
                side.sent.push((now, start, start + u64::from(segment.len)));
                lost |= (self.fate)(start, side.sent.iter().filter(|sent| sent.1 == start).count());
            }
            Packed::Control(Ring::Ours, ..) => {
                lost |= self.lost_headers > 0;
                self.lost_headers = self.lost_headers.saturating_sub(1);
            }
            _ => {}
        }
        let connection = match packed {
            Packed::Data(_) => None,
            Packed::Control(Ring::Ours, which, _) => Some((from, which)),
            Packed::Control(Ring::Theirs, which, _) => Some((1 - from, which)),
        };
        lost |= self.no_way_back && connection.is_some_and(|(side, _)| side == 1);
        if lost {
            *self.lost.entry(connection).or_default() += 1;
        } else {
            self.next += 1;
            self.under_way.insert((now + delay, self.next), (1 - from, packed));
        }
    }

    fn settle(&mut self, now: Time) -> Option<Time> {
        let mut wake = None;
        for at in 0..2 {
            loop {
                let side = &mut self.sides[at];
                let taken = side.socket.write(Bytes::new(side.to_write)).get();
                (side.to_write, side.written) = (side.to_write - taken, side.written + taken);
                let done = if side.written > 0 { side.to_write == 0 } else { side.socket.data().is_peer_closed() };
                if done && side.socket.data().is_established() {
                    side.socket.close();
                }
                match side.socket.poll(now) {
                    Output::Data(segment) => self.leaves(now, at, Packed::Data(segment)),
                    Output::Control(ring, which, segment) => {
                        self.leaves(now, at, Packed::Control(ring, which, segment));
                    }
                    Output::Wait(time) => {
                        wake = earlier(wake, time);
                        break;
                    }
                }
                self.check_credit(at);
            }
        }
        wake
    }

    /// Checks that never more is spent than was earned, but for the VMSS that the next header is for, and a packet.
    fn check_credit(&self, at: usize) {
        let Some(sends) = self.sides[at].socket.gate().sends() else { return };
        let (counters, controls) = (sends.counters(), sends.connections().count() as u64);
        let spent = counters.controlled_bytes + counters.charged_bytes;
        let earned = counters.headers * sends.vmss().get();
        assert_eq!(spent, earned + sends.unpaid().get(), "all that left is accounted for");
        let ahead = counters.controlled_bytes.saturating_sub(earned);
        assert!(ahead < controls * (sends.vmss().get() + FULL_LEN), "{ahead} bytes ahead of the headers");
        assert_eq!(sends.tunnel().counters().dropped, 0, "nothing is put in that finds no room");
    }

    fn arrives(&mut self, now: Time, at: usize, packed: Packed) {
        let peer_isn = self.sides[1 - at].isn;
        let peer_written = self.sides[1 - at].written;
        let side = &mut self.sides[at];
        match packed {
            Packed::Data(segment) => {
                if segment.len > 0 {
                    let start = seq::position(peer_isn, segment.seq, peer_written).expect("it was written") - 1;
                    side.arrived.insert((start, start + u64::from(segment.len)));
                }
                side.socket.receive(now, &segment);
            }
            Packed::Control(ring, which, segment) => {
                let ring = if ring == Ring::Ours { Ring::Theirs } else { Ring::Ours };
                side.socket.receive_control(now, ring, which, &segment);
            }
        }
        if side.reads {
            side.read += side.socket.read(Bytes::MAX).get();
        }
        let whole =
            side.arrived.iter().fold(0, |whole, &(start, end)| if start <= whole { whole.max(end) } else { whole });
        assert!(side.read <= whole, "bytes are read in order and once: {} of {whole}", side.read);
    }

    /// Runs until `end`, or until nothing more happens.
    fn run(&mut self, from: Time, end: Time) -> Time {
        let mut now = from;
        loop {
            let wake = self.settle(now);
            let flight = self.under_way.keys().next().map(|(time, _)| *time);
            let Some(next) = earlier(wake, flight).filter(|time| *time <= end) else { return now };
            assert!(next >= now, "nobody waits for the past: {next} at {now}");
            assert!(wake.is_none_or(|wake| wake > now), "who was polled waits for later");
            now = next;
            // One at a time, because what is due to be acknowledged is remembered and not counted.
            if let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
                let (at, packed) = entry.remove();
                self.arrives(now, at, packed);
            }
        }
    }
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

#[test]
fn a_stream_arrives_whole_and_both_ends_close() {
    let mut net = Net::new(&host(), &circuit(1, 1_500), [300_000, 0]);
    net.run(Time::ZERO, at_ms(10_000));
    let [from, to] = &net.sides;
    assert_eq!(to.read, 300_000);
    assert_eq!(from.socket.data().counters().retransmits, 0);
    assert_eq!(from.socket.data().state(), State::TimeWait);
    assert_eq!(to.socket.data().state(), State::Closed);
    // 1448 bytes of each packet's 1500, and a header for each packet: the hand-shakes make two more.
    let packets = 300_000_u64.div_ceil(1_448);
    assert_eq!(from.sent.len() as u64, packets);
    let headers = from.socket.gate().sends().expect("it sends").counters().headers;
    assert!(headers.abs_diff(packets) <= 1, "{headers} headers for {packets} packets");
}

#[test]
fn lost_data_do_not_slow_the_circuit_down_and_a_lost_header_does() {
    let mut lossy = Net::new(&host(), &circuit(1, 1_500), [3_000_000, 0]);
    lossy.fate = |start, times| start / 1_448 % 10 == 3 && times == 1;
    let mut clean = Net::new(&host(), &circuit(1, 1_500), [3_000_000, 0]);
    let windows = [&mut lossy, &mut clean].map(|net| {
        net.run(Time::ZERO, at_ms(400));
        net.sides[0].socket.gate().sends().expect("it sends").window()
    });
    assert_eq!(windows[0], windows[1], "a tenth of the data is lost, and the window is the same");
    assert!(lossy.sides[0].socket.data().counters().retransmits > 0);
    lossy.lost_headers = 1;
    lossy.run(at_ms(400), at_ms(430));
    let window = lossy.sides[0].socket.gate().sends().expect("it sends").window();
    assert!(window.get() <= windows[0].get() * 6 / 10, "{window} after one header was lost, and {} before", windows[0]);
}

#[test]
fn a_copied_header_is_lost_only_if_both_are_and_the_tcp_ignores_the_copy() {
    let twice = Circuit { copies: 1, ..circuit(1, 1_500) };
    let [mut copied, mut plain] =
        [&twice, &circuit(1, 1_500)].map(|circuit| Net::new(&host(), circuit, [3_000_000, 0]));
    let window = |net: &Net| net.sides[0].socket.gate().sends().expect("it sends").window();
    for net in [&mut copied, &mut plain] {
        net.run(Time::ZERO, at_ms(400));
    }
    assert_eq!(window(&copied), window(&plain), "a copy is not acknowledged");
    let counters = copied.sides[0].socket.gate().sends().expect("it sends").counters();
    assert_eq!(counters.copies, counters.headers);
    let before = window(&copied);
    copied.lost_headers = 1;
    copied.run(at_ms(400), at_ms(430));
    assert!(window(&copied) >= before, "its copy arrived");
    copied.lost_headers = 2;
    copied.run(at_ms(430), at_ms(460));
    assert!(window(&copied).get() <= before.get() * 6 / 10, "both were lost");
}

#[test]
#[should_panic(expected = "by its timestamp")]
fn copies_of_headers_without_timestamps_are_refused() {
    let base = circuit(1, 1_500);
    let tcp = Personality { timestamps: false, ..base.tcp.clone() };
    let copied = Circuit { copies: 1, tcp, ..base };
    let _ = copied.sender(copied.connections(Opening::Connect, &mut || 7, Duration::ZERO));
}

/// Times at which the segment that begins at `start` left.
fn departures(net: &Net, start: u64) -> Vec<u64> {
    let sent = net.sides[0].sent.iter().filter(|sent| sent.1 == start);
    sent.map(|sent| sent.0.as_nanos() / 1_000_000).collect()
}

#[test]
fn a_segment_lost_again_is_sent_again_on_duplicates_before_the_timer() {
    // F2. The 200th segment is lost three times over.
    let mut net = Net::new(&host(), &circuit(1, 1_500), [3_000_000, 0]);
    net.fate = |start, times| start == 200 * 1_448 && times <= 3;
    net.run(Time::ZERO, at_ms(10_000));
    let times = departures(&net, 200 * 1_448);
    assert_eq!(times.len(), 4, "{times:?}");
    for pair in times.windows(2) {
        assert!((10..=20).contains(&(pair[1] - pair[0])), "a round trip of 10 ms or little more: {times:?}");
    }
    assert_eq!(net.sides[0].socket.data().counters().timeouts, 0);
    assert_eq!(net.sides[1].read, 3_000_000);
}

#[test]
fn the_last_segment_is_sent_again_every_100_ms_without_back_off() {
    // F3: a clock of 50 ms, and a timer of two ticks.
    let mut net = Net::new(&host(), &circuit(1, 1_500), [14_480, 0]);
    net.fate = |start, times| start == 9 * 1_448 && times <= 6;
    net.run(Time::ZERO, at_ms(60_000));
    let times = departures(&net, 9 * 1_448);
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // What the circuit allows: its window is open, because no header was lost.
    assert_eq!(gaps.len(), 6, "{times:?}");
    assert!(gaps[1..].iter().all(|gap| *gap == gaps[1]), "no back-off: {gaps:?}");
    assert!((100..=200).contains(&gaps[1]), "{gaps:?}");
    assert_eq!(net.sides[1].read, 14_480);
}

#[test]
fn a_whole_window_that_is_lost_is_sent_again_in_few_timeouts() {
    let bytes = 200 * 1_448;
    let mut net = Net::new(&host(), &circuit(1, 1_500), [bytes, 0]);
    let mut now = Time::ZERO;
    for ms in 0..2_000 {
        if net.sides[0].sent.len() < 200 {
            now = net.run(now, at_ms(ms));
        }
    }
    let timeouts = |net: &Net| net.sides[0].socket.data().counters().timeouts;
    let expired = timeouts(&net);
    net.under_way.clear();
    net.run(now, at_ms(30_000));
    assert_eq!(net.sides[1].read, bytes);
    let (resent, expired) = (net.sides[0].socket.data().counters().retransmits, timeouts(&net) - expired);
    assert!(resent > 10, "a window was lost, and {resent} sent again");
    assert!(expired * 3 < resent, "{expired} timeouts, {resent} sent again");
}

#[test]
fn a_reader_who_waits_holds_the_writer_back_and_not_for_ever() {
    let tcp = Personality { receive_buffer: Bytes::new(20_000), ..host() };
    let mut net = Net::new(&tcp, &circuit(1, 1_500), [100_000, 0]);
    net.sides[1].reads = false;
    let now = net.run(Time::ZERO, at_ms(5_000));
    let waiting = net.sides[1].socket.readable().get();
    assert!((17_000..=20_000).contains(&waiting), "{waiting}");
    assert!(net.sides[0].socket.occupancy() >= Bytes::new(70_000), "the rest has not left");
    net.sides[1].reads = true;
    net.run(now, now + Duration::from_secs(120));
    assert_eq!(net.sides[1].read, 100_000);
    assert_eq!(net.sides[0].socket.occupancy(), Bytes::ZERO);
}

#[test]
fn nothing_can_be_written_where_no_circuit_begins() {
    let mut net = Net::new(&host(), &circuit(1, 1_500), [10_000, 0]);
    net.run(Time::ZERO, at_ms(30));
    assert_eq!(net.sides[1].socket.write(Bytes::new(1)), Bytes::ZERO);
}

#[test]
fn bytes_go_both_ways_and_each_circuit_pays_for_acknowledgements_its_way() {
    let mut net = Net::new(&host(), &circuit(2, 1_500), [200_000, 150_000]);
    net.run(Time::ZERO, at_ms(60_000));
    assert_eq!(net.sides.each_ref().map(|side| side.read), [150_000, 200_000]);
    for side in &net.sides {
        assert!(side.socket.gate().sends().expect("it sends").counters().charged_bytes > 1_000);
    }
}

#[test]
fn a_peer_that_is_gone_is_given_up_on() {
    let mut net = Net::new(&host(), &circuit(1, 1_500), [1_000_000, 0]);
    net.run(Time::ZERO, at_ms(100));
    net.losses = std::iter::repeat_n(true, 1_000_000).collect();
    net.under_way.clear();
    let end = net.run(at_ms(100), at_ms(3_600_000));
    assert!(net.sides[0].socket.data().fault().is_some(), "nobody waits for ever");
    assert!(end >= at_ms(100_000), "RFC 1122 s4.2.3.5: not before 100 s, and it was {end}");
}

#[test]
fn a_circuit_that_never_opens_ends_the_connection_at_both_ends() {
    for reset_arrives in [true, false] {
        let mut net = Net::new(&host(), &circuit(2, 1_500), [10_000, 1]);
        net.no_way_back = true;
        let now = net.run(Time::ZERO, at_ms(200_000));
        assert_eq!(net.sides[1].read, 10_000, "the circuit of the other direction is open");
        assert_eq!(net.sides.each_ref().map(|side| side.socket.data().fault()), [None; 2]);
        if !reset_arrives {
            net.losses = std::iter::repeat_n(true, 1_000).collect();
        }
        net.run(now, at_ms(600_000));
        let told = if reset_arrives { Fault::Reset } else { Fault::Aborted };
        let faults = net.sides.each_ref().map(|side| side.socket.data().fault());
        assert_eq!(faults, [Some(Fault::Aborted), Some(told)], "with the reset {reset_arrives}");
    }
}

proptest! {
    #[test]
    fn bytes_arrive_once_in_order_on_earned_credit_whatever_is_lost(
        sizes in (1_u64..200_000, 0_u64..60_000),
        controls in 1_usize..4,
        vmss in prop::sample::select(vec![536_u64, 1_500, 4_500, 9_000]),
        copies in 0_u32..3,
        timestamps in any::<bool>(),
        percent in 0_u32..40,
        dice in vec(0_u32..100, 0..2_000),
        // Packets overtake each other, and some come after the timer.
        delays in vec(prop_oneof![8 => 3..20_u64, 1 => 1..3_000_u64], 0..2_000),
    ) {
        let tcp = Personality { timestamps, ..host() };
        let circuit = Circuit { copies, ..circuit(controls, vmss) };
        let mut net = Net::new(&tcp, &circuit, [sizes.0, sizes.1]);
        net.losses = dice.iter().map(|die| *die < percent).collect();
        net.delays = delays.into_iter().map(Duration::from_millis).collect();
        net.run(Time::ZERO, at_ms(360_000_000));
        let faults = net.sides.each_ref().map(|side| side.socket.data().fault());
        if faults == [None; 2] {
            prop_assert_eq!(net.sides.each_ref().map(|side| side.read), [sizes.1, sizes.0]);
            let states = net.sides.each_ref().map(|side| side.socket.data().state());
            prop_assert!(states.iter().all(|state| matches!(state, State::Closed | State::TimeWait)), "{:?}", states);
        } else {
            // A TCP gives up after seven SYNs or more of other segments in vain, and each costs a packet: itself or its answer.
            let most = net.lost.values().max();
            prop_assert!(most >= Some(&7), "given up, and of no connection more than {most:?} lost: {faults:?}");
        }
    }
}
