//! Pieces of a network that carry packets, whatever they are: each in one direction, or in several by number.

use std::fmt::Debug;

use headend_engine::cable::Cable;
use headend_engine::cable::docsis::{ChannelDirection, Docsis};
use headend_engine::link::express::Express;
use headend_engine::link::repeating::Repeating;
use headend_engine::link::{Link, Stats};
use headend_engine::packet::Discard;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

/// A piece that carries packets and counts them by direction.
pub(crate) trait Carrier: Debug {
    /// The counters of direction `way`.
    fn stats(&self, way: usize) -> Stats;

    /// Ends what is due by `now` and was not looked at since, so that nothing is taken for waiting which has left the queue.
    fn settle(&mut self, way: usize, now: Time);

    /// Packets and bytes that wait in direction `way`; with a modem, those on their way too.
    fn backlog(&self, way: usize) -> (u64, Bytes);

    /// The packets that did not get through in direction `way` since a record began.
    fn discards(&self, way: usize) -> &[Discard];

    /// Checks the books of direction `way` when a run ends, and returns its counters.
    fn close_books(&mut self, way: usize, end: Time) -> Stats;
}

/// A link is one direction, whatever its number.
impl Carrier for Link {
    fn stats(&self, _way: usize) -> Stats {
        Link::stats(self)
    }

    fn settle(&mut self, _way: usize, now: Time) {
        Link::settle(self, now);
    }

    fn backlog(&self, _way: usize) -> (u64, Bytes) {
        Link::backlog(self)
    }

    fn discards(&self, _way: usize) -> &[Discard] {
        Link::discards(self)
    }

    fn close_books(&mut self, _way: usize, end: Time) -> Stats {
        Link::close_books(self, end)
    }
}

/// An express link, too, is one direction. Its graph settles it and closes its books.
impl Carrier for Express {
    fn stats(&self, _way: usize) -> Stats {
        Express::stats(self)
    }

    fn settle(&mut self, _way: usize, _now: Time) {}

    fn backlog(&self, _way: usize) -> (u64, Bytes) {
        Express::backlog(self)
    }

    fn discards(&self, _way: usize) -> &[Discard] {
        &[]
    }

    fn close_books(&mut self, _way: usize, _end: Time) -> Stats {
        Express::stats(self)
    }
}

/// A link that sends headers again is one direction, too.
impl Carrier for Repeating {
    fn stats(&self, _way: usize) -> Stats {
        self.link().stats()
    }

    fn settle(&mut self, _way: usize, now: Time) {
        self.link_mut().settle(now);
    }

    fn backlog(&self, _way: usize) -> (u64, Bytes) {
        self.link().backlog()
    }

    fn discards(&self, _way: usize) -> &[Discard] {
        Repeating::discards(self)
    }

    fn close_books(&mut self, _way: usize, end: Time) -> Stats {
        self.link_mut().close_books(end)
    }
}

/// A cable path's directions are its four links, in the order of [`cable::LINKS`](headend_engine::cable::LINKS).
impl Carrier for Cable {
    fn stats(&self, way: usize) -> Stats {
        self.links()[way].stats()
    }

    fn settle(&mut self, way: usize, now: Time) {
        self.links_mut()[way].settle(now);
    }

    fn backlog(&self, way: usize) -> (u64, Bytes) {
        self.links()[way].backlog()
    }

    fn discards(&self, way: usize) -> &[Discard] {
        self.links()[way].discards()
    }

    fn close_books(&mut self, way: usize, end: Time) -> Stats {
        self.links_mut()[way].close_books(end)
    }
}

/// A channel has two directions for each modem: number `2 m` is down to modem `m`, `2 m + 1` up from it.
impl Carrier for Docsis {
    fn stats(&self, way: usize) -> Stats {
        Docsis::stats(self, way / 2, direction(way))
    }

    /// A channel is polled whenever something is due.
    fn settle(&mut self, _way: usize, _now: Time) {}

    fn backlog(&self, way: usize) -> (u64, Bytes) {
        Docsis::backlog(self, way / 2, direction(way))
    }

    fn discards(&self, way: usize) -> &[Discard] {
        Docsis::discards(self, way / 2, direction(way))
    }

    fn close_books(&mut self, way: usize, end: Time) -> Stats {
        Docsis::close_books(self, way / 2, direction(way), end)
    }
}

fn direction(way: usize) -> ChannelDirection {
    if way.is_multiple_of(2) { ChannelDirection::Down } else { ChannelDirection::Up }
}
