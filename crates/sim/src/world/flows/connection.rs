//! Connections of flows: their two ends are planned, joined and put at their hosts.

use headend_engine::circuit::reliable::data_personality;
use headend_engine::packet::Endpoint;
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use super::split::Split;
use super::{Instance, Site, sockets};
use crate::host::{Again, Closing, End, Setup};
use crate::proxy::Leg;
use crate::traffic::{Application, Server};
use headend_scenario::Socket;

/// The plans of a flow's two ends, that of the data's sender first.
pub(super) type Plans = [Plan; 2];

/// The plan of one end: how it opens, what it writes and reads, and when it closes.
pub(super) struct Plan {
    pub(super) opening: Opening,
    pub(super) application: Application,
    pub(super) expected: Bytes,
    pub(super) closing: Closing,
}

/// The way in which an end comes by its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Active,
    Passive,
    /// The connection is established beforehand.
    Beforehand,
}

/// The plans of a client that asks and of a server that answers with `header` and `file`.
pub(super) fn answer(request: Bytes, header: Bytes, header_apart: bool, file: Bytes) -> Plans {
    let server = Server { request, header, header_apart, takes: Duration::ZERO, ready: None, file, hand: Bytes::ZERO };
    [
        Plan {
            opening: Opening::Passive,
            application: Application::Server(server),
            expected: request,
            closing: Closing::AfterWriting,
        },
        Plan {
            opening: Opening::Active,
            application: Application::Source { left: request },
            expected: file + header,
            closing: Closing::AfterPeer,
        },
    ]
}

/// A connection between two hosts, or two through a proxy, before anything is put at them.
pub(super) struct Joint<'a> {
    pub(super) rng: Rng,
    pub(super) start: Time,
    pub(super) isn: [u32; 2],
    at: [Endpoint; 2],
    tcp: [Personality; 2],
    clock_phases: [Duration; 2],
    socket: Option<&'a Socket>,
    pub(super) split: Option<Split>,
    /// The two ends, agreed beforehand; they also tell how large a full segment will be.
    agreed: [Connection; 2],
    /// The two ends of the proxy between them, if there is one.
    between: Option<[Connection; 2]>,
}

impl<'a> Joint<'a> {
    pub(super) fn new(site: &Site<'_>, socket: Option<&'a Socket>) -> Joint<'a> {
        let mut rng = site.rng(site.seed);
        let start = site.start(&mut rng);
        let isn = [rng.bits() as u32, rng.bits() as u32];
        let controls = socket.map_or(0, |socket| socket.controls as usize);
        let at = site.nodes().map(|node| site.host(node).next_endpoint(controls));
        let tcp = site.nodes().map(|node| {
            let own = site.personality(node);
            if socket.is_some() { data_personality(own) } else { own.clone() }
        });
        let clock_phases = site.clock_phases();
        let end =
            |which: usize| PairedEnd { personality: &tcp[which], isn: isn[which], clock_phase: clock_phases[which] };
        let split = site.way.split.map(|way| Split::new(site, way, &mut rng));
        let (agreed, between) = match &split {
            None => (Connection::pair(end(0), end(1)), None),
            Some(split) => {
                let (sender, faces_from) = Connection::pair(end(0), split.end(0));
                let (faces_to, receiver) = Connection::pair(split.end(1), end(1));
                ((sender, receiver), Some([faces_from, faces_to]))
            }
        };
        Joint { rng, start, isn, at, tcp, clock_phases, socket, split, agreed: agreed.into(), between }
    }

    /// The payload of a full segment of the sender.
    pub(super) fn mss(&self) -> u64 {
        self.agreed[0].mss().get()
    }

    /// Puts both ends at their hosts, and those of the proxy there. `again` makes, given whether it is the client's,
    /// what an end needs to begin anew after its connection. Returns where the ends are.
    pub(super) fn put(
        mut self,
        site: &mut Site<'_>,
        plans: Plans,
        mut again: impl FnMut(&mut Rng, bool, &Personality, Duration) -> Option<Box<Again>>,
    ) -> [Endpoint; 2] {
        let openings = plans.each_ref().map(|plan| plan.opening);
        let gates = self.socket.map(|socket| {
            let ports = site.nodes().map(|node| site.host(node).next_control());
            sockets::gates(socket, self.tcp.each_ref(), openings, self.clock_phases, ports, &mut self.rng)
        });
        let gates = gates.map_or([None, None], |gates| gates.map(Some));
        if let (Some(split), Some(agreed)) = (&self.split, self.between) {
            let opener = openings.iter().position(|opening| *opening == Opening::Active);
            split.join(site.graph, opener, agreed, self.at);
        }
        let peers = self.split.as_ref().map_or([self.at[1], self.at[0]], |split| split.at);
        let ends = plans.into_iter().zip(gates).zip(self.agreed).enumerate();
        for (which, ((plan, gated), agreed)) in ends {
            let (tcp, isn, phase) = (&self.tcp[which], self.isn[which], self.clock_phases[which]);
            let connection = match plan.opening {
                Opening::Active => Connection::connect(tcp, isn, phase),
                Opening::Passive => Connection::listen(tcp, isn, phase),
                Opening::Beforehand => agreed,
            };
            let mut again = again(&mut self.rng, which == 1, tcp, phase);
            let application = again.as_mut().map_or(plan.application, |again| again.application().0);
            let setup = Setup {
                connection,
                application,
                peer: peers[which],
                out: site.way.out[which],
                start: if plan.opening == Opening::Passive { Time::ZERO } else { self.start },
                expected: plan.expected,
                closing: plan.closing,
                series: site.trace && which == 0,
                again,
                gated,
            };
            site.host_mut(site.nodes()[which]).add(setup);
        }
        self.at
    }
}

/// The two connections of a proxy that split a flow, first the one that faces the sender of the data.
pub(super) struct Legs<'a> {
    pub(super) legs: [&'a Leg; 2],
    /// Bytes that the proxy still held at the end, towards the sender and towards the receiver.
    pub(super) held: [Bytes; 2],
}

/// Checks that no byte of a flow came from nowhere, was read twice, or was taken for arrived when it was not.
pub(super) fn conserve_bytes(instance: &Instance, sender: &End, receiver: &End, split: Option<&Legs<'_>>) {
    let [sender, receiver] = [sender, receiver].map(|end| (end.connection(), end.record.read));
    let Some(Legs { legs, held }) = split else { return conserve_both_ways(instance, sender, receiver) };
    let [faces_from, faces_to] = legs.map(|leg| (&leg.connection, leg.read));
    conserve_both_ways(instance, sender, faces_from);
    conserve_both_ways(instance, faces_to, receiver);
    for (read, written, held) in [(legs[0].read, legs[1].written, held[1]), (legs[1].read, legs[0].written, held[0])] {
        assert!(
            read == written + held,
            "flow {} {}: what the proxy read ({read}) it wrote ({written}) or holds ({held})",
            instance.flow,
            instance.instance
        );
    }
}

/// Checks the bytes of one connection in both directions, given its ends and what was read there.
fn conserve_both_ways(instance: &Instance, a: (&Connection, Bytes), b: (&Connection, Bytes)) {
    for ((from, _), (to, read)) in [(a, b), (b, a)] {
        let (acknowledged, arrived) = (from.acknowledged(), to.received());
        let (sent, unread) = (from.counters().bytes, to.readable());
        assert!(
            acknowledged <= arrived && arrived == read + unread && arrived.get() <= sent,
            "flow {} {}: what is acknowledged ({acknowledged}) has arrived ({arrived}), what arrived was read ({read}) \
             or waits ({unread}), and it was sent ({sent}B)",
            instance.flow,
            instance.instance
        );
    }
}
