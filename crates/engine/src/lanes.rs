//! Events in the order of their time, where most come in an order that is nearly theirs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The number of lanes; the last one is a heap.
const LANES: usize = 8;
const HEAP: usize = LANES - 1;
/// The key of no event.
pub(crate) const NEVER: u64 = u64::MAX;

/// Something that happens: `T`, in the order of `key`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<T> {
    pub(crate) key: u64,
    pub(crate) what: T,
}

/// Events in as few ascending lanes as they fit into (patience sorting), and a heap for those that fit into none.
///
/// What comes out of one link is in order, and so is what comes out of all links that are equally long and seldom
/// queued at. So a handful of lanes hold the events of thousands of links, and the first event is the first of a handful.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    /// The first event's key, and its lane.
    first: u64,
    at: usize,
    /// The keys of each lane's first event; [`NEVER`] if it is empty.
    heads: [u64; LANES],
    /// The keys of each lane's last event; 0 if it is empty.
    backs: [u64; HEAP],
    lanes: [VecDeque<Event<T>>; HEAP],
    heap: BinaryHeap<Reverse<Event<T>>>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Lanes {
            first: NEVER,
            at: 0,
            heads: [NEVER; LANES],
            backs: [0; HEAP],
            lanes: Default::default(),
            heap: BinaryHeap::new(),
        }
    }
}

impl<T> Lanes<T> {
    /// The key of the first event; [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// All events, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event<T>> {
        self.lanes.iter().flatten().chain(self.heap.iter().map(|Reverse(event)| event))
    }

    /// Adds an event. `hint` is the lane into which the last one from the same source went.
    #[inline]
    pub(crate) fn push(&mut self, hint: &mut u8, event: Event<T>) {
        let lane = usize::from(*hint);
        if lane < HEAP && self.backs[lane] <= event.key {
            self.append(lane, event);
        } else {
            self.find_lane(hint, event);
        }
    }

    #[inline]
    fn append(&mut self, lane: usize, event: Event<T>) {
        self.backs[lane] = event.key;
        if self.heads[lane] == NEVER {
            self.lead(lane, event.key);
        }
        self.lanes[lane].push_back(event);
    }

    /// An event becomes the first of its lane.
    #[inline]
    fn lead(&mut self, lane: usize, key: u64) {
        self.heads[lane] = key;
        if key < self.first {
            (self.first, self.at) = (key, lane);
        }
    }

    /// Of the lanes into which the event fits takes the one that ends last, so that the others stay open for what comes
    /// sooner.
    #[inline(never)]
    fn find_lane(&mut self, hint: &mut u8, event: Event<T>) {
        let fits = (0..HEAP).filter(|&lane| self.backs[lane] <= event.key).max_by_key(|&lane| self.backs[lane]);
        match fits {
            Some(lane) => {
                *hint = lane as u8;
                self.append(lane, event);
            }
            None => {
                self.lead(HEAP, self.heads[HEAP].min(event.key));
                self.heap.push(Reverse(event));
            }
        }
    }

    /// True if there is an event with this key.
    pub(crate) fn contains(&self, key: u64) -> bool {
        self.find(key).is_some() || self.heads[HEAP] <= key && self.heap.iter().any(|Reverse(event)| event.key == key)
    }

    /// Takes out the event with this key, which need not be the first.
    pub(crate) fn take(&mut self, key: u64) -> Option<T> {
        if let Some((lane, place)) = self.find(key) {
            let event = self.lanes[lane].remove(place)?;
            self.heads[lane] = self.lanes[lane].front().map_or(NEVER, |first| first.key);
            self.backs[lane] = self.lanes[lane].back().map_or(0, |last| last.key);
            self.find_first();
            return Some(event.what);
        }
        let (found, rest): (Vec<_>, Vec<_>) = self.heap.drain().partition(|Reverse(event)| event.key == key);
        self.heap = rest.into();
        self.heads[HEAP] = self.heap.peek().map_or(NEVER, |Reverse(next)| next.key);
        self.find_first();
        found.into_iter().next().map(|Reverse(event)| event.what)
    }

    /// The lane and the place in it of the event with this key, unless it is in the heap.
    fn find(&self, key: u64) -> Option<(usize, usize)> {
        // Few come before one that is asked for: it is due now.
        (0..HEAP).filter(|&lane| self.heads[lane] <= key).find_map(|lane| {
            let not_after = self.lanes[lane].iter().take_while(|event| event.key <= key);
            Some((lane, not_after.map(|event| event.key).position(|other| other == key)?))
        })
    }

    /// Takes out the first event, of which there must be one.
    #[inline]
    pub(crate) fn pop(&mut self) -> T {
        let lane = self.at;
        let event = if lane == HEAP {
            let Reverse(event) = self.heap.pop().expect("the first event is there");
            self.heads[HEAP] = self.heap.peek().map_or(NEVER, |Reverse(next)| next.key);
            event
        } else {
            let queue = &mut self.lanes[lane];
            let event = queue.pop_front().expect("the first event is there");
            self.heads[lane] = match queue.front() {
                Some(next) => next.key,
                None => {
                    // Begins at the start of its memory again, which is in the cache.
                    queue.clear();
                    self.backs[lane] = 0;
                    NEVER
                }
            };
            event
        };
        self.find_first();
        event.what
    }

    /// Finds the lane whose first event is the first of all.
    #[inline]
    fn find_first(&mut self) {
        (self.first, self.at) = (self.heads[0], 0);
        for lane in 1..LANES {
            if self.heads[lane] < self.first {
                (self.first, self.at) = (self.heads[lane], lane);
            }
        }
    }
}

impl<T> PartialEq for Event<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Event<T> {}

impl<T> PartialOrd for Event<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Event<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_out_in_the_order_of_their_keys(
            // Beyond the last event that came out by so much, and from which of twenty sources; or the first comes out, or
            // one that may not be there.
            steps in vec((prop::option::weighted(0.6, (0..50_u64, 0..20_usize)), prop::option::weighted(0.1, 0..50_u64)), 0..300),
        ) {
            let mut lanes = Lanes::default();
            let mut hints = [0; 20];
            let mut expected = std::collections::BTreeSet::new();
            let mut now = 0;
            for (step, other) in steps {
                match step {
                    Some((later, source)) => {
                        let key = now + later;
                        if expected.insert(key) {
                            lanes.push(&mut hints[source], Event { key, what: key });
                        }
                    }
                    None if lanes.first() == NEVER => prop_assert_eq!(expected.pop_first(), None),
                    None => {
                        now = lanes.first();
                        prop_assert_eq!(lanes.pop(), now);
                        prop_assert_eq!(expected.pop_first(), Some(now));
                    }
                }
                if let Some(later) = other {
                    let key = now + later;
                    prop_assert_eq!(lanes.contains(key), expected.contains(&key));
                    prop_assert_eq!(lanes.take(key), expected.take(&key));
                }
                let mut left: Vec<u64> = lanes.iter().map(|event| event.what).collect();
                left.sort_unstable();
                prop_assert!(left.iter().eq(&expected), "{:?} and not {:?}", left, expected);
            }
        }
    }
}
