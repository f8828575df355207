//! A node that passes packets on: no queue and no delay of its own, for those belong to links.

use std::collections::VecDeque;

use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::Packet;
use headend_engine::time::Time;

/// Where to send a packet for each node of the network; `None` for the node itself and for those out of reach.
pub type Routes = Vec<Option<Port>>;

/// Sends each packet on towards its destination.
#[derive(Debug)]
pub struct Router {
    routes: Routes,
    /// Packets that arrived and wait to be polled out, in order.
    passing: VecDeque<Packet>,
}

impl Router {
    /// A router with these routes.
    pub fn new(routes: Routes) -> Router {
        Router { routes, passing: VecDeque::new() }
    }
}

impl Node for Router {
    fn receive(&mut self, _now: Time, _port: Port, packet: Packet) {
        self.passing.push_back(packet);
    }

    fn poll(&mut self, _now: Time) -> Step {
        match self.passing.pop_front() {
            Some(packet) => {
                let port = self.routes[usize::from(packet.dst.node)];
                Step::Send(port.expect("the world gives packets only destinations that can be reached"), packet)
            }
            None => Step::Wait(None),
        }
    }
}
