//! The most of the last round trips, as Linux keeps it (`lib/win_minmax.c`, an algorithm of K. Nichols): the best value
//! and the best after it and after that, so that one is at hand when the best grows old.

/// A maximum by round trip. Only what is put in makes the old ones go: a sender that has nothing to send keeps what it knew.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    /// Round trip and value of the best, and of the best that came after each.
    best: [(u64, u64); 3],
}

impl MaxFilter {
    /// Takes a value of this round trip, and forgets those that are older than `rounds` round trips.
    pub(super) fn push(&mut self, round: u64, value: u64, rounds: u64) {
        let new = (round, value);
        let [first, second, third] = &mut self.best;
        if value >= first.1 || round - third.0 > rounds {
            self.best = [new; 3];
            return;
        }
        if value >= second.1 {
            (*second, *third) = (new, new);
        } else if value >= third.1 {
            *third = new;
        }
        let age = round - first.0;
        if age > rounds {
            self.best = [*second, *third, new];
            if round - self.best[0].0 > rounds {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if second.0 == first.0 && age > rounds / 4 {
            // A quarter of the time has passed: the next best is one of the second quarter.
            (*second, *third) = (new, new);
        } else if third.0 == second.0 && age > rounds / 2 {
            *third = new;
        }
    }

    /// The most of the round trips before the last value; 0 if there was none.
    pub(super) fn max(&self) -> u64 {
        self.best[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u64 = 10;

    #[test]
    fn a_maximum_lasts_for_ten_round_trips() {
        let mut filter = MaxFilter::default();
        filter.push(3, 500, ROUNDS);
        for round in 4..=13 {
            filter.push(round, 100 + round, ROUNDS);
            assert_eq!(filter.max(), 500, "in round {round}");
        }
        filter.push(14, 100, ROUNDS);
        assert_eq!(filter.max(), 113);
    }

    #[test]
    fn within_a_round_trip_only_the_most_counts() {
        let mut filter = MaxFilter::default();
        for value in [5, 9, 2] {
            filter.push(1, value, ROUNDS);
        }
        assert_eq!(filter.max(), 9);
    }

    #[test]
    fn round_trips_without_a_value_forget_nothing_until_the_next_value() {
        let mut filter = MaxFilter::default();
        filter.push(1, 7, ROUNDS);
        assert_eq!(filter.max(), 7);
        filter.push(40, 3, ROUNDS);
        assert_eq!(filter.max(), 3);
    }
}
