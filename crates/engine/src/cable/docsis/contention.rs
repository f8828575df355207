//! Request opportunities, and who has chosen which.

use std::collections::{BTreeSet, VecDeque};

/// A run of request opportunities, one after the other.
#[derive(Clone, Copy, Debug)]
struct Region {
    /// The number of the first opportunity, and how many there are.
    first: u64,
    count: u64,
    /// The mini-slot at which the first opportunity begins.
    slot: u64,
}

/// The opportunities that MAPs have described, numbered as they come, and the modems that wait for theirs.
#[derive(Debug)]
pub(super) struct Contention {
    regions: VecDeque<Region>,
    /// Opportunities described so far: the number of the next.
    described: u64,
    /// Mini-slots that an opportunity takes.
    slots: u64,
    contenders: BTreeSet<(u64, u32)>,
}

impl Contention {
    pub(super) fn new(slots: u64) -> Contention {
        Contention { regions: VecDeque::new(), described: 0, slots, contenders: BTreeSet::new() }
    }

    /// A MAP describes `count` opportunities from mini-slot `slot` on.
    pub(super) fn describe(&mut self, slot: u64, count: u64) {
        if count > 0 {
            self.regions.push_back(Region { first: self.described, count, slot });
            self.described += count;
        }
    }

    /// Opportunities described so far.
    pub(super) fn described(&self) -> u64 {
        self.described
    }

    /// The number of the first opportunity that begins at mini-slot `slot` or later, described or not.
    pub(super) fn first_from(&self, slot: u64) -> u64 {
        let Some(index) = self.regions.iter().rposition(|region| region.slot < slot) else {
            return self.regions.front().map_or(self.described, |region| region.first);
        };
        let Region { first, count, slot: start } = self.regions[index];
        first + (slot - start).div_ceil(self.slots).min(count)
    }

    /// A modem chooses an opportunity.
    pub(super) fn choose(&mut self, opportunity: u64, modem: u32) {
        self.contenders.insert((opportunity, modem));
    }

    /// No modem waits for an opportunity.
    pub(super) fn is_idle(&self) -> bool {
        self.contenders.is_empty()
    }

    /// The first opportunity that somebody waits for, if there is a MAP for it: the mini-slot at which it has passed.
    pub(super) fn next_end(&self) -> Option<u64> {
        let &(opportunity, _) = self.contenders.first()?;
        self.slot_of(opportunity).map(|slot| slot + self.slots)
    }

    /// True if a modem waits for an opportunity that no MAP has described yet.
    pub(super) fn waits_for_map(&self) -> bool {
        self.contenders.first().is_some_and(|&(opportunity, _)| opportunity >= self.described)
    }

    fn slot_of(&self, opportunity: u64) -> Option<u64> {
        let region = self.regions.iter().find(|region| opportunity < region.first + region.count)?;
        Some(region.slot + (opportunity - region.first) * self.slots)
    }

    /// The modems that transmit in the first opportunity that somebody waits for; it is over.
    pub(super) fn resolve(&mut self, into: &mut Vec<u32>) {
        into.clear();
        let Some(&(opportunity, _)) = self.contenders.first() else { return };
        while let Some(&(same, modem)) = self.contenders.first()
            && same == opportunity
        {
            into.push(modem);
            self.contenders.pop_first();
        }
    }

    /// Forgets opportunities that ended by mini-slot `slot`; nobody may wait for one of them.
    pub(super) fn forget(&mut self, slot: u64) {
        while let Some(region) = self.regions.front()
            && region.slot + region.count * self.slots <= slot
        {
            self.regions.pop_front();
        }
    }
}
