//! The most of the last ten round trips.

/// The number of round trips for which a rate is believed (the draft's BtlBwFilterLen).
const ROUNDS: u64 = 10;

/// A maximum by round trip. Only what is put in makes the old ones go: a sender that has nothing to send keeps what it knew.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    /// The round trip of each maximum, and the maximum.
    slots: [(u64, u64); ROUNDS as usize],
    max: u64,
}

impl MaxFilter {
    /// Takes a value of this round trip.
    pub(super) fn push(&mut self, round: u64, value: u64) {
        let slot = &mut self.slots[(round % ROUNDS) as usize];
        if slot.0 != round {
            *slot = (round, value);
            let oldest = round.saturating_sub(ROUNDS - 1);
            self.max = self.slots.iter().filter(|(of, _)| *of >= oldest).map(|(_, value)| *value).max().unwrap_or(0);
        } else if value > slot.1 {
            slot.1 = value;
            self.max = self.max.max(value);
        }
    }

    /// The most of the round trips before the last value; 0 if there was none.
    pub(super) fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_lasts_for_ten_round_trips() {
        let mut filter = MaxFilter::default();
        filter.push(3, 500);
        for round in 4..13 {
            filter.push(round, 100 + round);
            assert_eq!(filter.max(), 500, "in round {round}");
        }
        filter.push(13, 100);
        assert_eq!(filter.max(), 112);
    }

    #[test]
    fn within_a_round_trip_only_the_most_counts() {
        let mut filter = MaxFilter::default();
        for value in [5, 9, 2] {
            filter.push(1, value);
        }
        assert_eq!(filter.max(), 9);
    }

    #[test]
    fn round_trips_without_a_value_forget_nothing_until_the_next_value() {
        let mut filter = MaxFilter::default();
        filter.push(1, 7);
        assert_eq!(filter.max(), 7);
        filter.push(40, 3);
        assert_eq!(filter.max(), 3);
    }
}
