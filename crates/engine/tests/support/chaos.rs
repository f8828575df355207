//! A path that loses, repeats and reorders.

use std::collections::BTreeMap;

use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::Packet;
use headend_engine::rng::Rng;
use headend_engine::time::{Duration, Time};

/// The chances that a packet is hurt, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Harm {
    pub loss_permille: u32,
    pub duplication_permille: u32,
    pub reordering_permille: u32,
}

/// 10 ms each way, and up to 30 ms more for a packet that is reordered.
#[derive(Debug)]
pub struct Chaos {
    rng: Rng,
    harm: Harm,
    flying: BTreeMap<(Time, u64), (Port, Packet)>,
    count: u64,
}

impl Chaos {
    pub fn new(seed: u64, harm: Harm) -> Chaos {
        Chaos { rng: Rng::named(seed, "chaos"), harm, flying: BTreeMap::new(), count: 0 }
    }

    fn happens(&mut self, permille: u32) -> bool {
        self.rng.below(1000) < u64::from(permille)
    }
}

impl Node for Chaos {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        let copies = if self.happens(self.harm.duplication_permille) { 2 } else { 1 };
        for _ in 0..copies {
            if self.happens(self.harm.loss_permille) {
                continue;
            }
            let late = if self.happens(self.harm.reordering_permille) { self.rng.below(30_000_000) } else { 0 };
            let arrival = now + Duration::from_millis(10) + Duration::from_nanos(late);
            self.count += 1;
            self.flying.insert((arrival, self.count), (Port(1 - port.0), *packet));
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        match self.flying.first_key_value() {
            Some((&(arrival, _), _)) if arrival <= now => {
                let (_, (port, packet)) = self.flying.pop_first().expect("there is one");
                Step::Send(port, packet)
            }
            first => Step::Wait(first.map(|(&(arrival, _), _)| arrival)),
        }
    }
}
