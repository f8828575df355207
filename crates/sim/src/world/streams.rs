//! Streams of datagrams and of frames: both ends at their hosts.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use headend_engine::circuit::unreliable::Socket;
use headend_engine::circuit::{Receiver, Sender, control_personality};
use headend_engine::graph::Graph;
use headend_engine::node::Port;
use headend_engine::packet::Endpoint;
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use super::build::{clock_phase, flow_rng, stagger};
use super::circuits::drop_tail;
use super::{Instance, Kind};
use crate::host::{
    Answers, Carriage, Encoder, Host, Ledger, Media, MediaSink, MediaSource, MediaStream, Role, Sink, Source, Stream,
};
use crate::network::Piece;
use crate::proxy::Proxy;
use headend_scenario::{Flow, FlowKind, Over, Scenario};

/// Adds both ends of an instance of a stream to their hosts, which send to each other by the ports `ways`.
pub(super) fn add(
    scenario: &Scenario,
    seed: u64,
    graph: &mut Graph<Piece<Host, Proxy>>,
    flow: &Flow,
    instance: u32,
    ways: [Port; 2],
) -> Instance {
    let mut rng = flow_rng(seed, flow, instance);
    let start = Time::ZERO + flow.start + stagger(&mut rng, flow);
    let meet = |node: usize| {
        let Piece::Host(host) = &graph.nodes()[node] else { unreachable!("both ends are hosts") };
        host.next_stream()
    };
    let [sender, receiver] = [meet(flow.from), meet(flow.to)];
    let (kind, ends) = match (flow.kind, &flow.media) {
        (FlowKind::Datagrams { rate, packet, on, off }, _) => {
            let source = Source::new(receiver, ways[0], start, rate, packet).pulsed(on, off);
            (Kind::Datagrams, [Stream::Source(source), Stream::Sink(Sink::default())])
        }
        (FlowKind::Media, Some(media)) => {
            let hosts = [flow.from, flow.to].map(|node| {
                let Piece::Host(host) = &graph.nodes()[node] else { unreachable!("both ends are hosts") };
                PairedEnd {
                    personality: host.personality(),
                    isn: rng.bits() as u32,
                    clock_phase: clock_phase(seed, &scenario.nodes[node].name),
                }
            });
            (Kind::Media, frames(media, start, hosts, [sender, receiver], ways))
        }
        _ => unreachable!("this flow is a stream"),
    };
    for (node, end) in [flow.from, flow.to].into_iter().zip(ends) {
        let Piece::Host(host) = graph.node_mut(node) else { unreachable!("both ends are hosts") };
        host.add_stream(end);
    }
    Instance {
        flow: flow.name.clone(),
        instance,
        kind,
        bytes: None,
        header: Bytes::ZERO,
        start,
        sender,
        receiver,
        isn: [0; 2],
        split: None,
    }
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
            let circuit = Sender::new(drop_tail(queue), vec![sending], vmss, gmb);
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
