//! The speech of an end where streams go in messages: what it has to say, and what it was told.

use std::cell::{Cell, RefCell};
use std::io;

use tokio::net::TcpStream;

use super::exchange::Exchange;
use super::fault::Fault;
use super::message::{self, Decoder, Dialogue, Framing, Head, Of};
use super::role::Role;

/// The parts of a request that its schedule does not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The server's address.
    pub(crate) server: String,
    /// The field that says who asks.
    pub(crate) authorization: String,
}

/// One end's part in a dialogue.
#[derive(Debug)]
pub(crate) struct Speech {
    dialogue: Dialogue,
    names: Names,
    path: String,
    end: Role,
    /// The bytes to be written, of which those before `written` are.
    outbox: RefCell<Vec<u8>>,
    written: Cell<usize>,
    decoder: RefCell<Decoder>,
    /// The connection has ended.
    is_closed: Cell<bool>,
}

impl Speech {
    /// `first` goes before the message.
    pub(crate) fn new(dialogue: Dialogue, names: Names, end: Role, exchange: &Exchange, first: Vec<u8>) -> Speech {
        let of = match end {
            Role::Client => Of::Answer { to_head: dialogue.method == "HEAD" },
            Role::Server => Of::Request,
        };
        Speech {
            dialogue,
            names,
            path: message::path(exchange.seed, exchange.connection),
            end,
            outbox: RefCell::new(first),
            written: Cell::new(0),
            decoder: RefCell::new(Decoder::new(of)),
            is_closed: Cell::new(false),
        }
    }

    fn framing(&self) -> Framing {
        if self.end == Role::Client { self.dialogue.request } else { self.dialogue.answer }
    }

    /// The head of its message is to be written.
    pub(crate) fn begin(&self) {
        let head = match self.end {
            Role::Client => self.dialogue.request_head(&self.names.server, &self.path, &self.names.authorization),
            Role::Server => self.dialogue.answer_head(),
        };
        self.outbox.borrow_mut().extend(head);
    }

    /// Bytes of its stream are to be written.
    pub(crate) fn say(&self, bytes: &[u8]) {
        let (before, after) = self.framing().around(bytes.len());
        let mut outbox = self.outbox.borrow_mut();
        for part in [before.as_bytes(), bytes, after.as_bytes()] {
            outbox.extend_from_slice(part);
        }
    }

    /// The end of its message is to be written. True if that is the end of its direction.
    pub(crate) fn finish(&self) -> bool {
        self.outbox.borrow_mut().extend_from_slice(self.framing().end().as_bytes());
        self.framing() == Framing::UntilClose
    }

    pub(crate) fn has_more(&self) -> bool {
        self.written.get() < self.outbox.borrow().len()
    }

    /// Writes what the kernel takes.
    pub(crate) fn write(&self, stream: &TcpStream) -> io::Result<()> {
        let mut outbox = self.outbox.borrow_mut();
        self.written.set(self.written.get() + stream.try_write(&outbox[self.written.get()..])?);
        if self.written.get() == outbox.len() {
            outbox.clear();
            self.written.set(0);
        }
        Ok(())
    }

    /// Bytes have come; `payload` is given those of the other end's stream.
    pub(crate) fn take(&self, bytes: &[u8], mut payload: impl FnMut(&[u8])) {
        let mut decoder = self.decoder.borrow_mut();
        // What the proxy says in place of the server is nobody's stream.
        let mut of_server = Vec::new();
        decoder.take(bytes, &mut |bytes| of_server.extend_from_slice(bytes));
        if !of_server.is_empty() && !decoder.head().is_some_and(|head| self.is_refusal(head)) {
            payload(&of_server);
        }
    }

    fn is_refusal(&self, head: &Head) -> bool {
        self.end == Role::Client && head.status() != Some(200)
    }

    /// The connection has ended. Whether the message had, or has by that.
    pub(crate) fn end(&self) -> bool {
        self.decoder.borrow_mut().end();
        self.is_whole()
    }

    pub(crate) fn has_closed(&self) {
        self.is_closed.set(true);
    }

    /// All of the other end's message has come.
    pub(crate) fn is_whole(&self) -> bool {
        let decoder = self.decoder.borrow();
        decoder.is_complete() && !decoder.head().is_some_and(|head| self.is_refusal(head))
    }

    /// True if what comes is no message of the other end.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.decoder.borrow().broken().is_some() || self.refused().is_some()
    }

    /// An answer is there, and said that its connection ends.
    pub(crate) fn waits_for_close(&self) -> bool {
        self.end == Role::Client && self.is_whole() && !self.is_closed.get() && !self.keeps_connection()
    }

    /// True if another request may go over the connection.
    pub(crate) fn keeps_connection(&self) -> bool {
        let decoder = self.decoder.borrow();
        self.end == Role::Client && decoder.keeps_connection() && decoder.excess() == 0 && !self.is_closed.get()
    }

    /// The proxy's answer in place of the server's.
    pub(crate) fn refused(&self) -> Option<String> {
        let decoder = self.decoder.borrow();
        decoder.head().filter(|head| self.is_refusal(head)).map(|head| head.line.clone())
    }

    /// The faults of what came, whatever the other end did.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let decoder = self.decoder.borrow();
        let mut faults = match decoder.head() {
            Some(head) if self.end == Role::Server => self.dialogue.judge_request(head, &self.names.server, &self.path),
            Some(head) if !self.is_refusal(head) => self.dialogue.judge_answer(head),
            _ => Vec::new(),
        };
        let to = format!("to the {}", self.end.name());
        if let Some(why) = decoder.broken() {
            let name = if self.end == Role::Server { "request-changed" } else { "answer-changed" };
            faults.push(Fault::new(name, format!("{to}: {why}")));
        }
        if decoder.excess() > 0 {
            let detail = format!("{to}: {} bytes came after the end of its message", decoder.excess());
            faults.push(Fault::new("bytes-foreign", detail));
        }
        faults
    }
}
