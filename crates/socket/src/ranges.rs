//! Sets of places in a stream, as ranges.

use std::collections::VecDeque;

/// Ranges `start..end` that neither overlap nor touch, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(VecDeque<(u64, u64)>);

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.0.front().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }

    pub(crate) fn contains(&self, place: u64) -> bool {
        let from = self.0.partition_point(|range| range.1 <= place);
        self.0.get(from).is_some_and(|range| range.0 <= place)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        // The first that touches it or lies behind it, and the first that lies behind it without touching.
        let from = self.0.partition_point(|range| range.1 < start);
        let to = self.0.partition_point(|range| range.0 <= end);
        if from == to {
            self.0.insert(from, (start, end));
            return;
        }
        let joined = (self.0[from].0.min(start), self.0[to - 1].1.max(end));
        self.0[from] = joined;
        self.0.drain(from + 1..to);
    }

    /// Takes a range away.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.1 <= start);
        let to = self.0.partition_point(|range| range.0 < end);
        if from >= to {
            return;
        }
        let (left, right) = ((self.0[from].0, start), (end, self.0[to - 1].1));
        self.0.drain(from..to);
        if right.0 < right.1 {
            self.0.insert(from, right);
        }
        if left.0 < left.1 {
            self.0.insert(from, left);
        }
    }

    /// Takes away all before `end`.
    pub(crate) fn remove_before(&mut self, end: u64) {
        while let Some(first) = self.0.front_mut() {
            if first.1 > end {
                first.0 = first.0.max(end);
                return;
            }
            self.0.pop_front();
        }
    }

    /// Calls `visit` with each part of `start..end` that is not in the set.
    pub(crate) fn gaps(&self, start: u64, end: u64, mut visit: impl FnMut(u64, u64)) {
        let from = self.0.partition_point(|range| range.1 <= start);
        let mut at = start;
        for &(left, right) in self.0.range(from..) {
            if left >= end {
                break;
            }
            if left > at {
                visit(at, left);
            }
            at = at.max(right);
        }
        if at < end {
            visit(at, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_places(steps in prop::collection::vec((0..4_u8, 0..60_u64, 0..20_u64), 0..40)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (what, start, len) in steps {
                match what {
                    0 | 1 => {
                        ranges.insert(start, start + len);
                        set.extend(start..start + len);
                    }
                    2 => {
                        ranges.remove(start, start + len);
                        set.retain(|place| !(start..start + len).contains(place));
                    }
                    _ => {
                        ranges.remove_before(len);
                        set.retain(|place| *place >= len);
                    }
                }
                let places: BTreeSet<u64> = ranges.0.iter().flat_map(|(start, end)| *start..*end).collect();
                prop_assert_eq!(&places, &set);
                prop_assert!(ranges.0.iter().zip(ranges.0.iter().skip(1)).all(|(a, b)| a.1 < b.0), "{:?}", ranges);
                let mut gaps = BTreeSet::new();
                ranges.gaps(5, 50, |start, end| gaps.extend(start..end));
                prop_assert!((0..80).all(|place| ranges.contains(place) == set.contains(&place)));
                prop_assert_eq!(gaps, (5..50).filter(|place| !set.contains(place)).collect());
            }
        }
    }
}
