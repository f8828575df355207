//! One end of a connection plays its part and says what it saw.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::pin;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time;

use super::exchange::Exchange;
use super::message::Dialogue;
use super::outcome::{Arrival, Outcome};
use super::pattern::{Checker, Pattern};
use super::role::Role;
use super::schedule::{Last, Reading, Script, Step};
use super::speech::{Names, Speech};
use super::told::Told;

/// The state of a connection before its ends play.
#[derive(Debug, Default)]
pub(crate) struct Begin {
    /// Bytes of its own stream that the end has sent along with the hand-shake with the proxy.
    pub(crate) early: usize,
    /// Bytes that it has received.
    pub(crate) came: Vec<u8>,
    /// Bytes that go before what it says first.
    pub(crate) first: Vec<u8>,
    /// The other end has reset.
    pub(crate) is_reset: bool,
    /// The messages that both ends speak, if not bare streams.
    pub(crate) dialogue: Option<(Dialogue, Names)>,
    pub(crate) told: Option<Told>,
}

/// A writer that gets nothing written for so long is held back. With 300 ms, and a load of 15 on each core, a proxy that had
/// merely not been run was taken for one that holds back.
const HELD_AFTER: Duration = Duration::from_secs(1);
/// Bytes of one write(2) at most.
const WRITE_BYTES_MAX: usize = 256 * 1024;
/// The most reads and writes of an end that come one after the other.
const OPERATIONS_MAX: u32 = 8;
/// The bytes of a write while it waits to be held back, or to fail.
const FLOOD_BYTES: usize = 64 * 1024;

/// Plays `script` on `stream`. With the outcome comes the connection, if another request may go over it.
pub(crate) async fn play(
    stream: TcpStream,
    begin: Begin,
    script: &Script,
    end: Role,
    exchange: &Exchange,
) -> (Outcome, Option<TcpStream>) {
    let Begin { early, came, first, is_reset, dialogue, told } = begin;
    // An urgent byte is one of the stream (RFC 6093 s4); a socket that cannot be told so any more has failed.
    let _ = SockRef::from(&stream).set_out_of_band_inline(true);
    let (seed, connection) = (exchange.seed, exchange.connection);
    let mine = Pattern::new(seed, connection, end as usize);
    let theirs = Pattern::new(seed, connection, end.other() as usize);
    let mut others = vec![(format!("the {}'s own direction", end.name()), mine)];
    for other in (0..exchange.connections).filter(|&other| other != connection) {
        for of in Role::BOTH {
            let whose = format!("the {} of connection {other}", of.name());
            others.push((whose, Pattern::new(seed, other, of as usize)));
        }
    }
    let player = Player {
        stream: &stream,
        end,
        exchange,
        mine,
        checker: RefCell::new(Checker::new(theirs, others)),
        speech: dialogue.map(|(dialogue, names)| Speech::new(dialogue, names, end, exchange, first)),
        arrival: Cell::new(if is_reset { Arrival::Reset } else { Arrival::Open }),
        sent: Cell::new(early as u64),
        write_error: Cell::new(None),
        at: Cell::new("its begin"),
        not_held: Cell::new(None),
        operations: Cell::new(0),
        changed: Notify::new(),
    };
    exchange.note_sent(end, early);
    let is_cut = {
        let mut reading = pin!(player.read(came, script.reading));
        let mut writing = pin!(player.write(&script.steps));
        let (mut has_read, mut has_written) = (false, false);
        loop {
            tokio::select! {
                () = exchange.abort.given() => break true,
                () = &mut reading, if !has_read => has_read = true,
                () = &mut writing, if !has_written => has_written = true,
            }
            // An end that could not do its part waits for what the other one makes of it.
            let leaves = has_written && script.last != Last::AfterEnd && player.write_error.get().is_none();
            if leaves || (has_read && has_written) {
                break false;
            }
        }
    };
    let mut outcome = player.outcome(is_cut);
    outcome.told = told;
    let may_go_on =
        !is_cut && script.last == Last::AfterEnd && player.speech.as_ref().is_some_and(Speech::keeps_connection);
    if is_cut || script.last == Last::Reset {
        // Closing with no time to linger is a reset (RFC 9293 section 3.10.5, ABORT). After a cut it is the quickest way
        // out for everybody. On a socket that is gone it fails, and is not needed.
        let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
    (outcome, may_go_on.then_some(stream))
}

struct Player<'a> {
    stream: &'a TcpStream,
    end: Role,
    exchange: &'a Exchange,
    mine: Pattern,
    checker: RefCell<Checker>,
    /// The messages around the streams, if there are any.
    speech: Option<Speech>,
    arrival: Cell<Arrival>,
    sent: Cell<u64>,
    write_error: Cell<Option<io::ErrorKind>>,
    /// The writer's place in its script.
    at: Cell<&'static str>,
    not_held: Cell<Option<u64>>,
    operations: Cell<u32>,
    /// The reader got on.
    changed: Notify,
}

impl Player<'_> {
    fn outcome(&self, is_cut: bool) -> Outcome {
        let checker = self.checker.borrow();
        Outcome {
            sent: self.sent.get(),
            received: checker.received(),
            difference: checker.difference().cloned(),
            arrival: self.arrival.get(),
            write_error: self.write_error.get(),
            cut_at: is_cut.then(|| self.at.get()),
            not_held: self.not_held.get(),
            faults: self.speech.as_ref().map_or_else(Vec::new, Speech::faults),
            refused: self.speech.as_ref().and_then(Speech::refused),
            is_unclosed: is_cut && self.speech.as_ref().is_some_and(Speech::waits_for_close),
            told: None,
        }
    }

    /// Reads until the other direction ends.
    async fn read(&self, came: Vec<u8>, reading: Reading) {
        if self.arrival.get() == Arrival::Reset || (!came.is_empty() && self.take(&came)) {
            self.changed.notify_one();
            return;
        }
        let mut buffer = vec![0; reading.chunk];
        loop {
            let mut room = buffer.len();
            if let Some(at) = reading.stall_at
                && !self.exchange.released.is_given()
            {
                match at.saturating_sub(self.checker.borrow().received()) {
                    0 => {}
                    left => room = room.min(left as usize),
                }
                if self.checker.borrow().received() >= at {
                    self.exchange.released.given().await;
                }
            }
            let read = match self.stream.readable().await {
                Ok(()) => self.stream.try_read(&mut buffer[..room]),
                Err(error) => Err(error),
            };
            match read {
                Ok(0) if let Some(speech) = &self.speech => {
                    self.arrival.set(if speech.end() { Arrival::Clean } else { Arrival::Reset });
                }
                // The kernel reports a reset once: if the writer was told, the reader is told of an end.
                Ok(0) if self.write_error.get().is_some() => self.arrival.set(Arrival::Reset),
                Ok(0) => self.arrival.set(Arrival::Clean),
                Ok(bytes) => {
                    if self.take(&buffer[..bytes]) {
                        self.changed.notify_one();
                        return;
                    }
                    self.give_way().await;
                    if !reading.pause.is_zero() {
                        time::sleep(reading.pause).await;
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // What is whole is not made less so.
                Err(_) if self.arrival.get() == Arrival::Clean => {}
                Err(_) => self.arrival.set(Arrival::Reset),
            }
            if let Some(speech) = &self.speech {
                speech.has_closed();
            }
            self.changed.notify_one();
            return;
        }
    }

    /// Bytes have come. True if nothing that comes after them is this end's business.
    fn take(&self, bytes: &[u8]) -> bool {
        let take = |bytes: &[u8]| {
            self.exchange.note_received(self.end, bytes.len());
            self.checker.borrow_mut().take(bytes);
        };
        let Some(speech) = &self.speech else {
            take(bytes);
            self.changed.notify_one();
            return false;
        };
        speech.take(bytes, take);
        if speech.is_whole() {
            self.arrival.set(Arrival::Clean);
        } else if speech.is_in_vain() {
            self.arrival.set(Arrival::Reset);
        }
        self.changed.notify_one();
        self.arrival.get() != Arrival::Open && !speech.waits_for_close()
    }

    /// Goes through the steps, up to the one that cannot be done.
    async fn write(&self, steps: &[Step]) {
        for step in steps {
            if let Err(error) = self.step(*step).await {
                self.write_error.set(Some(error.kind()));
                self.at.set("a write that failed");
                return;
            }
        }
        self.at.set("its end");
    }

    async fn step(&self, step: Step) -> io::Result<()> {
        if matches!(step, Step::Pause(_) | Step::UntilEnd | Step::UntilBytes(_)) {
            self.flush().await?;
        }
        match step {
            Step::Head => self.speech.iter().for_each(Speech::begin),
            Step::Write(bytes) => {
                self.at.set("a write");
                let mut left = bytes;
                while left > 0 {
                    let bytes = left.min(WRITE_BYTES_MAX);
                    self.send(bytes).await?;
                    left -= bytes;
                }
            }
            Step::Urgent => {
                self.at.set("an urgent byte");
                self.send_urgent().await?;
            }
            Step::Pause(pause) => {
                self.at.set("a pause");
                time::sleep(pause).await;
            }
            Step::HalfClose => {
                self.at.set("the end of its message");
                let ends_with_connection = self.speech.as_ref().is_none_or(Speech::finish);
                self.flush().await?;
                if ends_with_connection {
                    SockRef::from(self.stream).shutdown(std::net::Shutdown::Write)?;
                }
            }
            Step::UntilEnd => {
                self.at.set("waiting for the other end to end its direction");
                self.until(|| self.arrival.get() != Arrival::Open).await;
            }
            Step::UntilBytes(bytes) => {
                self.at.set("waiting for bytes");
                // If they cannot come any more, the end of its part tells.
                self.until(|| self.checker.borrow().received() >= bytes || self.arrival.get() != Arrival::Open).await;
            }
            Step::Flood => {
                self.at.set("writing until it is held back");
                self.flood().await?;
            }
            Step::Pour => {
                self.at.set("writing to an end that has reset");
                while self.exchange.on_the_way(self.end) <= self.exchange.held_bytes_max {
                    self.send(FLOOD_BYTES).await?;
                }
                self.not_held.set(Some(self.exchange.on_the_way(self.end)));
            }
            Step::UntilHeld => {
                self.at.set("waiting for the other end to be held back");
                self.exchange.held.given().await;
            }
            Step::OtherWayWorks => self.exchange.other_way.give(),
            Step::UntilReleased => {
                self.at.set("waiting for the stalled reader");
                self.exchange.released.given().await;
            }
        }
        Ok(())
    }

    async fn flood(&self) -> io::Result<()> {
        loop {
            match time::timeout(HELD_AFTER, self.send(FLOOD_BYTES)).await {
                Ok(sent) => sent?,
                Err(_) => break,
            }
            let on_the_way = self.exchange.on_the_way(self.end);
            if on_the_way > self.exchange.held_bytes_max {
                self.not_held.set(Some(on_the_way));
                break;
            }
        }
        self.exchange.held.give();
        Ok(())
    }

    /// Writes the next `bytes` of its stream. Given up in between, it has sent those that it counted.
    async fn send(&self, bytes: usize) -> io::Result<()> {
        let mut buffer = vec![0; bytes];
        self.mine.fill(self.sent.get(), &mut buffer);
        if let Some(speech) = &self.speech {
            // In a frame they are sent together or not at all, now or later.
            speech.say(&buffer);
            self.sent.set(self.sent.get() + bytes as u64);
            self.exchange.note_sent(self.end, bytes);
            return self.flush().await;
        }
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(rest) {
                Ok(written) => {
                    self.sent.set(self.sent.get() + written as u64);
                    self.exchange.note_sent(self.end, written);
                    rest = &rest[written..];
                    self.give_way().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the next byte of its stream as an urgent one.
    async fn send_urgent(&self) -> io::Result<()> {
        let mut byte = [0];
        self.mine.fill(self.sent.get(), &mut byte);
        loop {
            self.stream.writable().await?;
            let send = || SockRef::from(self.stream).send_out_of_band(&byte);
            match self.stream.try_io(Interest::WRITABLE, send) {
                Ok(_) => {
                    self.sent.set(self.sent.get() + 1);
                    self.exchange.note_sent(self.end, 1);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes what is around and in messages, as far as it was not.
    async fn flush(&self) -> io::Result<()> {
        let Some(speech) = &self.speech else { return Ok(()) };
        while speech.has_more() {
            self.stream.writable().await?;
            match speech.write(self.stream) {
                Ok(()) => self.give_way().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A socket that is always ready keeps its task running: the other tasks of the thread, and the other half of this
    /// one, have their turn only if it is given.
    async fn give_way(&self) {
        self.operations.set(self.operations.get() + 1);
        if self.operations.get().is_multiple_of(OPERATIONS_MAX) {
            tokio::task::yield_now().await;
        }
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        while !is_so() {
            self.changed.notified().await;
        }
    }
}
