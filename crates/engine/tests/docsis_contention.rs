//! Many modems that contend, beside slotted ALOHA and back-off theory: a small edition of `cargo bench --bench docsis`.

#[path = "support/contention.rs"]
mod contention;

use contention::{Rates, Setting, at_random, saturated};
use headend_engine::time::Time;

const SEED: u64 = 1;

fn seconds(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn busy_modems_are_heard_as_often_as_back_off_theory_says() {
    for (modems, opportunities, backoff_start, backoff_end) in [(10, 1, 4, 10), (50, 1, 4, 10), (50, 8, 6, 10)] {
        let setting = Setting { modems, opportunities, backoff_start, backoff_end };
        let counters = saturated(setting, SEED, seconds(5), seconds(65));
        let found = Rates::of(&counters, counters.opportunities as f64);
        let theory = Rates::saturated(setting);
        assert!(
            found.off(&theory).iter().all(|off| *off < 0.05),
            "seed {SEED}, {setting:?}: {found:?}, in theory {theory:?}"
        );
    }
}

#[test]
fn random_packets_at_many_modems_collide_as_in_slotted_aloha() {
    let setting = Setting { modems: 200, opportunities: 1, backoff_start: 6, backoff_end: 10 };
    for load in [0.1, 0.2] {
        let counters = at_random(setting, load, SEED, seconds(120));
        let found = Rates::of(&counters, 60_000.0);
        let theory = Rates::aloha(load);
        assert!(
            found.off(&theory).iter().all(|off| *off < 0.05),
            "seed {SEED}, load {load}: {found:?}, in theory {theory:?}"
        );
    }
}
