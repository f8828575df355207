//! A reactor whose clock and devices are made up: nothing waits for real.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use headend_engine::codec::ipv4::Ipv4Header;
use headend_engine::codec::protocol;
use headend_engine::graph::Graph;
use headend_engine::link::Link;
use headend_engine::link::loss::List;
use headend_engine::link::queue::codel::{self, Codel, Times};
use headend_engine::link::queue::header_drop::Early;
use headend_engine::link::queue::{DropTail, HeaderDrop, Queue};
use headend_engine::link::service::Constant;
use headend_engine::packet::Class;
use headend_engine::rng::Rng;
use headend_engine::units::{Bytes, Capacity, Rate};

use super::*;

const MS: u64 = 1_000_000;

/// Packets at known times, and a clock that moves from one event to the next, each time a little late.
struct Script {
    now: Time,
    end: Time,
    /// The lateness of each wait's end.
    late: Duration,
    /// Spans of milliseconds in which the machine stands still.
    pauses: Vec<(u64, u64)>,
    /// What devices say of when a packet that came at this time came.
    noted: fn(Time) -> Option<Time>,
    /// Packets to come, in order: when, at which port, and their bytes.
    coming: VecDeque<(Time, Port, Vec<u8>)>,
    /// Packets that were written: when, at which port, and their bytes.
    gone: Vec<(Time, Port, Vec<u8>)>,
    waits: u64,
    refuses: bool,
    /// The time from which on reading fails.
    breaks: Option<Time>,
}

impl Script {
    fn new(coming: impl IntoIterator<Item = (u64, u16, Vec<u8>)>) -> Script {
        let coming = coming.into_iter().map(|(ms, port, bytes)| (Time::from_nanos(ms * MS), Port(port), bytes));
        Script {
            now: Time::ZERO,
            end: Time::from_nanos(10_000 * MS),
            late: Duration::ZERO,
            pauses: Vec::new(),
            noted: |_| None,
            coming: coming.collect(),
            gone: Vec::new(),
            waits: 0,
            refuses: false,
            breaks: None,
        }
    }
}

impl Outside for Script {
    fn now(&mut self) -> Time {
        self.now
    }

    fn wait(&mut self, until: Option<Time>, packets: bool) -> Result<Woken, Error> {
        self.waits += 1;
        let packet = self.coming.front().filter(|_| packets).map(|&(time, ..)| time);
        let event = earlier(until, packet).unwrap_or(self.end).min(self.end);
        if event > self.now {
            self.now = event + self.late;
        }
        let paused = |&&(from, to): &&(u64, u64)| (from * MS..to * MS).contains(&self.now.as_nanos());
        if let Some(&(_, to)) = self.pauses.iter().find(paused) {
            self.now = Time::from_nanos(to * MS);
        }
        Ok(if self.now >= self.end { Woken::Stop } else { Woken::Up })
    }

    fn read(&mut self, port: Port, buffer: &mut [u8]) -> Result<Option<Received>, Error> {
        let now = self.now;
        if self.breaks.is_some_and(|breaks| breaks <= now) {
            return Err(Error::new("read", std::io::Error::from(std::io::ErrorKind::BrokenPipe)));
        }
        let next = self.coming.iter().position(|&(time, at, _)| time <= now && at == port);
        let Some((came, _, bytes)) = next.and_then(|next| self.coming.remove(next)) else { return Ok(None) };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(Received { len: bytes.len(), came: (self.noted)(came), open: None }))
    }

    fn write(&mut self, port: Port, packet: &[u8], _open: Option<OpenChecksum>) -> Result<Refused, Error> {
        self.gone.push((self.now, port, packet.to_vec()));
        Ok(Refused { packets: self.refuses.into(), is_down: false })
    }

    fn dropped(&mut self) -> Result<u64, Error> {
        Ok(0)
    }
}

/// A link of 8 Mbit/s and 10 ms from port 0 to port 1: a byte takes a microsecond.
fn link(queue_packets: u64, lost: Vec<u64>) -> Graph<Link> {
    link_of(queue_packets, lost, Duration::from_millis(10))
}

/// The same with another delay.
fn link_of(queue_packets: u64, lost: Vec<u64>, delay: Duration) -> Graph<Link> {
    link_with(Box::new(DropTail::new(Capacity::Packets(queue_packets))), lost, delay)
}

/// The same with another queue.
fn link_with(queue: Box<dyn Queue>, lost: Vec<u64>, delay: Duration) -> Graph<Link> {
    let loss = Box::new(List::new(lost));
    let service = Box::new(Constant::new(Rate::mbit(8)));
    let mut link = Link::new(queue, service, Some(loss), delay);
    link.record_discards();
    let mut graph = Graph::new();
    let node = graph.add(link);
    graph.expose(node, Port(0));
    graph.expose(node, Port(1));
    graph
}

fn reactor(graph: Graph<Link>, limits: Limits) -> Reactor<Graph<Link>> {
    let attachment = |node, to| Some(Attachment { node, to: Destination::Always(to) });
    Reactor::new(graph, vec![attachment(0, 1), attachment(1, 0)], limits)
}

/// Those of a path without delay: what is later than 1 ms is late.
fn limits() -> Limits {
    Limits::new(1_500, Duration::ZERO)
}

/// Runs to the script's end and returns the last report.
fn run(reactor: &mut Reactor<Graph<Link>>, script: &mut Script) -> Report {
    let mut last = None;
    let mut keep = |_: &mut Graph<Link>, report: &Report| {
        last = Some(report.clone());
        ControlFlow::Continue(())
    };
    reactor.run(script, Duration::from_secs(1), &mut keep).expect("the script does not fail");
    last.expect("there is a report at the end")
}

#[test]
fn a_packet_leaves_with_its_own_bytes_when_the_engine_says() {
    let mut script = Script::new([(5, 0, vec![1; 1_000]), (5, 0, vec![2; 500])]);
    let report = run(&mut reactor(link(9, vec![]), limits()), &mut script);
    // A millisecond of service and ten of propagation; the second after half a millisecond more.
    let expected = [(16 * MS, vec![1; 1_000]), (16 * MS + MS / 2, vec![2; 500])];
    assert_eq!(script.gone, expected.map(|(ns, bytes)| (Time::from_nanos(ns), Port(1), bytes)));
    let counts = [0, 1].map(|port: usize| report.ports[port]);
    assert_eq!((counts[0].entered, counts[0].entered_bytes, counts[0].left), (2, 1_500, 0));
    assert_eq!((counts[1].left, counts[1].left_bytes, counts[1].entered), (2, 1_500, 0));
    assert_eq!((report.deliveries_all.count, report.deliveries_all.max), (2, Duration::ZERO));
    assert!(report.strain.is_none(), "{report:?}");
}

#[test]
fn a_late_wake_up_delays_what_leaves_and_moves_nothing_inside() {
    // Two packets at once, both waits for their deadlines end 0.2 ms late; the second's place in the link's time does
    // not suffer from the first's lateness.
    let mut script = Script::new([(0, 0, vec![1; 1_000]), (0, 0, vec![2; 1_000])]);
    script.late = Duration::from_micros(200);
    let report = run(&mut reactor(link(9, vec![]), limits()), &mut script);
    let times: Vec<u64> = script.gone.iter().map(|(time, ..)| time.as_nanos()).collect();
    assert_eq!(times, [11 * MS + 200_000, 12 * MS + 200_000]);
    let late = report.deliveries_all;
    assert_eq!((late.count, late.max), (2, Duration::from_micros(200)));
    assert!(report.strain.is_none(), "less than 1 ms is not late: {report:?}");
}

#[test]
fn too_much_lateness_marks_the_result() {
    let mut script = Script::new([(0, 0, vec![1; 1_000])]);
    script.late = Duration::from_millis(2);
    let report = run(&mut reactor(link(9, vec![]), limits()), &mut script);
    assert_eq!(report.strain.late, 1, "{report:?}");
}

#[test]
fn a_packet_that_is_read_late_arrives_when_it_is_read() {
    // The wait for it ends 3 ms late; a deadline of the engine that lay between is settled at its own time.
    let mut script = Script::new([(0, 0, vec![1; 1_000]), (10, 0, vec![2; 1_000])]);
    script.late = Duration::from_millis(3);
    let mut reactor = reactor(link(9, vec![]), limits());
    run(&mut reactor, &mut script);
    let times: Vec<u64> = script.gone.iter().map(|(time, ..)| time.as_nanos() / MS).collect();
    // The first was due at 11 and leaves at the wake-up of 13. The second is read then: due at 24, and that is late
    // too.
    assert_eq!(times, [13, 27]);
    assert_eq!(reactor.node().nodes()[0].stats().delivered, 2);
}

#[test]
fn buffers_of_delivered_dropped_and_lost_packets_are_used_again() {
    // In each of 500 rounds one packet is served, one waits, one is dropped, and every third to be served is lost.
    let rounds = 500;
    let coming = (0..rounds).flat_map(|round| (0..3).map(move |_| (20 * round, 0, vec![0; 1_000])));
    let lost = (1..=2 * rounds).filter(|number| number % 3 == 0).collect();
    let mut script = Script::new(coming);
    script.end = Time::from_nanos(20 * rounds * MS);
    let mut reactor = reactor(link(1, lost), Limits { buffers_max: 6, ..limits() });
    let report = run(&mut reactor, &mut script);
    let stats = reactor.node().nodes()[0].stats();
    assert_eq!((stats.dropped, stats.lost, stats.delivered), (500, 333, 667));
    assert_eq!((script.gone.len(), report.inside, reactor.buffers_held()), (667, 0, 0));
    assert!(report.strain.is_none(), "six buffers are enough: {:?}", report.strain);
}

#[test]
fn without_a_free_buffer_nothing_is_read_and_the_result_is_marked() {
    let coming = (0..4).map(|n| (0, 0, vec![n; 1_000]));
    let mut script = Script::new(coming);
    let limits = Limits { buffers_max: 2, ..limits() };
    let report = run(&mut reactor(link(9, vec![]), limits), &mut script);
    let (times, bytes): (Vec<u64>, Vec<u8>) =
        script.gone.iter().map(|(time, _, bytes)| (time.as_nanos() / MS, bytes[0])).unzip();
    // Each of the last two is read when a buffer is free again.
    assert_eq!((times, bytes), (vec![11, 12, 22, 23], vec![0, 1, 2, 3]));
    assert!(report.strain.full > 0, "{report:?}");
}

#[test]
fn strays_and_refused_packets_are_counted_and_their_buffers_are_free() {
    let mut script = Script::new([(0, 0, vec![0x45; 100]), (1, 1, vec![0x45; 100])]);
    script.refuses = true;
    let to = Destination::Of(Arc::new(Addresses::new()));
    let attachments = vec![Some(Attachment { node: 0, to: Destination::Always(1) }), Some(Attachment { node: 1, to })];
    let mut reactor = Reactor::new(link(9, vec![]), attachments, limits());
    let report = run(&mut reactor, &mut script);
    assert_eq!((report.ports[1].strays, report.ports[1].entered), (1, 0));
    assert_eq!((report.ports[1].left, report.ports[1].refused, report.strain.refused), (1, 1, 1));
    assert_eq!(reactor.buffers_held(), 0);
}

#[test]
fn a_packet_that_is_too_long_is_not_carried_cut_off_and_marks_the_result() {
    let mut script = Script::new([(0, 0, vec![1; 101]), (1, 0, vec![2; 100])]);
    let limits = Limits { packet_bytes_max: 100, ..limits() };
    let report = run(&mut reactor(link(9, vec![]), limits), &mut script);
    assert_eq!(script.gone.len(), 1);
    assert_eq!((script.gone[0].2.len(), report.strain.oversize, report.inside), (100, 1, 0));
}

#[test]
fn without_traffic_the_reactor_wakes_fifty_times_a_second() {
    let mut script = Script::new([]);
    let report = run(&mut reactor(link(9, vec![]), limits()), &mut script);
    // Ten seconds; the reports fall together with looks. Besides, the first poll and the stop.
    assert!((500..=502).contains(&script.waits), "{} waits", script.waits);
    assert!(report.strain.is_none(), "{report:?}");
}

/// A packet every `gap_ms` on a link that is always punctual, and ten pauses of the machine of 80 ms.
fn with_pauses(gap_ms: u64, limits: Limits) -> Report {
    let mut script = Script::new((0..5_000 / gap_ms).map(|n| (gap_ms * n, 0, vec![1; 100])));
    script.pauses = (0..10).map(|n| (500 * n + 101, 500 * n + 181)).collect();
    script.end = Time::from_nanos(5_100 * MS);
    run(&mut reactor(link(99, vec![]), limits), &mut script)
}

#[test]
fn pauses_mark_the_result_though_packets_read_leave_on_time() {
    for gap_ms in [1, 10, 40] {
        let report = with_pauses(gap_ms, limits());
        // 16% of the time stood still, and what came in it waited to be read.
        let share = report.strain.late as f64 / report.deliveries_all.count as f64;
        assert!((0.1..=0.2).contains(&share), "a packet every {gap_ms} ms: {share} of them late: {report:?}");
        assert!(report.deliveries_all.max >= Duration::from_millis(76), "{report:?}");
    }
}

#[test]
fn the_lateness_that_counts_depends_on_the_path_s_delay() {
    // A twentieth of 2 s is more than any pause.
    assert!(with_pauses(10, Limits::new(1_500, Duration::from_secs(2))).strain.is_none());
}

/// The reports of a link of this delay on which a packet comes every 10 ms, each at the begin of a pause of 2 ms, and when packets left.
fn with_packets_in_pauses(delay: Duration, noted: fn(Time) -> Option<Time>) -> (Report, Vec<u64>) {
    let mut script = Script::new((0..100).map(|n| (10 * n + 3, 0, vec![1; 100])));
    script.pauses = (0..100).map(|n| (10 * n + 3, 10 * n + 5)).collect();
    script.noted = noted;
    let report = run(&mut reactor(link_of(9, vec![], delay), limits()), &mut script);
    let left = script.gone.iter().map(|(time, ..)| time.as_nanos() / 100_000 % 100);
    (report, left.collect())
}

#[test]
fn what_came_in_a_pause_leaves_on_time_where_its_coming_is_noted() {
    let delay = Duration::from_millis(4);
    let (report, left) = with_packets_in_pauses(delay, Some);
    assert!(report.strain.is_none() && report.deliveries_all.max == Duration::ZERO, "{report:?}");
    assert!(left.iter().all(|&tenth| tenth == 71), "3 ms, 4 of delay, and 0.1 of service: {left:?}");
    // Nobody knows that they had come before.
    assert!(with_packets_in_pauses(delay, |_| None).1.iter().all(|&tenth| tenth == 91));
}

#[test]
fn a_pause_between_two_looks_is_seen_where_coming_is_noted() {
    let (report, left) = with_packets_in_pauses(Duration::ZERO, Some);
    assert!(left.iter().all(|&tenth| tenth == 50), "the end of the pause: {left:?}");
    assert_eq!((report.strain.late, report.deliveries_all.max), (100, Duration::from_micros(1_900)), "{report:?}");
}

#[test]
fn what_waits_in_the_link_anyway_is_not_late_for_being_read_late() {
    // Ten packets at once keep the link busy for 10 ms. They are read 5 ms late, and only the first four suffer from that.
    let mut script = Script::new((0..10).map(|_| (300, 0, vec![1; 1_000])));
    (script.pauses, script.noted) = (vec![(300, 305)], Some);
    let report = run(&mut reactor(link_of(99, vec![], Duration::ZERO), limits()), &mut script);
    let late = report.deliveries_all;
    assert_eq!((late.count, late.p50, late.max), (10, Duration::ZERO, Duration::from_millis(4)), "{report:?}");
}

#[test]
fn a_device_s_word_on_when_a_packet_came_is_believed_within_reason() {
    let left = |noted: fn(Time) -> Option<Time>| {
        let mut script = Script::new([(300, 0, vec![1; 1_000])]);
        (script.late, script.noted) = (Duration::from_millis(5), noted);
        let max = run(&mut reactor(link(9, vec![]), limits()), &mut script).deliveries_all.max;
        (max.as_nanos() / MS, script.gone[0].0.as_nanos() / MS)
    };
    // A device that looks back: it was read and empty at 275 ms, and from then on the packet takes 11 ms. One that looks ahead.
    assert_eq!(left(|_| Some(Time::ZERO)), (14, 300));
    assert_eq!(left(|came| Some(came + Duration::from_secs(9))), (5, 316));
}

#[test]
fn a_pause_of_more_than_100_ms_marks_the_result_by_itself() {
    let paused = |ms: u64| {
        let mut script = Script::new([]);
        script.pauses = vec![(305, 305 + ms)];
        run(&mut reactor(link(9, vec![]), limits()), &mut script).strain.stalls
    };
    assert_eq!((paused(40), paused(160), paused(600)), (0, 1, 1));
}

#[test]
fn a_device_that_fails_ends_the_run_with_a_last_report() {
    let mut script = Script::new([(5, 0, vec![1; 1_000])]);
    script.breaks = Some(Time::from_nanos(300 * MS));
    let mut last = None;
    let mut keep = |_: &mut Graph<Link>, report: &Report| {
        last = Some(report.clone());
        ControlFlow::Continue(())
    };
    let mut reactor = reactor(link(9, vec![]), limits());
    reactor.run(&mut script, Duration::from_secs(1), &mut keep).expect_err("the device fails");
    let last = last.expect("a report in the first second");
    assert_eq!((last.now, last.ports[1].left), (script.now, 1));
    assert_eq!(last.deliveries_all.count, 1);
}

#[test]
fn a_long_preparation_before_the_start_is_no_pause() {
    let mut script = Script::new([]);
    script.now = Time::from_nanos(500 * MS);
    let report = run(&mut reactor(link(9, vec![]), limits()), &mut script);
    assert!(report.strain.is_none(), "{report:?}");
}

#[test]
fn a_tap_sees_what_enters_and_what_leaves() {
    type Packets = Arc<Mutex<Vec<(u64, u16, bool, usize)>>>;
    struct Seen(Packets);
    impl Tap for Seen {
        fn packet(&mut self, time: Time, port: Port, inward: bool, bytes: &[u8]) {
            self.0.lock().unwrap().push((time.as_nanos() / MS, port.0, inward, bytes.len()));
        }
    }
    let mut script = Script::new([(1, 0, vec![7; 1_000]), (1, 0, vec![7; 1_000])]);
    let mut reactor = reactor(link(9, vec![1]), limits());
    let seen = Packets::default();
    reactor.tap(Box::new(Seen(seen.clone())));
    run(&mut reactor, &mut script);
    assert_eq!(*seen.lock().unwrap(), [(1, 0, true, 1_000), (1, 0, true, 1_000), (13, 1, false, 1_000)]);
}

#[test]
fn a_router_of_circuits_drops_real_headers_first_by_their_code_point() {
    // Every third packet is a user's, and two headers may wait; all come within the time that the link takes for eight of them.
    let packet = |class: Class, n: u8| {
        let mut bytes = vec![n; 100];
        (bytes[0], bytes[1]) = (0x45, class.code_point() << 2);
        bytes
    };
    let class_of = |n: u8| if n.is_multiple_of(3) { Class::User } else { Class::Header };
    let mut script = Script::new((0..60).map(|n| (0, 0, packet(class_of(n), n))));
    let departure = Duration::from_micros(100);
    let queue = HeaderDrop::new(Early::Headers(2), Bytes::new(10_000), false, 1, departure, Rng::named(1, "drops"));
    let mut reactor = reactor(link_with(Box::new(queue), vec![], Duration::ZERO), limits());
    run(&mut reactor, &mut script);
    let arrived = |class: Class| script.gone.iter().filter(|(_, _, bytes)| bytes[1] == class.code_point() << 2).count();
    let stats = reactor.node().nodes()[0].stats();
    assert_eq!((arrived(Class::User), stats.dropped_user), (20, 0), "there is room for them all");
    assert!(arrived(Class::Header) <= 4 && stats.dropped_headers >= 36, "of 40 headers: {stats:?}");
}

#[test]
fn a_queue_marks_real_packets_that_can_be_marked_and_drops_others() {
    // By turns with and without ECN, all at once and 1 ms of service each: all but the first few wait longer than CoDel lets them.
    let packet = |n: u8| {
        let mut bytes = vec![n; 1_000];
        let header = Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::UDP, 980);
        let ecn = if n.is_multiple_of(2) { Ecn::Ect0 } else { Ecn::NotEct };
        let header = Ipv4Header { traffic_class: 46 << 2 | ecn.bits(), ..header };
        header.encode(&mut bytes).expect("there is room");
        bytes
    };
    let mut script = Script::new((0..100).map(|n| (0, 0, packet(n))));
    let times = Times { target: Duration::from_millis(2), interval: Duration::from_millis(10) };
    let queue = Codel::new(codel::Parameters { buffer: Capacity::Unlimited, times, marks: true });
    let mut reactor = reactor(link_with(Box::new(queue), vec![], Duration::ZERO), limits());
    run(&mut reactor, &mut script);
    let stats = reactor.node().nodes()[0].stats();
    let mut marked = 0;
    for (_, _, bytes) in &script.gone {
        assert_eq!(Ipv4Header::verify(bytes), Ok(()), "the checksum covers the mark");
        assert_eq!(bytes[1] >> 2, 46, "the code point stays");
        marked += u64::from(Ecn::of_bits(bytes[1]) == Ecn::Ce);
        let (before, ecn) = (packet(bytes[999])[1], Ecn::of_bits(bytes[1]));
        assert!(ecn.bits() == before & 3 || (ecn == Ecn::Ce && before & 3 == Ecn::Ect0.bits()), "{ecn:?}");
    }
    assert!(marked >= 3 && marked == stats.marked, "{marked}: {stats:?}");
    assert!(stats.dropped > 0 && script.gone.len() as u64 == 100 - stats.dropped, "{stats:?}");
    let with_ecn = script.gone.iter().filter(|(_, _, bytes)| bytes[999].is_multiple_of(2)).count();
    assert_eq!(with_ecn, 50, "none of those is dropped");
}
