//! A node that passes packets on: no queue and no delay of its own, for those belong to links.

use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::Packet;
use headend_engine::time::Time;
use headend_scenario::topology::Routes;

/// The invariant on which all that route packets rely.
pub(crate) const REACHABLE: &str = "the world gives packets only destinations that can be reached";

/// Sends each packet on towards its destination, at once.
#[derive(Debug)]
pub(crate) struct Router {
    routes: Routes,
}

impl Router {
    /// A router with these routes.
    pub(crate) fn new(routes: Routes) -> Router {
        Router { routes }
    }
}

impl Node for Router {
    fn receive(&mut self, _now: Time, port: Port, _packet: &Packet) {
        unreachable!("a graph passes packets through a router, in at port {}", port.0);
    }

    fn poll(&mut self, _now: Time) -> Step {
        Step::Wait(None)
    }

    fn through(&self, _port: Port, packet: &Packet) -> Option<Port> {
        let port = self.routes[usize::from(packet.dst.node)];
        Some(port.expect(REACHABLE))
    }

    fn routes(&self) -> Option<&[Option<Port>]> {
        Some(&self.routes)
    }
}
