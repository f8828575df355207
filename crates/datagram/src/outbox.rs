//! Datagrams that are about to leave: those of one length to one place go to the kernel together (UDP_SEGMENT).

use std::net::{IpAddr, SocketAddr};

/// Limits of a train: every kernel that has UDP_SEGMENT takes 64 datagrams at once, and all must fit a packet of IP.
const DATAGRAMS_MAX: usize = 64;
const BYTES_MAX: usize = 65_000;
/// Room that a train gets at once if its datagrams are longer than that of a control packet.
const CONTROL_MAX: usize = 256;

/// The destination of a datagram, and the address of ours that it leaves from: the one to which the other end writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The destination.
    pub to: SocketAddr,
    /// The address of ours, if one is known.
    pub from: Option<IpAddr>,
}

/// Datagrams that leave together, all but the last of the same length.
#[derive(Debug)]
pub struct Train {
    /// The way that they go.
    pub way: Way,
    /// The octet of their outer headers that has the differentiated services code point (RFC 2474) and the ECN field (RFC 3168 s5).
    pub tos: u8,
    /// Their bytes, one behind the other.
    pub bytes: Vec<u8>,
    /// Bytes of each but the last.
    pub datagram: usize,
}

/// Trains in the order in which they leave.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The trains.
    pub trains: Vec<Train>,
}

impl Outbox {
    /// Adds what `write` writes, `len` bytes, as one datagram.
    pub fn push(&mut self, way: Way, tos: u8, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let joins = |last: &&mut Train| {
            (last.way, last.tos) == (way, tos)
                && last.bytes.len().is_multiple_of(last.datagram)
                && len <= last.datagram
                && last.bytes.len() + len <= (DATAGRAMS_MAX * last.datagram).min(BYTES_MAX)
        };
        if let Some(last) = self.trains.last_mut().filter(joins) {
            write(&mut last.bytes);
            return;
        }
        let room = if len > CONTROL_MAX { BYTES_MAX.max(len) } else { CONTROL_MAX };
        let mut bytes = Vec::with_capacity(room);
        write(&mut bytes);
        self.trains.push(Train { way, tos, bytes, datagram: len });
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
            outbox.push(way(port), 0, len, |out| out.resize(out.len() + len, 0));
        }
        let shape: Vec<_> =
            outbox.trains.iter().map(|train| (train.way.to.port(), train.datagram, train.bytes.len())).collect();
        assert_eq!(shape, [(1, 88, 216), (1, 40, 40), (2, 40, 40), (2, 50, 50)]);
    }

    #[test]
    fn a_train_is_no_longer_than_the_kernel_takes() {
        let mut outbox = Outbox::default();
        (0..200).for_each(|_| outbox.push(way(1), 0, 88, |out| out.resize(out.len() + 88, 0)));
        assert_eq!(outbox.trains.iter().map(|train| train.bytes.len() / 88).collect::<Vec<_>>(), [64, 64, 64, 8]);
    }
}
