use std::future::poll_fn;

use tempfile::TempDir;

use super::*;

/// Numbers bytes as they come, and checks them as they leave.
#[derive(Default)]
struct Count {
    into: u64,
    out: u64,
}

impl Count {
    fn push(&mut self, held: &mut Held, len: usize) {
        let bytes: Vec<u8> = (self.into..self.into + len as u64).map(|index| (index % 251) as u8).collect();
        held.push(&bytes);
        self.into += len as u64;
    }

    fn pop(&mut self, held: &mut Held, len_max: usize) {
        let front = held.front();
        let len = front.len().min(len_max);
        for byte in &front[..len] {
            assert_eq!(*byte, (self.out % 251) as u8, "byte {}", self.out);
            self.out += 1;
        }
        held.pop(len);
        assert_eq!(held.len(), self.into - self.out);
    }
}

#[test]
fn bytes_leave_in_the_order_in_which_they_came_and_the_memory_with_them() {
    let books = Arc::new(Books::new(1 << 20, 0));
    let mut held = Held::new(&books, None, 1 << 20);
    let mut count = Count::default();
    for round in 0..200_usize {
        count.push(&mut held, round * 37);
        assert!(books.memory.taken() >= held.len());
        count.pop(&mut held, round * 53);
    }
    while !held.is_empty() {
        count.pop(&mut held, usize::MAX);
    }
    assert_eq!((count.out, books.memory.taken()), (count.into, 0));
}

/// Pushes `total` bytes while popping now and then, and then pops all of them.
fn through_a_store(memory: u64, quota: u64, total: u64) -> (Arc<Books>, u64, u64) {
    let place = TempDir::new().unwrap();
    let folder = Arc::new(SpoolFolder::open(place.path()).unwrap());
    let books = Arc::new(Books::new(1 << 30, quota));
    let mut held = Held::new(&books, Some(folder), memory);
    let mut count = Count::default();
    let (mut memory_max, mut spool_max) = (0, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(poll_fn(|cx| {
        loop {
            let is_new = held.poll(cx).unwrap();
            let want = (total - count.into).min(40_000) as usize;
            let len = held.room().min(want);
            count.push(&mut held, len);
            memory_max = memory_max.max(books.memory.taken());
            spool_max = spool_max.max(books.spool.taken());
            // A reader that is slower than the writer, until that has no more room.
            let taken = if len == 0 { 30_000 } else { 1_000 };
            let before = count.out;
            count.pop(&mut held, taken);
            if count.out == total {
                return Poll::Ready(());
            }
            if !is_new && len == 0 && count.out == before {
                return Poll::Pending;
            }
        }
    }));
    drop(held);
    (books, memory_max, spool_max)
}

#[test]
fn beyond_the_memory_bytes_wait_in_a_file_and_leave_in_order() {
    let (books, memory_max, spool_max) = through_a_store(256_000, u64::MAX / 2, 20_000_000);
    assert!(spool_max > 1_000_000, "most of it waits in the file: {spool_max}");
    assert!(memory_max <= 512_000, "and little in memory: {memory_max}");
    assert_eq!((books.memory.taken(), books.spool.taken()), (0, 0));
}

#[test]
fn a_quota_that_is_reached_holds_back_and_loses_nothing() {
    let (books, _, spool_max) = through_a_store(256_000, 200_000, 3_000_000);
    assert!(spool_max > 0 && spool_max <= 200_000, "{spool_max}");
    assert_eq!((books.memory.taken(), books.spool.taken()), (0, 0));
}
