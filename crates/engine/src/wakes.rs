//! The times at which the members of a fixed set want to be polled.

use crate::time::Time;

/// A tournament tree over the times of its members: the earliest wins, and of equals the lowest index.
///
/// A player is one number, its time with its index below it, so that a match is three comparisons. That leaves fewer bits
/// for the time the more members there are: see [`horizon`](Wakes::horizon). A timing wheel, which needs no logarithm,
/// was measured to cost more up to 600 members.
#[derive(Clone, Debug)]
pub(crate) struct Wakes {
    /// Matches of four, the final first, then the four before it, and so on. The players of match m that are not
    /// members are the winners of matches 4 m + 1 to 4 m + 4.
    matches: Vec<[u64; 4]>,
    /// The first match between members: members 4 k to 4 k + 3 meet in match `lowest + k`.
    lowest: usize,
    members: usize,
    /// Bits of a player that hold its index.
    index_bits: u32,
    /// The winner of the final; `NEVER` if nobody waits for a time.
    winner: u64,
}

/// The entry of a player that waits for no time, and so does not play.
const NEVER: u64 = u64::MAX;

impl Default for Wakes {
    fn default() -> Self {
        Wakes { matches: vec![[NEVER; 4]], lowest: 0, members: 0, index_bits: 2, winner: NEVER }
    }
}

impl Wakes {
    /// Adds a member, who waits for no time yet.
    pub(crate) fn add(&mut self) {
        let seats = 4 * (self.matches.len() - self.lowest);
        self.members += 1;
        if self.members <= seats {
            return;
        }
        let old = self.clone();
        self.lowest = 4 * old.lowest + 1;
        self.matches = vec![[NEVER; 4]; self.lowest + seats];
        self.index_bits += 2;
        self.winner = NEVER;
        for (member, &player) in old.matches[old.lowest..].as_flattened().iter().enumerate() {
            self.set(member, old.time(player));
        }
    }

    /// The time before which all times must be: 52 days for up to 4096 members, 19 hours for 262,144.
    pub(crate) fn horizon(&self) -> Time {
        Time::from_nanos(NEVER >> self.index_bits)
    }

    /// The horizon of so many members.
    pub(crate) fn horizon_of(members: usize) -> Time {
        let (mut seats, mut index_bits) = (4, 2);
        while seats < members {
            seats *= 4;
            index_bits += 2;
        }
        Time::from_nanos(NEVER >> index_bits)
    }

    /// Bits of a player that hold its index.
    pub(crate) fn index_bits(&self) -> u32 {
        self.index_bits
    }

    /// The earliest time with the index of whose it is below it; `u64::MAX` if nobody waits for a time.
    #[inline]
    pub(crate) fn first_key(&self) -> u64 {
        self.winner
    }

    /// The time of such a key.
    #[inline]
    pub(crate) fn time_of(&self, key: u64) -> Time {
        Time::from_nanos(key >> self.index_bits)
    }

    fn time(&self, player: u64) -> Option<Time> {
        (player != NEVER).then_some(self.time_of(player))
    }

    /// The earliest time and whose it is; `None` if nobody waits for a time.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        Some((self.time(self.winner)?, (self.winner & !(NEVER << self.index_bits)) as usize))
    }

    /// Sets when `member` wants to be polled: never, if that is beyond the horizon. Plays its matches again, up to the
    /// first that ends as it did before.
    #[inline]
    pub(crate) fn set(&mut self, member: usize, wake: Option<Time>) {
        let mut player = match wake {
            Some(time) if time < self.horizon() => time.as_nanos() << self.index_bits | member as u64,
            _ => NEVER,
        };
        let (mut at, mut seat) = (self.lowest + member / 4, member % 4);
        loop {
            let players = &mut self.matches[at];
            if players[seat] == player {
                return;
            }
            players[seat] = player;
            player = players[0].min(players[1]).min(players[2].min(players[3]));
            if at == 0 {
                self.winner = player;
                return;
            }
            (at, seat) = ((at - 1) / 4, (at - 1) % 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn of(members: usize) -> Wakes {
        let mut wakes = Wakes::default();
        (0..members).for_each(|_| wakes.add());
        wakes
    }

    #[test]
    fn the_earliest_member_comes_first_and_ties_go_to_the_lowest_index() {
        let mut wakes = of(5);
        assert_eq!(wakes.first(), None);
        wakes.set(3, Some(Time::from_nanos(7)));
        wakes.set(4, Some(Time::from_nanos(7)));
        wakes.set(1, Some(Time::from_nanos(9)));
        assert_eq!(wakes.first(), Some((Time::from_nanos(7), 3)));
        (5..18).for_each(|_| wakes.add());
        wakes.set(3, None);
        assert_eq!(wakes.first(), Some((Time::from_nanos(7), 4)));
        wakes.set(4, Some(Time::from_nanos(10)));
        assert_eq!(wakes.first(), Some((Time::from_nanos(9), 1)));
    }

    #[test]
    fn more_members_leave_less_time_and_what_is_beyond_it_never_comes() {
        let mut wakes = of(4_096);
        let days_52 = Time::from_nanos(52 * 86_400 * 1_000_000_000);
        assert!(wakes.horizon() > days_52);
        wakes.set(4_095, Some(days_52));
        assert_eq!(wakes.first(), Some((days_52, 4_095)));
        wakes.add();
        assert_eq!(wakes.horizon(), Time::from_nanos((1 << 50) - 1), "16,384 seats take 14 bits of 64");
        assert_eq!(wakes.first(), None, "13 days are left");
    }

    #[test]
    fn the_horizon_of_a_number_of_members_is_known_beforehand() {
        for members in [1, 4, 5, 16, 17, 64, 65, 1_024, 1_025, 4_096, 4_097] {
            assert_eq!(of(members).horizon(), Wakes::horizon_of(members), "{members} members");
        }
    }

    proptest! {
        #[test]
        fn the_tournament_agrees_with_looking_at_everybody(
            members in 1..70_usize,
            changes in vec((0..70_usize, option::of(0..20_u64)), 0..200),
        ) {
            let mut wakes = of(members);
            let mut times = vec![None; members];
            for (member, time) in changes {
                let (member, wake) = (member % members, time.map(Time::from_nanos));
                wakes.set(member, wake);
                times[member] = wake;
                let waiting = times.iter().enumerate().filter_map(|(member, wake)| wake.map(|wake| (wake, member)));
                prop_assert_eq!(wakes.first(), waiting.min());
            }
        }
    }
}
