//! The record of a session's counters that have been seen (RFC 6479): a message that comes twice is taken once, and one that is
//! too old to tell is not taken.

/// Counters, up to the newest, for which a bit is kept.
const BITS: u64 = 2_048;
const WORD: u64 = 64;
const WORDS: u64 = BITS / WORD;

/// Counters that were accepted.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// A ring of words, each of the bits of 64 counters.
    words: [u64; WORDS as usize],
    /// One more than the largest counter that was accepted.
    next: u64,
}

impl Window {
    /// A record in which nothing has been seen.
    pub(crate) fn new() -> Window {
        Window { words: [0; WORDS as usize], next: 0 }
    }

    /// One more than the largest counter that was accepted.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns true if `counter` could still be accepted. It is asked before a message is opened, because that costs more.
    pub(crate) fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            // The last ones are not used, so that none is ever used twice.
            return counter < u64::MAX - BITS;
        }
        // A word less than are kept: the newest is cleared whole when it is entered.
        self.next - counter <= BITS - WORD && self.words[word(counter)] & bit(counter) == 0
    }

    /// Notes a counter whose message was authentic; true if it is the largest so far.
    pub(crate) fn accept(&mut self, counter: u64) -> bool {
        let is_newest = counter >= self.next;
        if is_newest {
            let (last, this) = (self.next.saturating_sub(1) / WORD, counter / WORD);
            for entered in (last + 1..=this).rev().take(WORDS as usize) {
                self.words[(entered % WORDS) as usize] = 0;
            }
            self.next = counter + 1;
        }
        self.words[word(counter)] |= bit(counter);
        is_newest
    }
}

fn word(counter: u64) -> usize {
    (counter / WORD % WORDS) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % WORD)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_too_old_to_tell_is_refused() {
        let mut window = Window::new();
        window.accept(10_000);
        assert!(!window.is_new(10_000 - BITS) && window.is_new(10_000 - BITS + WORD + 1));
        assert!(!window.is_new(u64::MAX), "the last counters are not used");
    }

    proptest! {
        #[test]
        fn each_counter_is_accepted_once_and_recent_ones_are_not_lost(
            steps in prop::collection::vec(prop_oneof![4 => 0..40_u64, 1 => 0..5_000_u64], 1..400),
            back in prop::collection::vec(0..3_000_u64, 400),
        ) {
            let (mut window, mut seen, mut newest) = (Window::new(), BTreeSet::new(), 0_u64);
            for (step, back) in steps.into_iter().zip(back) {
                let counter = (newest + step).saturating_sub(back);
                let is_new = window.is_new(counter);
                prop_assert!(!(is_new && seen.contains(&counter)), "{counter} twice");
                if counter + (BITS - 2 * WORD) > newest {
                    prop_assert_eq!(is_new, !seen.contains(&counter), "{} of {}", counter, newest);
                }
                if is_new {
                    prop_assert_eq!(window.accept(counter), counter > newest || seen.is_empty());
                    seen.insert(counter);
                    newest = newest.max(counter);
                }
            }
        }
    }
}
