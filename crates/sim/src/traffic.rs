//! Applications, which decide what is written to a connection and when. All of them read at once whatever arrives.

use headend_engine::tcp::connection::Connection;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

/// The piece of a file that a server reads from disk, and writes, at a time (tuning paper s6.1: "typically 8KB").
pub const PIECE: Bytes = Bytes::new(8_192);

/// The application at one end of a flow, by what it writes.
#[derive(Clone, Debug)]
pub(crate) enum Application {
    /// A number of bytes, as fast as the send buffer takes them: a file, or a request.
    Source {
        /// Bytes not yet written; `Bytes::MAX` has no end.
        left: Bytes,
    },
    /// Nothing.
    Sink,
    /// A response, once the request has come.
    Server(Server),
}

/// The serving end of an HTTP transfer.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Bytes of the request that have not arrived yet.
    pub(crate) request: Bytes,
    /// The time that it takes from the request to the answer.
    pub(crate) takes: Duration,
    /// The time at which the answer can begin; `None` before the request has come.
    pub(crate) ready: Option<Time>,
    /// Bytes of the response header not yet written.
    pub(crate) header: Bytes,
    /// True if the header leaves in a segment of its own, before the first piece of the file is written.
    pub(crate) header_apart: bool,
    /// Bytes of the file not yet read from disk.
    pub(crate) file: Bytes,
    /// Bytes in hand: read from disk, or the header, and not yet written.
    pub(crate) hand: Bytes,
}

impl Application {
    /// Takes `read` bytes that arrived by `now` and writes once, if there is something to write; returns how much the
    /// connection took. If any, more may be written as soon as it has sent what it can.
    pub(crate) fn act(&mut self, now: Time, connection: &mut Connection, read: Bytes) -> Bytes {
        match self {
            Application::Source { left } => write(connection, left),
            Application::Sink => Bytes::ZERO,
            Application::Server(server) => {
                server.request = server.request.saturating_sub(read);
                server.pick_up(now);
                write(connection, &mut server.hand)
            }
        }
    }

    /// True if further writes are to follow one that was taken whole.
    pub(crate) fn writes_in_pieces(&self) -> bool {
        matches!(self, Application::Server(_))
    }

    /// The time at which to ask again though nothing arrives, for a server that is at work on its answer.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        match self {
            Application::Server(server) => server.ready.filter(|ready| *ready > now),
            Application::Source { .. } | Application::Sink => None,
        }
    }

    /// True once all is written that ever will be.
    pub(crate) fn has_written_all(&self) -> bool {
        match self {
            Application::Source { left } => *left == Bytes::ZERO,
            Application::Sink => true,
            Application::Server(server) => server.hand + server.header + server.file + server.request == Bytes::ZERO,
        }
    }
}

impl Server {
    /// Takes the next thing to write in hand: the header alone, the header with the first piece, or a piece.
    fn pick_up(&mut self, now: Time) {
        if self.request > Bytes::ZERO || self.hand > Bytes::ZERO {
            return;
        }
        if now < *self.ready.get_or_insert(now + self.takes) {
            return;
        }
        let apart = self.header_apart && self.header > Bytes::ZERO;
        self.hand = std::mem::take(&mut self.header);
        if !apart {
            let piece = self.file.min(PIECE);
            self.file -= piece;
            self.hand += piece;
        }
    }
}

fn write(connection: &mut Connection, left: &mut Bytes) -> Bytes {
    if *left == Bytes::ZERO {
        return Bytes::ZERO;
    }
    let taken = connection.write(*left);
    if *left != Bytes::MAX {
        *left -= taken;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hands(mut server: Server) -> Vec<u64> {
        let mut hands = Vec::new();
        loop {
            server.pick_up(Time::ZERO);
            if server.hand == Bytes::ZERO {
                return hands;
            }
            hands.push(std::mem::take(&mut server.hand).get());
        }
    }

    const SERVER: Server = Server {
        request: Bytes::ZERO,
        takes: Duration::ZERO,
        ready: None,
        header: Bytes::new(200),
        header_apart: true,
        file: Bytes::new(20_000),
        hand: Bytes::ZERO,
    };

    #[test]
    fn a_server_of_1996_writes_its_header_first_and_then_the_file_in_pieces() {
        assert_eq!(hands(SERVER), [200, 8_192, 8_192, 3_616]);
    }

    #[test]
    fn a_header_that_is_not_apart_leaves_with_the_first_piece() {
        assert_eq!(hands(Server { header_apart: false, ..SERVER }), [8_392, 8_192, 3_616]);
    }

    #[test]
    fn a_server_that_takes_its_time_begins_its_answer_no_sooner() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut server = Server { takes: Duration::from_millis(350), ..SERVER };
        for (now, hand) in [(1, 0), (200, 0), (350, 0), (351, 200)] {
            server.pick_up(at(now));
            assert_eq!(server.hand, Bytes::new(hand), "the request came after 1 ms; now it is {now}");
        }
        assert_eq!(Application::Server(server).wake(at(100)), Some(at(351)));
    }

    #[test]
    fn nothing_is_written_before_the_whole_request_has_come() {
        assert!(hands(Server { request: Bytes::new(1), ..SERVER }).is_empty());
    }
}
