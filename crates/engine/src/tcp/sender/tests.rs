use super::*;
use crate::cc::{Ack, Congestion, Controller};
use crate::units::Rate;

/// A fixed window and rate.
#[derive(Debug)]
struct Steady {
    rate: Option<Rate>,
}

impl Controller for Steady {
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _congestion: &Congestion) {}

    fn window(&self) -> Bytes {
        Bytes::new(100_000)
    }

    fn threshold(&self) -> Bytes {
        Bytes::MAX
    }

    fn pacing(&self) -> Option<Rate> {
        self.rate
    }
}

/// The times at which ten segments of 1000 B leave, in microseconds, each poll coming so much later than the sender asks for.
fn departures(rate: Option<Rate>, late: Duration) -> Vec<u64> {
    let personality = Personality { send_buffer: Bytes::new(10_000), ..Personality::newreno() };
    let rto = Rto::new(personality.rto, Duration::ZERO);
    let mut sender = Sender::new(&personality, 1_000, false, rto, 0, 1_000_000);
    sender.flight.controller = Box::new(Steady { rate });
    sender.paced = sender.flight.controller.pacing().is_some();
    sender.write(10_000);
    let (mut now, mut left) = (Time::ZERO, Vec::new());
    while left.len() < 10 {
        match sender.next(now) {
            Some(piece) => {
                assert_eq!(piece.len, 1_000);
                left.push(now.as_nanos() / 1_000);
            }
            None => {
                let due = sender.deadline().expect("more is to be sent");
                assert!(due > now, "it waits for later");
                now = due + late;
            }
        }
    }
    left
}

#[test]
fn a_controllers_rate_spreads_the_segments() {
    let every_ms: Vec<u64> = (0..10).map(|n| n * 1_000).collect();
    assert_eq!(departures(Some(Rate::mbit(8)), Duration::ZERO), every_ms, "8000 bit each at 8 Mbit/s");
    assert_eq!(departures(None, Duration::ZERO), [0; 10], "all at once without");
}

#[test]
fn a_driver_that_wakes_late_keeps_the_rate() {
    let late = departures(Some(Rate::mbit(80)), Duration::from_micros(70));
    let last = *late.last().expect("ten");
    assert!((900..=970).contains(&last), "900 us and one lateness: {late:?}");
    // A segment is 333 us: three are a millisecond.
    let very_late = departures(Some(Rate::mbit(24)), Duration::from_millis(5));
    let burst = very_late.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
    assert_eq!(burst, Some(3), "no more than a millisecond's worth: {very_late:?}");
}
