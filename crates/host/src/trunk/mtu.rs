//! The longest packet that passes to a peer, found by probes (packetization layer path MTU discovery for datagrams, RFC 8899).
//!
//! A probe is a datagram of the length that a user's packet would have, and the peer says that it came. Lengths here are those of
//! users' packets. The search begins with the longest that may be and not, as RFC 8899 s5.2 has it, with one that passes everywhere:
//! hosts remember for ten minutes that a path is narrow, and most are not. Until a length is confirmed, and while it is doubted,
//! packets of that length go on.

use headend_engine::time::{Duration, Time, earlier};

/// Time after which a probe that is not answered counts as lost (RFC 8899 s5.1.1, PROBE_TIMER: a second at least).
const PROBE_AGAIN: Duration = Duration::from_secs(1);
/// Probes of a longer length that are lost before it counts as too long (s5.1.2, MAX_PROBES).
const PROBES_MAX: u32 = 3;
/// Time after which a length is confirmed again while packets leave (s5.1.1, CONFIRMATION_TIMER).
const CONFIRM_AGAIN: Duration = Duration::from_secs(5);
/// Time after which longer ones are tried again (s5.1.1, PMTU_RAISE_TIMER).
const RAISE_AGAIN: Duration = Duration::from_secs(600);
/// The length that each path passes: every host takes a packet of 576 bytes (RFC 791), and what is around ours is less than the
/// smallest link of IPv6 has room for beside it (RFC 8200 s5).
const FLOOR: u32 = 576;
/// Lengths in doubt that are tried at once.
const STEPS: u32 = 8;
/// Rounds of these after the first one, and answers to the shortest that tell that the path is there and only too narrow.
const ROUNDS: u32 = 3;
const HEARD: u32 = 2;
/// Bytes that are not searched for any more.
const PRECISION: u32 = 8;

/// The search for the longest packet that passes.
#[derive(Clone, Debug)]
pub(super) struct Search {
    floor: u32,
    ceiling: u32,
    length: u32,
    is_confirmed: bool,
    phase: Phase,
    /// The time at which longer ones are tried, if there may be longer ones.
    raise_at: Option<Time>,
    /// True if long packets have left since the length was confirmed.
    is_used: bool,
    /// The number of the next probe, and that of the first of this path.
    next_id: u32,
    first_id: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The length passes.
    Resting { confirm_at: Time },
    /// Whether the length passes is not known. `heard` counts answers to the shortest, `best` is the longest shorter length that came.
    Doubting { rounds: u32, at: Time, heard: u32, best: u32 },
    /// This longer length is tried, and `high` is known not to pass.
    Raising { trying: u32, high: u32, probes: u32, at: Time },
}

impl Search {
    /// A search that begins with `ceiling`, the longest packet that may be.
    pub(super) fn new(ceiling: u32) -> Search {
        Search {
            floor: FLOOR.min(ceiling),
            ceiling,
            length: ceiling,
            is_confirmed: false,
            phase: Phase::doubt(Time::ZERO),
            raise_at: None,
            is_used: false,
            next_id: 0,
            first_id: 0,
        }
    }

    /// The longest packet that passes, as far as is known.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// True if a packet of that length has passed on this path.
    pub(super) fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Begins on another path, or on one that was gone. What was found holds until more is known.
    pub(super) fn restart(&mut self, now: Time) {
        self.phase = Phase::doubt(now);
        self.is_confirmed = false;
        self.raise_at = (self.length < self.ceiling).then_some(now);
        self.first_id = self.next_id;
    }

    /// Notes that packets leave.
    pub(super) fn note_used(&mut self) {
        self.is_used = true;
    }

    /// Sends the probes that are due, each with its number and length. Nothing more is due before the time that it returns.
    pub(super) fn poll(&mut self, now: Time, send: &mut impl FnMut(u32, u32)) -> Option<Time> {
        if let Phase::Doubting { rounds, at, heard, best } = self.phase
            && at <= now
            && rounds > ROUNDS
        {
            self.give_up_doubt(now, heard, best);
        }
        if let Phase::Raising { trying, probes, at, .. } = self.phase
            && at <= now
            && probes >= PROBES_MAX
        {
            self.raise(now, trying);
        }
        if let Phase::Resting { confirm_at } = self.phase {
            if self.is_used && confirm_at <= now {
                self.phase = Phase::doubt(now);
            } else if self.raise_at.is_some_and(|at| at <= now) {
                self.raise_at = None;
                self.phase = Phase::Raising { trying: self.ceiling, high: self.ceiling + 1, probes: 0, at: now };
            }
        }
        match &mut self.phase {
            Phase::Resting { confirm_at } => earlier(self.raise_at, self.is_used.then_some(*confirm_at)),
            Phase::Doubting { rounds, at, .. } => {
                if *at <= now {
                    let lengths = if *rounds == 0 || self.length == self.floor { 1 } else { STEPS };
                    for step in 0..lengths {
                        send(self.next_id, self.length - (self.length - self.floor) * step / (STEPS - 1));
                        self.next_id = self.next_id.wrapping_add(1);
                    }
                    (*rounds, *at) = (*rounds + 1, now + PROBE_AGAIN);
                }
                Some(*at)
            }
            Phase::Raising { trying, probes, at, .. } => {
                if *at <= now {
                    send(self.next_id, *trying);
                    self.next_id = self.next_id.wrapping_add(1);
                    (*probes, *at) = (*probes + 1, now + PROBE_AGAIN);
                }
                Some(*at)
            }
        }
    }

    /// Takes the answer to a probe.
    pub(super) fn answered(&mut self, now: Time, id: u32, len: u32) {
        // Numbers of another path, or that were never sent, tell nothing.
        if id.wrapping_sub(self.first_id) >= self.next_id.wrapping_sub(self.first_id) || len > self.ceiling {
            return;
        }
        match &mut self.phase {
            Phase::Doubting { .. } if len >= self.length => {
                self.is_confirmed = true;
                self.rest(now);
            }
            Phase::Doubting { heard, best, .. } => {
                *heard += u32::from(len == self.floor);
                *best = (*best).max(len);
            }
            Phase::Raising { trying, high, .. } if len == *trying => {
                let high = *high;
                (self.length, self.is_confirmed) = (len, true);
                self.raise(now, high);
            }
            Phase::Raising { .. } | Phase::Resting { .. } => {}
        }
    }

    /// Ends a doubt in which the length was never answered. If shorter ones were, the path is a black hole for longer ones (s4.3).
    fn give_up_doubt(&mut self, now: Time, heard: u32, best: u32) {
        if heard < HEARD {
            // Nothing passes, or hardly anything: that says nothing of lengths.
            self.phase = Phase::doubt(now + CONFIRM_AGAIN);
            return;
        }
        let high = self.length;
        (self.length, self.is_confirmed) = (best.max(self.floor), true);
        self.raise(now, high);
    }

    /// Tries the next longer length below `high`, which does not pass, until there is none worth it.
    fn raise(&mut self, now: Time, high: u32) {
        if high <= self.length + PRECISION {
            self.raise_at = (self.length < self.ceiling).then_some(now + RAISE_AGAIN);
            self.rest(now);
            return;
        }
        let trying = self.length + (high - self.length) / 2;
        self.phase = Phase::Raising { trying, high, probes: 0, at: now };
    }

    fn rest(&mut self, now: Time) {
        self.is_used = false;
        self.phase = Phase::Resting { confirm_at: now + CONFIRM_AGAIN };
    }
}

impl Phase {
    fn doubt(at: Time) -> Phase {
        Phase::Doubting { rounds: 0, at, heard: 0, best: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const CEILING: u32 = 1_426;

    /// A path that passes packets of up to a length, with a round trip of 50 ms.
    struct Path {
        search: Search,
        now: Time,
        under_way: VecDeque<(Time, u32, u32)>,
        passes: u32,
        /// Of a hundred probes, those that are lost whatever their length.
        lost: u64,
        chance: u64,
        probes: u32,
    }

    impl Path {
        fn new(passes: u32) -> Path {
            let search = Search::new(CEILING);
            Path { search, now: Time::ZERO, under_way: VecDeque::new(), passes, lost: 0, chance: 1, probes: 0 }
        }

        /// Lets time pass while packets leave.
        fn run(&mut self, secs: u64) -> u32 {
            let end = self.now + Duration::from_secs(secs);
            while self.now < end {
                self.search.note_used();
                let mut sent = Vec::new();
                let due = self.search.poll(self.now, &mut |id, len| sent.push((id, len)));
                for (id, len) in sent {
                    self.probes += 1;
                    self.chance =
                        self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if len <= self.passes && (self.chance >> 33) % 100 >= self.lost {
                        self.under_way.push_back((self.now + Duration::from_millis(50), id, len));
                    }
                }
                let next = earlier(due, self.under_way.front().map(|(at, ..)| *at)).unwrap_or(end);
                assert!(next > self.now || !self.under_way.is_empty(), "it wants to be looked at again and again");
                self.now = next.max(self.now).min(end);
                while let Some(&(at, id, len)) = self.under_way.front().filter(|(at, ..)| *at <= self.now) {
                    self.under_way.pop_front();
                    self.search.answered(at, id, len);
                }
            }
            self.search.length()
        }
    }

    #[test]
    fn a_wide_path_takes_one_probe_and_then_one_every_five_seconds() {
        let mut path = Path::new(CEILING);
        path.run(1);
        assert!(path.search.is_confirmed() && path.probes == 1);
        assert_eq!(path.run(100), CEILING);
        assert!((18..=21).contains(&path.probes), "{}", path.probes);
    }

    #[test]
    fn nothing_is_sent_where_no_packets_leave() {
        let mut path = Path::new(CEILING);
        path.run(1);
        let mut search = path.search.clone();
        search.rest(path.now);
        assert_eq!(search.poll(path.now + Duration::from_secs(1_000), &mut |_, _| panic!("a probe")), None);
    }

    #[test]
    fn whatever_passes_is_found_within_half_a_minute() {
        for passes in (FLOOR..=CEILING).step_by(17) {
            let mut path = Path::new(passes);
            let found = path.run(5);
            assert!((FLOOR..=passes).contains(&found), "{passes}: {found} after five seconds");
            let found = path.run(25);
            assert!(found <= passes && found + PRECISION >= passes, "{passes}: {found}");
        }
    }

    #[test]
    fn a_path_that_shrinks_is_a_black_hole_for_ten_seconds_at_most() {
        let mut path = Path::new(CEILING);
        path.run(60);
        path.passes = 1_326;
        let found = path.run(10);
        assert!((1_200..=1_326).contains(&found), "{found}");
        let found = path.run(25);
        assert!((1_318..=1_326).contains(&found), "{found}");
    }

    #[test]
    fn a_path_that_grows_is_used_after_ten_minutes_or_once_it_is_another() {
        for is_another in [false, true] {
            let mut path = Path::new(1_000);
            path.run(60);
            path.passes = CEILING;
            if is_another {
                path.search.restart(path.now);
                assert_eq!(path.run(5), CEILING);
            } else {
                assert!(path.run(300) <= 1_000);
                assert_eq!(path.run(360), CEILING);
            }
        }
    }

    #[test]
    fn losses_of_any_length_and_a_path_that_is_gone_change_nothing() {
        let mut path = Path::new(CEILING);
        path.lost = 10;
        assert_eq!(path.run(1_000), CEILING);
        path.lost = 100;
        assert_eq!(path.run(1_000), CEILING);
    }

    #[test]
    fn answers_of_another_path_and_lies_are_not_believed() {
        let mut search = Search::new(CEILING);
        let mut sent = Vec::new();
        search.poll(Time::ZERO, &mut |id, len| sent.push((id, len)));
        search.restart(Time::ZERO);
        for (id, len) in [sent[0], (1_000, CEILING), (u32::MAX, CEILING)] {
            search.answered(Time::ZERO, id, len);
        }
        assert!(!search.is_confirmed());
    }
}
