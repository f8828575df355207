//! The gate of a flow through a reliable decoupling socket: a circuit's end before its connection, and the addresses of
//! the control TCPs.

use headend_engine::circuit::reliable::{Gate, Output, Ring};
use headend_engine::circuit::wire_len;
use headend_engine::node::Step;
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use super::Host;
use crate::trace::Event;
use headend_scenario::results::trace::What;
use headend_scenario::topology::FIRST_PORT;

/// The gate of one end of a flow. Data go one way, so that there is one circuit.
#[derive(Debug)]
pub(crate) struct Gated {
    pub(crate) gate: Gate,
    /// The circuit as this end sees it.
    pub(crate) ring: Ring,
    /// The options of its control TCPs.
    pub(crate) personality: Personality,
    /// The ports of the control TCPs here and at the peer: this one, and those below it.
    pub(crate) ports: [u16; 2],
}

impl Gated {
    /// The number of control TCPs that end here.
    fn controls(&self) -> usize {
        let sends = self.gate.sends().map_or(0, |sends| sends.connections().count());
        self.gate.receives().map_or(sends, |receives| receives.connections().len())
    }
}

impl Host {
    /// The port of the first control TCP of the next socket here. They are counted from the last port down.
    pub(crate) fn next_control(&self) -> u16 {
        u16::MAX - self.controls.len() as u16
    }

    /// Notes that the control TCPs of `gated` belong to the end at `index`.
    pub(super) fn add_controls(&mut self, index: usize, gated: &Gated) {
        debug_assert_eq!(gated.ports[0], self.next_control());
        self.controls.extend((0..gated.controls()).map(|control| (index as u32, control)));
    }

    /// Takes a packet that is for no connection: if it is for anything here, it is for a control TCP.
    #[cold]
    pub(super) fn receive_control(&mut self, now: Time, packet: &Packet) {
        let Body::Tcp(segment) = &packet.body else { return };
        let Some(&(index, which)) = self.controls.get(usize::from(u16::MAX - packet.dst.port)) else { return };
        self.ends[index as usize].receive_control(now, which, segment, packet.len());
        self.touch(index as usize);
    }

    /// Polls the gated end at `index`, the first of those touched; `None` once it waits.
    #[cold]
    pub(super) fn poll_gated(&mut self, now: Time, index: usize) -> Option<Step> {
        let end = &mut self.ends[index];
        let (peer, out) = (end.peer(), end.out());
        let data = Endpoint { node: self.node, port: index as u16 + FIRST_PORT };
        let (src, dst, len, class, segment) = match end.poll_gated(now) {
            Output::Data(segment) => (data, peer, self.personality.wire_len(&segment), Class::User, segment),
            Output::Control(ring, which, segment) => {
                let gated = end.gated().expect("a gated end polled a gate");
                let [here, there] = gated.ports.map(|first| first - which as u16);
                // What the receiving end sends is data to the routers: it is not sent less for being dropped.
                let class = if ring == Ring::Ours { Class::Header } else { Class::User };
                let (src, dst) = (Endpoint { port: here, ..data }, Endpoint { port: there, ..peer });
                (src, dst, wire_len(&gated.personality, &segment), class, segment)
            }
            Output::Wait(wake) => {
                self.touched.pop_front();
                self.rest(now, index, wake.unwrap_or(Time::MAX));
                return None;
            }
        };
        let packet = Packet { id: self.next_id, src, dst, len, class, ecn: Ecn::NotEct, body: Body::Tcp(segment) };
        self.next_id += 1;
        if let Some(log) = &mut self.log {
            log.push(Event { time: now, what: What::Sent, packet });
        }
        Some(Step::Send(out, packet))
    }
}

/// The congestion window that holds an end's data back: that of its circuit.
pub(super) fn window(gated: &Gated) -> Bytes {
    gated.gate.sends().map_or(Bytes::ZERO, |sends| sends.window())
}
