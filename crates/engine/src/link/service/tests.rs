//! Services that change over time.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::link::recording::Series;

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn recording(times_ms: &[u64]) -> Opportunities {
    Opportunities::new(times_ms.iter().map(|&ms| Duration::from_millis(ms)).collect(), Bytes::new(1_500))
}

fn finishes(service: &mut dyn Service, packets: &[(u64, u64)]) -> Vec<u64> {
    let finish = |&(start_ms, len)| service.finish(ms(start_ms), Bytes::new(len)).as_nanos() / 1_000_000;
    packets.iter().map(finish).collect()
}

#[test]
fn an_opportunity_serves_one_full_packet_and_the_recording_starts_over() {
    let mut service = recording(&[2, 5, 5, 9]);
    let packets = [(0, 1_500), (2, 1_500), (5, 1_500), (5, 1_500), (9, 1_500), (11, 1_500)];
    assert_eq!(finishes(&mut service, &packets), [2, 5, 5, 9, 11, 14]);
}

#[test]
fn small_packets_share_an_opportunity_and_a_large_one_takes_several() {
    let mut service = recording(&[1, 2, 3, 4, 5]);
    // Two of 500 B at 1 ms; the third fits as well; then 4000 B take what is left: none, so 2, 3 and most of 4.
    let packets = [(0, 500), (1, 500), (1, 500), (1, 4_000), (4, 500), (4, 1)];
    assert_eq!(finishes(&mut service, &packets), [1, 1, 1, 4, 4, 5]);
}

#[test]
fn what_nobody_used_at_its_time_is_gone() {
    let mut service = recording(&[1, 2, 3, 10]);
    assert_eq!(finishes(&mut service, &[(0, 100), (2, 1_400), (2, 200)]), [1, 2, 3]);
    assert_eq!(finishes(&mut service, &[(4, 100)]), [10]);
    // Many turns later.
    assert_eq!(finishes(&mut service, &[(1_234, 1_500), (1_234, 100)]), [1_240, 1_241]);
    assert_eq!(finishes(&mut service, &[(2_000, 1_500), (2_000, 1_500)]), [2_000, 2_001], "the end of a turn counts");
}

#[test]
fn a_packet_in_service_goes_on_at_the_new_rate() {
    let steps = [(ms(0), Rate::mbit(8)), (ms(10), Rate::mbit(2)), (ms(20), Rate::mbit(16))];
    let mut service = Steps::new(Series::held(steps));
    // 1000 B/ms, then 250, then 2000. The third has 1500 B by 20 ms, the rest half a millisecond later.
    let packets = [(0, 3_000), (8, 3_000), (14, 2_500), (30, 2_000)];
    assert_eq!(finishes(&mut service, &packets), [3, 14, 20, 31]);
    assert_eq!(Steps::new(Series::held(steps)).finish(ms(14), Bytes::new(2_500)), Time::from_nanos(20_500_000));
}

#[test]
fn a_packet_waits_while_the_rate_is_zero_and_steps_start_again() {
    // 1000 B/ms for 10 ms, then nothing for 5, over and over.
    let steps = Series::repeated([(ms(0), Rate::mbit(8)), (ms(10), Rate::bit(0))], Duration::from_millis(15));
    let mut service = Steps::new(steps);
    assert_eq!(finishes(&mut service, &[(8, 3_000), (17, 20_000), (100, 1_000)]), [16, 47, 106]);
}

#[test]
#[should_panic(expected = "never ends a service")]
fn a_rate_of_zero_for_good_is_refused() {
    let _ = Steps::new(Series::held([(ms(0), Rate::mbit(8)), (ms(10), Rate::bit(0))]));
}

proptest! {
    #[test]
    fn steps_of_one_rate_serve_as_a_constant_rate_does(
        bps in 1..10_000_000_000_u64,
        cuts in vec(1..1_000_000_u64, 0..5),
        packets in vec((0..1_000_000_u64, 1..100_000_u64), 1..20),
    ) {
        let mut time = 0;
        let mut steps = vec![(Time::ZERO, Rate::bit(bps))];
        for cut in cuts {
            time += cut;
            steps.push((Time::from_nanos(time), Rate::bit(bps)));
        }
        let (mut stepped, mut constant) = (Steps::new(Series::held(steps)), Constant::new(Rate::bit(bps)));
        let mut now = Time::ZERO;
        for (gap, len) in packets {
            now += Duration::from_nanos(gap);
            prop_assert_eq!(stepped.finish(now, Bytes::new(len)), constant.finish(now, Bytes::new(len)));
        }
    }

    #[test]
    fn a_recording_serves_as_one_who_goes_through_it_line_by_line(
        times in vec(0..20_u64, 1..12),
        packets in vec((0..40_u64, 1..4_000_u64), 1..30),
    ) {
        let mut times = times;
        times.sort_unstable();
        *times.last_mut().unwrap() += 1;
        // Every opportunity there is in time, and what is left of it.
        let length = *times.last().unwrap();
        let mut left: Vec<(u64, u64)> =
            (0..3_000).flat_map(|turn| times.iter().map(move |time| (turn * length + time, 1_500))).collect();
        let mut service = recording(&times);
        let (mut now, mut next) = (0, 0);
        for (gap, len) in packets {
            now += gap;
            let mut rest = len;
            while rest > 0 {
                let (time, bytes) = &mut left[next];
                let used = if *time < now { 0 } else { rest.min(*bytes) };
                (rest, *bytes) = (rest - used, if *time < now { 0 } else { *bytes - used });
                if rest > 0 {
                    next += 1;
                }
            }
            let expected = left[next].0;
            prop_assert_eq!(service.finish(ms(now), Bytes::new(len)), ms(expected));
            // Served one after another.
            now = expected.max(now);
        }
    }
}
