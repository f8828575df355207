//! A flow through a proxy: two connections in the place of one.

use headend_engine::graph::Graph;
use headend_engine::node::Port;
use headend_engine::packet::Endpoint;
use headend_engine::relay::{RelayModel, Side};
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;

use super::Site;
use crate::host::Host;
use crate::network::Piece;
use crate::proxy::{Leg, Opening, Pair, Proxy};
use crate::router::REACHABLE;
use crate::world::build::clock_phase;
use headend_scenario::topology::Topology;
use headend_scenario::{Flow, NodeKind, Scenario};

/// The way of a flow through its proxy: first what faces the host `from`, then what faces the host `to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProxyWay {
    proxy: usize,
    model: RelayModel,
    sides: [Side; 2],
    out: [Port; 2],
}

/// The proxy's two ends of an instance of such a flow, in the same order.
#[derive(Debug)]
pub(super) struct Split {
    way: ProxyWay,
    pub(super) at: [Endpoint; 2],
    pub(super) isn: [u32; 2],
    tcp: [Personality; 2],
    clock_phase: Duration,
}

impl ProxyWay {
    /// The way of `flow` through its proxy.
    pub(super) fn of(scenario: &Scenario, topology: &Topology, flow: &Flow, proxy: usize) -> ProxyWay {
        let NodeKind::Proxy(spec) = &scenario.nodes[proxy].kind else {
            unreachable!("the reader checked what `via` names")
        };
        let routes = topology.routes(proxy);
        let out = [flow.from, flow.to].map(|node| routes[node].expect(REACHABLE));
        let is_local = |port: Port| topology.link_at(proxy, port) == Some(spec.local_link);
        let sides = out.map(|port| if is_local(port) { Side::Local } else { Side::Remote });
        assert!(sides[0] != sides[1], "one end of a flow lies behind its proxy's local link, and the other not");
        ProxyWay { proxy, model: spec.model, sides, out }
    }
}

impl Split {
    /// Takes the next ports of the proxy, and numbers from the flow's generator.
    pub(super) fn new(site: &Site<'_>, way: ProxyWay, rng: &mut Rng) -> Split {
        let Piece::Proxy(proxy) = &site.graph.nodes()[way.proxy] else { unreachable!("a proxy is a proxy") };
        let name = &site.scenario.nodes[way.proxy].name;
        let ports = proxy.next_endpoints();
        Split {
            way,
            at: way.sides.map(|side| ports[side as usize]),
            isn: [rng.bits() as u32, rng.bits() as u32],
            tcp: way.sides.map(|side| proxy.personality(side).clone()),
            clock_phase: clock_phase(site.seed, name),
        }
    }

    /// The proxy's end that faces `from` (0) or `to` (1), for a connection that is agreed on beforehand.
    pub(super) fn end(&self, which: usize) -> PairedEnd<'_> {
        PairedEnd { personality: &self.tcp[which], isn: self.isn[which], clock_phase: self.clock_phase }
    }

    /// Adds the pair to its proxy. `opener` is the end that connects, 0 for `from` and 1 for `to`; without one, the
    /// connections are the `agreed` ones.
    pub(super) fn join(
        &self,
        graph: &mut Graph<Piece<Host, Proxy>>,
        opener: Option<usize>,
        agreed: [Connection; 2],
        peers: [Endpoint; 2],
    ) {
        let Piece::Proxy(proxy) = graph.node_mut(self.way.proxy) else { unreachable!("a proxy is a proxy") };
        let mut agreed = agreed.map(Some);
        let mut leg = |which: usize| {
            let end = self.end(which);
            let connection = match opener {
                None => agreed[which].take().expect("each is taken once"),
                Some(opener) if opener == which => Connection::listen(end.personality, end.isn, end.clock_phase),
                Some(_) => Connection::connect(end.personality, end.isn, end.clock_phase),
            };
            Leg::new(connection, peers[which], self.way.out[which])
        };
        let [faces_from, faces_to] = [leg(0), leg(1)];
        let legs = if self.way.sides[0] == Side::Local { [faces_from, faces_to] } else { [faces_to, faces_from] };
        let opening = opener.map_or(Opening::Beforehand, |opener| Opening::From(self.way.sides[opener]));
        proxy.add(Pair::new(self.way.model, opening, legs));
    }
}
