//! Bytes that the other side has not taken yet.

use std::collections::VecDeque;

use super::super::books::Account;

/// Oldest first, in memory that is accounted for and given back when it is empty.
pub(super) struct Held<'a> {
    bytes: VecDeque<u8>,
    account: &'a Account,
    accounted: u64,
}

/// Memory is taken in pieces of so many bytes.
const PIECE: usize = 4_096;

impl<'a> Held<'a> {
    pub(super) fn new(account: &'a Account) -> Held<'a> {
        Held { bytes: VecDeque::new(), account, accounted: 0 }
    }

    /// What keeping `len` bytes may take beyond what is taken already.
    pub(super) fn room_for(len: usize) -> u64 {
        len.next_multiple_of(PIECE) as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Keeps `bytes`. Whoever calls has taken the room for it, and gives it back after.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let len = (self.bytes.len() + bytes.len()).next_multiple_of(PIECE);
        if len > self.bytes.capacity() {
            self.bytes.reserve_exact(len - self.bytes.len());
        }
        self.bytes.extend(bytes);
        self.settle();
    }

    /// The oldest, as many as are in one piece.
    pub(super) fn front(&self) -> &[u8] {
        self.bytes.as_slices().0
    }

    /// The `len` oldest were taken.
    pub(super) fn pop(&mut self, len: usize) {
        self.bytes.drain(..len);
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
        }
        self.settle();
    }

    fn settle(&mut self) {
        let taken = self.bytes.capacity() as u64;
        if taken > self.accounted {
            self.account.add(taken - self.accounted);
        } else {
            self.account.give(self.accounted - taken);
        }
        self.accounted = taken;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.account.give(self.accounted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came_and_the_memory_with_them() {
        let account = Account::new(1 << 20);
        let mut held = Held::new(&account);
        let (mut next_in, mut next_out) = (0_u32, 0_u32);
        for round in 0..200_usize {
            let bytes: Vec<u8> = (0..round * 37)
                .map(|_| {
                    next_in += 1;
                    (next_in % 251) as u8
                })
                .collect();
            held.push(&bytes);
            assert!(account.taken() >= held.len() as u64);
            let mut left = (round * 53).min(held.len());
            while left > 0 {
                let front = held.front();
                let taken = front.len().min(left);
                for byte in &front[..taken] {
                    next_out += 1;
                    assert_eq!(*byte, (next_out % 251) as u8);
                }
                held.pop(taken);
                left -= taken;
            }
        }
        while !held.is_empty() {
            held.pop(held.front().len());
        }
        assert_eq!(account.taken(), 0);
    }
}
