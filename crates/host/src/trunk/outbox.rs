//! Datagrams that are about to leave: those of one length to one place go to the kernel together (UDP_SEGMENT).

use std::net::{IpAddr, SocketAddr};

/// Limits of a train: every kernel that has UDP_SEGMENT takes 64 datagrams at once, and all must fit a packet of IP.
const DATAGRAMS_MAX: usize = 64;
const BYTES_MAX: usize = 60_000;

/// The destination of a datagram, and the address of ours that it leaves from: the one to which the other end writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) to: SocketAddr,
    pub(super) from: Option<IpAddr>,
}

/// Datagrams that leave together, all but the last of the same length.
#[derive(Debug)]
pub(super) struct Train {
    pub(super) way: Way,
    pub(super) bytes: Vec<u8>,
    pub(super) datagram: usize,
}

/// Trains in the order in which they leave.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) trains: Vec<Train>,
}

impl Outbox {
    /// Adds what `write` writes as one datagram.
    pub(super) fn push(&mut self, way: Way, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::with_capacity(128);
        write(&mut bytes);
        if let Some(last) = self.trains.last_mut()
            && last.way == way
            && last.bytes.len() % last.datagram == 0
            && bytes.len() <= last.datagram
            && last.bytes.len() < (DATAGRAMS_MAX * last.datagram).min(BYTES_MAX)
        {
            last.bytes.extend_from_slice(&bytes);
        } else {
            let datagram = bytes.len();
            self.trains.push(Train { way, bytes, datagram });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(port: u16) -> Way {
        Way { to: ([10, 0, 0, 1], port).into(), from: None }
    }

    #[test]
    fn datagrams_of_one_length_to_one_place_leave_together() {
        let mut outbox = Outbox::default();
        for (port, len) in [(1, 88), (1, 88), (1, 40), (1, 40), (2, 40), (2, 50)] {
            outbox.push(way(port), |out| out.resize(out.len() + len, 0));
        }
        let shape: Vec<_> =
            outbox.trains.iter().map(|train| (train.way.to.port(), train.datagram, train.bytes.len())).collect();
        assert_eq!(shape, [(1, 88, 216), (1, 40, 40), (2, 40, 40), (2, 50, 50)]);
    }

    #[test]
    fn a_train_is_no_longer_than_the_kernel_takes() {
        let mut outbox = Outbox::default();
        (0..200).for_each(|_| outbox.push(way(1), |out| out.resize(out.len() + 88, 0)));
        assert_eq!(outbox.trains.iter().map(|train| train.bytes.len() / 88).collect::<Vec<_>>(), [64, 64, 64, 8]);
    }
}
