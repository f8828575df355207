//! Streams of frames with a deadline.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use headend_engine::circuit::tunnel::Tunnel;
use headend_engine::circuit::unreliable::Socket;
use headend_engine::circuit::{Receiver, Sender, control_personality};
use headend_engine::node::Port;
use headend_engine::packet::Endpoint;
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::counters::SenderCounters;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use super::{Instance, Running, Site};
use crate::host::{Answers, Carriage, Encoder, Ledger, Media, MediaSink, MediaSource, MediaStream, Role, Stream};
use crate::world::World;
use headend_scenario::Over;
use headend_scenario::results::{FlowRow, MediaRow};

#[derive(Debug)]
struct Showing;

pub(super) fn build(site: &mut Site<'_>, media: &headend_scenario::Media) -> Instance {
    let mut rng = site.rng(site.seed);
    let start = site.start(&mut rng);
    let at = site.nodes().map(|node| site.host(node).next_stream());
    let phases = site.clock_phases();
    let [from, to] = site.nodes().map(|node| site.personality(node));
    let mut end = |personality, clock_phase| PairedEnd { personality, isn: rng.bits() as u32, clock_phase };
    let ends = frames(media, start, [end(from, phases[0]), end(to, phases[1])], at, site.way.out);
    site.add_streams(ends);
    site.instance(start, at, Box::new(Showing))
}

impl Running for Showing {
    fn rows(&self, world: &World, instance: &Instance, end: Time) -> Vec<FlowRow> {
        let (source, sink) = (source(world, instance), sink(world, instance));
        let delivered = source.ledger.borrow().delivered().get();
        let counters = tcp_counters(source);
        vec![FlowRow {
            flow: instance.flow.clone(),
            instance: u64::from(instance.instance),
            bytes: delivered,
            start_ns: instance.start.as_nanos(),
            active_ns: end.since(instance.start).as_nanos(),
            delivered_bytes: delivered,
            wire_bytes: sink.bytes.get(),
            timeouts: counters.timeouts,
            fast_retransmits: counters.fast_retransmits,
            segments_sent: counters.segments,
            retransmits: counters.retransmits,
            fault: if failed(source) { "the control connection failed" } else { "" }.into(),
            ..FlowRow::default()
        }]
    }

    fn arrived_bytes(&self, world: &World, instance: &Instance) -> u64 {
        sink(world, instance).bytes.get()
    }

    fn media_row(&self, world: &World, instance: &Instance, end: Time) -> Option<MediaRow> {
        let source = source(world, instance);
        let account = source.ledger.borrow().account();
        let ended =
            [account.on_time, account.late, account.broken, account.skipped, account.withdrawn, account.replaced];
        assert_eq!(
            account.captured,
            ended.iter().sum::<u64>() + account.pending,
            "flow {} {}: every frame ended in one way, or is under way",
            instance.flow,
            instance.instance
        );
        if let Carriage::Circuit(socket, _) = &source.carriage {
            check_circuit(instance, socket);
        }
        let delays = &account.delays;
        let total: Duration = delays.iter().fold(Duration::ZERO, |sum, delay| sum + *delay);
        let count = delays.len() as u64;
        // The smallest that is not below 95 per cent of all.
        let p95 = (!delays.is_empty()).then(|| delays[(delays.len() * 95).div_ceil(100) - 1]);
        Some(MediaRow {
            flow: instance.flow.as_str().into(),
            instance: u64::from(instance.instance),
            active_ns: end.since(instance.start).as_nanos(),
            frames: account.captured,
            on_time: account.on_time,
            late: account.late,
            broken: account.broken,
            skipped: account.skipped,
            withdrawn: account.withdrawn,
            replaced: account.replaced,
            cut: account.cut,
            pending: account.pending,
            stale_sent: account.stale_sent,
            on_time_bytes: account.on_time_bytes,
            rate_changes: source.encoder.changes(),
            delay_mean_ns: total.as_nanos().checked_div(count),
            delay_p95_ns: p95.map(Duration::as_nanos),
            delay_max_ns: delays.last().map(|delay| delay.as_nanos()),
        })
    }
}

fn end(world: &World, at: Endpoint) -> &Media {
    match world.host(usize::from(at.node)).stream(at) {
        Some(Stream::Media(media)) => media,
        _ => unreachable!("a flow of frames has its ends here"),
    }
}

fn source<'w>(world: &'w World, instance: &Instance) -> &'w MediaSource {
    match &end(world, instance.sender).role {
        Role::Source(source) => source,
        Role::Sink(_) => unreachable!("who sends is a source"),
    }
}

fn sink<'w>(world: &'w World, instance: &Instance) -> &'w MediaSink {
    match &end(world, instance.receiver).role {
        Role::Sink(sink) => sink,
        Role::Source(_) => unreachable!("who receives is a sink"),
    }
}

fn tcp_counters(source: &MediaSource) -> SenderCounters {
    match &source.carriage {
        Carriage::Datagrams(_) => SenderCounters::default(),
        Carriage::Circuit(socket, _) => {
            socket.circuit().connections().map(|tcp| tcp.counters()).next().unwrap_or_default()
        }
        Carriage::Stream(stream) => stream.connection().counters(),
    }
}

fn failed(source: &MediaSource) -> bool {
    match &source.carriage {
        Carriage::Datagrams(_) => false,
        Carriage::Circuit(socket, _) => socket.circuit().connections().any(|tcp| tcp.fault().is_some()),
        Carriage::Stream(stream) => stream.connection().fault().is_some(),
    }
}

/// Checks that the circuit sent a header for each VMSS, and the socket that it knows where its frames are.
fn check_circuit(instance: &Instance, socket: &Socket) {
    let (circuit, frames) = (socket.circuit(), socket.counters());
    let counters = circuit.counters();
    let (flow, number) = (&instance.flow, instance.instance);
    assert_eq!(
        counters.controlled_bytes,
        counters.headers * circuit.vmss().get() + circuit.unpaid().get(),
        "flow {flow} {number}: a header for each VMSS of data, but for what is not yet a whole one"
    );
    assert_eq!(
        frames.taken,
        frames.left + frames.withdrawn + frames.replaced + socket.waiting().count() as u64,
        "flow {flow} {number}: every frame that was taken has left, was taken back or waits"
    );
}

/// The two ends of a flow of frames.
fn frames(
    media: &headend_scenario::Media,
    start: Time,
    hosts: [PairedEnd<'_>; 2],
    [sender, receiver]: [Endpoint; 2],
    ways: [Port; 2],
) -> [Stream; 2] {
    let pair = |change: &dyn Fn(&Personality) -> Personality| {
        let [from, to] = [&hosts[0], &hosts[1]].map(|host| change(host.personality));
        let (sending, receiving) = Connection::pair(
            PairedEnd { personality: &from, isn: hosts[0].isn, clock_phase: hosts[0].clock_phase },
            PairedEnd { personality: &to, isn: hosts[1].isn, clock_phase: hosts[1].clock_phase },
        );
        ((sending, from), (receiving, to))
    };
    let (carriage, answers) = match media.over {
        Over::Udp => (Carriage::Datagrams(VecDeque::new()), Answers::Nobody),
        Over::Circuit { vmss, gmb, queue } => {
            let ((sending, from), (receiving, to)) = pair(&|base| control_personality(base, vmss));
            let circuit = Sender::new(Tunnel::drop_tail(queue), vec![sending], vmss, gmb);
            let answers = Answers::Circuit(Receiver::new(vec![receiving]), Box::new(to));
            (Carriage::Circuit(Socket::new(circuit), Box::new(from)), answers)
        }
        Over::Tcp => {
            // Who streams live does not let the end of a frame wait for an acknowledgement.
            let ((sending, from), (receiving, to)) = pair(&|base| Personality { nagle: false, ..base.clone() });
            let answers = Answers::Stream(Box::new(receiving), Box::new(to));
            (Carriage::Stream(MediaStream::new(sending, from)), answers)
        }
    };
    let ledger = Rc::new(RefCell::new(Ledger::new(media.deadline)));
    let source = MediaSource {
        encoder: Encoder::new(
            media.rates.clone(),
            media.frame_interval,
            (media.key_every, media.key_size),
            media.deadline,
            start,
        ),
        carriage,
        ledger: Rc::clone(&ledger),
        datagram: media.packet,
        stale: media.stale,
        stale_after: media.stale_after,
        deadline: media.deadline,
        next_frame: start,
    };
    let sink = MediaSink { answers, ledger, packets: 0, bytes: Bytes::ZERO };
    let source = Media { at: sender, peer: receiver, out: ways[0], wake: start, role: Role::Source(Box::new(source)) };
    let sink = Media { at: receiver, peer: sender, out: ways[1], wake: Time::MAX, role: Role::Sink(sink) };
    [source, sink].map(|media| Stream::Media(Box::new(media)))
}
