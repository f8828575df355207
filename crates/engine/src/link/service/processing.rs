//! The processor before the wire: each packet takes a random time more.

use super::Service;
use crate::rng::Rng;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// Another service, to which each packet adds what a host's or router's processor takes for it: uniform from zero to a
/// longest time. ns calls it a sender's overhead. Without it drop-tail queues whose input is as fast as their output drop the
/// packets of some flows and never those of others (Floyd and Jacobson 1992, "On traffic phase effects in packet-switched
/// gateways", section 4).
#[derive(Debug)]
pub struct Processing {
    service: Box<dyn Service>,
    longest: Duration,
    rng: Rng,
}

impl Processing {
    /// Serves as `service` does, each packet up to `longest` later.
    pub fn new(service: Box<dyn Service>, longest: Duration, rng: Rng) -> Processing {
        Processing { service, longest, rng }
    }
}

impl Service for Processing {
    fn finish(&mut self, start: Time, len: Bytes) -> Time {
        let taken = self.rng.below(self.longest.as_nanos().saturating_add(1));
        self.service.finish(start + Duration::from_nanos(taken), len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Constant;
    use super::*;
    use crate::units::Rate;

    #[test]
    fn each_packet_takes_half_of_the_longest_time_more_on_average() {
        let constant = Box::new(Constant::new(Rate::mbit(12)));
        let mut service = Processing::new(constant, Duration::from_micros(200), Rng::named(1, "processing"));
        let (mut now, mut longer) = (Time::ZERO, Vec::new());
        for _ in 0..10_000 {
            let end = service.finish(now, Bytes::new(1_500));
            longer.push((end - now).as_nanos() - 1_000_000);
            now = end;
        }
        assert!(longer.iter().all(|nanos| *nanos <= 200_000));
        assert!(longer.iter().any(|nanos| *nanos < 2_000) && longer.iter().any(|nanos| *nanos > 198_000));
        let mean = longer.iter().sum::<u64>() / 10_000;
        assert!((97_000..103_000).contains(&mean), "half of 200 us: {mean} ns");
    }
}
