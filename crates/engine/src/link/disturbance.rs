//! What a medium does to packets besides losing them: it delays each by another time, lets some be overtaken, repeats some, and corrupts
//! some. Behind a link, in one direction: packets enter at port 0, as they arrive from the link, and leave at port 1.

use std::collections::BTreeMap;

use crate::node::{Node, Port, Step};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::time::{Duration, Time};
use crate::units::Chance;

/// The disturbances of a direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Each packet takes longer by a random time, uniform in `0..=jitter`, and none overtakes another.
    pub jitter: Duration,
    /// The chance that a packet is held for `reorder_by`, so that those behind it overtake it.
    pub reorder: Chance,
    /// The time for which such a packet is held.
    pub reorder_by: Duration,
    /// The chance that a packet arrives twice, one right behind the other.
    pub duplicate: Chance,
    /// The chance that bits of a packet are wrong: its receiver throws it away.
    pub corrupt: Chance,
}

impl Parameters {
    /// Those of a medium that does none of it.
    pub const NONE: Parameters = Parameters {
        jitter: Duration::ZERO,
        reorder: Chance::NEVER,
        reorder_by: Duration::ZERO,
        duplicate: Chance::NEVER,
        corrupt: Chance::NEVER,
    };

    /// True if packets meet any.
    pub fn is_any(&self) -> bool {
        let chances = [self.reorder, self.duplicate, self.corrupt];
        self.jitter > Duration::ZERO || chances.iter().any(|&chance| chance != Chance::NEVER)
    }

    /// The medium. Each of its disturbances draws from a generator of its own, which `rng` makes from its name.
    pub fn build(&self, rng: impl Fn(&str) -> Rng) -> Disturbance {
        Disturbance {
            parameters: self.clone(),
            jitter: rng("jitter"),
            reorder: rng("reorder"),
            duplicate: rng("duplicate"),
            corrupt: rng("corrupt"),
            latest: Time::ZERO,
            held: BTreeMap::new(),
            number: 0,
        }
    }
}

/// A medium that disturbs packets.
#[derive(Debug)]
pub struct Disturbance {
    parameters: Parameters,
    jitter: Rng,
    reorder: Rng,
    duplicate: Rng,
    corrupt: Rng,
    /// The time at which the last packet leaves that is not held.
    latest: Time,
    /// Packets inside, by the time at which they leave and their number.
    held: BTreeMap<(Time, u64), Packet>,
    /// Packets that have entered, copies included.
    number: u64,
}

impl Disturbance {
    fn hold(&mut self, until: Time, packet: Packet) {
        self.held.insert((until, self.number), packet);
        self.number += 1;
    }
}

impl Node for Disturbance {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        debug_assert_eq!(port, Port(0), "a medium has one way in");
        let Parameters { jitter, reorder, reorder_by, duplicate, corrupt } = self.parameters;
        let mut packet = *packet;
        if self.corrupt.strikes(corrupt) {
            packet.corrupt();
        }
        let longer = Duration::from_nanos(self.jitter.below(jitter.as_nanos().saturating_add(1)));
        self.latest = self.latest.max(now + longer);
        let until = if self.reorder.strikes(reorder) { self.latest + reorder_by } else { self.latest };
        let copy = if self.duplicate.strikes(duplicate) { packet.repeat() } else { None };
        self.hold(until, packet);
        if let Some(copy) = copy {
            self.hold(until, copy);
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        match self.held.first_key_value() {
            Some((&(until, _), _)) if until <= now => {
                let (_, packet) = self.held.pop_first().expect("it was just seen");
                Step::Send(Port(1), packet)
            }
            first => Step::Wait(first.map(|(&(until, _), _)| until)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, Class, Ecn, Endpoint};

    /// The times in milliseconds and the packets that leave, of a packet each millisecond.
    fn through(parameters: &Parameters, packets: u64) -> Vec<(f64, Packet)> {
        let mut medium = parameters.build(|name| Rng::named(1, name));
        let mut left = Vec::new();
        for id in 0..packets {
            let (src, class, body) = (Endpoint::default(), Class::default(), Body::Opaque);
            let now = Time::ZERO + Duration::from_millis(id);
            medium.receive(now, Port(0), &Packet { id, src, dst: src, len: 100, class, ecn: Ecn::NotEct, body });
            let end = if id + 1 < packets { now + Duration::from_millis(1) } else { now + Duration::from_secs(1) };
            let mut at = now;
            loop {
                match medium.poll(at) {
                    Step::Send(_, packet) => left.push((at.as_secs_f64() * 1e3, packet)),
                    Step::Wait(Some(wake)) if wake < end => at = wake,
                    Step::Wait(_) => break,
                }
            }
        }
        left
    }

    fn half() -> Chance {
        Chance::from_f64(0.5).expect("a chance")
    }

    #[test]
    fn jitter_delays_each_packet_by_another_time_and_keeps_their_order() {
        let left = through(&Parameters { jitter: Duration::from_millis(5), ..Parameters::NONE }, 1_000);
        assert!(left.iter().enumerate().all(|(n, (_, packet))| packet.id == n as u64));
        let late: Vec<f64> = left.iter().enumerate().map(|(n, (at, _))| at - n as f64).collect();
        assert!(late.iter().all(|&late| (-1e-6..5.000_001).contains(&late)), "{late:?}");
        let mean = late.iter().sum::<f64>() / 1_000.0;
        // None overtakes: the mean is above that of the draws, 2.5 ms.
        assert!(mean > 2.5 && mean < 5.0, "{mean}");
    }

    #[test]
    fn a_held_packet_is_overtaken_by_those_behind_it() {
        let parameters = Parameters { reorder: half(), reorder_by: Duration::from_millis(3), ..Parameters::NONE };
        let left = through(&parameters, 1_000);
        let mut ids: Vec<u64> = left.iter().map(|(_, packet)| packet.id).collect();
        assert!(ids.windows(2).any(|two| two[0] > two[1]), "some are overtaken");
        let held = left.iter().filter(|(at, packet)| (at - packet.id as f64 - 3.0).abs() < 1e-6).count();
        let prompt = left.iter().filter(|(at, packet)| (at - packet.id as f64).abs() < 1e-6).count();
        assert!(held + prompt == 1_000 && (400..600).contains(&held), "{held} of 1000 are held");
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..1_000), "every packet arrives once");
    }

    #[test]
    fn copies_follow_their_packets_and_know_that_they_are_two() {
        let left = through(&Parameters { duplicate: half(), ..Parameters::NONE }, 1_000);
        let copies = left.len() - 1_000;
        assert!((400..600).contains(&copies), "{copies} of 1000 are repeated");
        let twos = left.windows(2).filter(|two| two[0].1.number() == two[1].1.number()).count();
        assert_eq!(twos, copies);
        assert_eq!(left.iter().filter(|(_, packet)| packet.is_one_of_two()).count(), 2 * copies);
    }

    #[test]
    fn a_packet_s_bits_are_wrong_as_often_as_asked_for() {
        let left = through(&Parameters { corrupt: half(), ..Parameters::NONE }, 1_000);
        let corrupted = left.iter().filter(|(_, packet)| packet.is_corrupted()).count();
        assert!(left.len() == 1_000 && (400..600).contains(&corrupted), "{corrupted} of 1000 are corrupted");
    }
}
