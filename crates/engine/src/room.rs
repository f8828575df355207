//! Room for the items of queues, grown sparingly.

use std::collections::VecDeque;

/// Makes room for one more item in a queue. Room grows by a half, from one. A large network has thousands of queues that
/// never hold more than a few items: with the usual growth, to four and then twofold, room that is never used would be
/// most of what its links take.
#[inline]
pub(crate) fn for_one_more<T>(queue: &mut VecDeque<T>) {
    if queue.len() == queue.capacity() {
        grow(queue);
    }
}

#[cold]
#[inline(never)]
fn grow<T>(queue: &mut VecDeque<T>) {
    queue.reserve_exact((queue.len() / 2).max(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_half_as_much_room_again_at_most_and_seldom_moves() {
        let mut queue = VecDeque::new();
        let mut moves = 0;
        for item in 0..10_000_usize {
            let before = queue.capacity();
            for_one_more(&mut queue);
            queue.push_back(item);
            moves += usize::from(queue.capacity() != before);
            assert!(queue.capacity() <= (3 * queue.len()).div_ceil(2), "{} for {}", queue.capacity(), queue.len());
        }
        assert!(queue.into_iter().eq(0..10_000));
        assert!(moves < 30, "moved {moves} times on the way to 10,000 items");
    }
}
