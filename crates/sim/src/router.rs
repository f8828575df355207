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
    /// The port of somebody outside to whom all packets go first, whatever their destination.
    by_way_of: Option<Port>,
}

impl Router {
    /// A router with these routes.
    pub(crate) fn new(routes: Routes) -> Router {
        Router { routes, by_way_of: None }
    }

    /// A router in the place of somebody who is outside, at this port: every packet that comes along a link goes there, and what
    /// comes from there goes by these routes.
    pub(crate) fn by_way_of(outside: Port, routes: Routes) -> Router {
        Router { routes, by_way_of: Some(outside) }
    }
}

impl Node for Router {
    fn receive(&mut self, _now: Time, port: Port, _packet: &Packet) {
        unreachable!("a graph passes packets through a router, in at port {}", port.0);
    }

    fn poll(&mut self, _now: Time) -> Step {
        Step::Wait(None)
    }

    fn through(&self, port: Port, packet: &Packet) -> Option<Port> {
        if let Some(outside) = self.by_way_of.filter(|&outside| outside != port) {
            return Some(outside);
        }
        let port = self.routes[usize::from(packet.dst.node)];
        Some(port.expect(REACHABLE))
    }

    fn routes(&self) -> Option<&[Option<Port>]> {
        // They are not all that there is to say where packets go by way of somebody.
        self.by_way_of.is_none().then_some(&self.routes[..])
    }
}
