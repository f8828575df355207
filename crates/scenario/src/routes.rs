//! Which hosts can reach which: over a link of their own, or over routers. A proxy routes what is not for it; a host
//! passes nothing on.

use std::collections::BTreeSet;

use super::model::{Link, Node, NodeKind};

/// The groups of routers that are joined, and the hosts at each.
pub(super) struct Routes {
    /// Per host: the groups it is linked to. Per router: its own.
    groups: Vec<BTreeSet<usize>>,
    /// Hosts that share a link, the smaller index first.
    neighbours: BTreeSet<[usize; 2]>,
}

impl Routes {
    pub(super) fn new(nodes: &[Node], links: &[Link]) -> Routes {
        let is_router = |index: usize| !matches!(nodes[index].kind, NodeKind::Host { .. });
        // A link with an unknown end was reported and joins nothing.
        let joined = links.iter().map(|link| link.between).filter(|ends| ends.iter().all(|end| *end < nodes.len()));
        let joined: Vec<[usize; 2]> = joined.collect();
        let mut parents: Vec<usize> = (0..nodes.len()).collect();
        for &[a, b] in joined.iter().filter(|ends| ends.iter().all(|end| is_router(*end))) {
            let (a, b) = (find(&mut parents, a), find(&mut parents, b));
            parents[a] = b;
        }
        let mut routes = Routes { groups: vec![BTreeSet::new(); nodes.len()], neighbours: BTreeSet::new() };
        for router in (0..nodes.len()).filter(|index| is_router(*index)) {
            routes.groups[router].insert(find(&mut parents, router));
        }
        for [a, b] in joined {
            match (is_router(a), is_router(b)) {
                (false, false) => drop(routes.neighbours.insert([a.min(b), a.max(b)])),
                (false, true) => drop(routes.groups[a].insert(find(&mut parents, b))),
                (true, false) => drop(routes.groups[b].insert(find(&mut parents, a))),
                (true, true) => {}
            }
        }
        routes
    }

    /// True if packets can pass between the hosts `a` and `b`.
    pub(super) fn join(&self, a: usize, b: usize) -> bool {
        self.neighbours.contains(&[a.min(b), a.max(b)]) || self.leads_to(a, b)
    }

    /// True if packets can pass between `host` and a router or proxy, or another host on its routers.
    pub(super) fn leads_to(&self, host: usize, router: usize) -> bool {
        !self.groups[host].is_disjoint(&self.groups[router])
    }
}

/// The representative of a group, with the path to it halved on the way.
fn find(parents: &mut [usize], mut index: usize) -> usize {
    while parents[index] != index {
        parents[index] = parents[parents[index]];
        index = parents[index];
    }
    index
}
