//! HTTP messages (RFC 9112): what an end puts around the bytes of its stream, and takes off again.
//!
//! Both are this tool's own, down to the reader of heads: one that a proxy shares with its judge hides what both misread.

use super::fault::Fault;

/// A request and its answer, as a schedule wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialogue {
    pub(crate) method: &'static str,
    pub(crate) request: Framing,
    pub(crate) answer: Framing,
    /// Fields besides those that are needed, on either head.
    pub(crate) fields: usize,
    /// The request has a field that its Connection names: for the proxy alone.
    pub(crate) has_hop: bool,
}

/// The way in which a message tells where it ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// It has no body.
    Empty,
    /// It has no body, though it states the length of one: an answer to HEAD.
    Stated(u64),
    Length(u64),
    Chunked,
    /// An answer ends with its connection.
    UntilClose,
}

/// A head is no longer than this (the limit of common servers).
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// A line with the size of a chunk, or of a trailer.
const LINE_BYTES_MAX: usize = 1_024;
const END: &[u8] = b"\r\n\r\n";

/// The path of a request within its server, which tells the schedule and the connection.
pub(crate) fn path(seed: u64, connection: usize) -> String {
    format!("/conform/{seed}/{connection}")
}

impl Dialogue {
    /// The head of the request to `server`, for a proxy.
    pub(crate) fn request_head(&self, server: &str, path: &str, authorization: &str) -> Vec<u8> {
        let hop = if self.has_hop { "Connection: X-Hop\r\nX-Hop: for the proxy\r\n" } else { "" };
        let (method, fields, framing) = (self.method, self.fields(), self.request.field());
        format!(
            "{method} http://{server}{path} HTTP/1.1\r\nHost: {server}\r\n{authorization}{hop}{fields}{framing}\r\n"
        )
        .into_bytes()
    }

    /// The head of the answer.
    pub(crate) fn answer_head(&self) -> Vec<u8> {
        let (fields, framing) = (self.fields(), self.answer.field());
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{fields}{framing}\r\n").into_bytes()
    }

    fn fields(&self) -> String {
        (0..self.fields).map(|index| format!("X-Conform-{index}: {}\r\n", Self::value(index))).collect()
    }

    fn value(index: usize) -> String {
        format!("{index} {}", "v".repeat(7 * index))
    }

    /// The faults of the request's head as it reached the server.
    pub(crate) fn judge_request(&self, head: &Head, server: &str, path: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        let line = format!("{} {path} HTTP/1.", self.method);
        // RFC 9112 section 3.2.1: a server is asked in origin form.
        if !head.line.starts_with(&line) {
            faults.push(Fault::new("request-changed", format!("expected {line:?}, got {:?}", head.line)));
        }
        let host: Vec<&str> = head.all("host").collect();
        if host != [server] {
            faults.push(Fault::new("request-changed", format!("expected Host: {server}, got {host:?}")));
        }
        faults.extend(self.judge_fields(head, "request-changed"));
        if let Some(value) = head.all("x-hop").next() {
            let detail = format!("X-Hop: {value:?}, which the request's Connection names");
            faults.push(Fault::new("field-not-removed", detail));
        }
        if head.all("via").next().is_none() {
            faults.push(Fault::new("via-missing", format!("{:?}", head.line)));
        }
        faults
    }

    /// The faults of the answer's head as it reached the client.
    pub(crate) fn judge_answer(&self, head: &Head) -> Vec<Fault> {
        self.judge_fields(head, "answer-changed").into_iter().collect()
    }

    fn judge_fields(&self, head: &Head, name: &'static str) -> Option<Fault> {
        (0..self.fields).find_map(|index| {
            let (field, value) = (format!("x-conform-{index}"), Self::value(index));
            let came: Vec<&str> = head.all(&field).collect();
            // Space around a value is none of it (RFC 9112 section 5.1).
            (came != [value.trim()]).then(|| Fault::new(name, format!("expected {field}: {value}, got {came:?}")))
        })
    }
}

impl Framing {
    /// The field that tells of it.
    fn field(self) -> String {
        match self {
            Framing::Empty | Framing::UntilClose => String::new(),
            Framing::Stated(length) | Framing::Length(length) => format!("Content-Length: {length}\r\n"),
            Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        }
    }

    /// The framing before so many bytes of the stream, and after them.
    pub(crate) fn around(self, bytes: usize) -> (String, &'static str) {
        match self {
            Framing::Chunked => (format!("{bytes:x}\r\n"), "\r\n"),
            _ => (String::new(), ""),
        }
    }

    /// The framing after all of them.
    pub(crate) fn end(self) -> &'static str {
        if self == Framing::Chunked { "0\r\n\r\n" } else { "" }
    }
}

/// The head of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) line: String,
    /// Names in small letters, and values.
    fields: Vec<(String, String)>,
}

impl Head {
    fn read(text: &str) -> Result<Head, String> {
        let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
        let line = lines.next().unwrap_or_default().to_owned();
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let fields =
            lines.map(|line| field(line).ok_or_else(|| format!("{line:?} is no field"))).collect::<Result<_, _>>()?;
        Ok(Head { line, fields })
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str, word: &str) -> bool {
        self.all(name).flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    }

    /// The status of an answer.
    pub(crate) fn status(&self) -> Option<u16> {
        self.line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
    }

    /// True if the connection may be used again, by what this answer states (RFC 9112 section 9.3).
    fn keeps_connection(&self) -> bool {
        let is_old = self.line.starts_with("HTTP/1.0");
        !self.has("connection", "close") && (!is_old || self.has("connection", "keep-alive"))
    }
}

/// Takes the bytes of a stream out of a message, however it comes in pieces and however it is framed.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    /// Which message: an answer may have no body though it says so.
    of: Of,
    line: Vec<u8>,
    head: Option<Head>,
    /// Bytes that came after its end.
    excess: u64,
}

/// The kind of message that a decoder reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Request,
    Answer { to_head: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    Size,
    Chunk(u64),
    /// The line's end behind a chunk.
    Behind,
    Trailers,
    UntilClose,
    Complete,
    Broken(String),
}

impl Decoder {
    pub(crate) fn new(of: Of) -> Decoder {
        Decoder { state: State::Head, of, line: Vec::new(), head: None, excess: 0 }
    }

    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Why it can be no message.
    pub(crate) fn broken(&self) -> Option<&str> {
        if let State::Broken(why) = &self.state { Some(why) } else { None }
    }

    /// Bytes that came after its end.
    pub(crate) fn excess(&self) -> u64 {
        self.excess
    }

    /// True if the connection goes on after it.
    pub(crate) fn keeps_connection(&self) -> bool {
        self.is_complete() && self.head.as_ref().is_some_and(Head::keeps_connection)
    }

    /// The connection has ended: that may be the message's end too.
    pub(crate) fn end(&mut self) {
        if self.state == State::UntilClose {
            self.state = State::Complete;
        }
    }

    /// The next bytes came; `payload` is given those of the stream.
    pub(crate) fn take(&mut self, mut bytes: &[u8], payload: &mut dyn FnMut(&[u8])) {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Head | State::Size | State::Behind | State::Trailers => {
                    self.line.push(bytes[0]);
                    bytes = &bytes[1..];
                    self.look_at_line();
                }
                State::Length(left) | State::Chunk(left) => {
                    let len = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    payload(&bytes[..len]);
                    bytes = &bytes[len..];
                    *left -= len as u64;
                    if *left == 0 {
                        let is_chunk = matches!(self.state, State::Chunk(_));
                        self.state = if is_chunk { State::Behind } else { State::Complete };
                    }
                }
                State::UntilClose => {
                    payload(bytes);
                    return;
                }
                State::Complete => {
                    self.excess += bytes.len() as u64;
                    return;
                }
                State::Broken(_) => return,
            }
        }
    }

    /// Reads on, if what has come makes a whole line, or a whole head.
    fn look_at_line(&mut self) {
        let is_head = self.state == State::Head;
        let (end, most) = if is_head { (END, HEAD_BYTES_MAX) } else { (&END[..2], LINE_BYTES_MAX) };
        if !self.line.ends_with(end) {
            if self.line.len() >= most {
                self.state =
                    State::Broken(format!("no end of {} in {most} bytes", if is_head { "a head" } else { "a line" }));
            }
            return;
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        self.state = match self.state {
            State::Head => match Head::read(&line) {
                Ok(head) => self.body(head),
                Err(why) => State::Broken(why),
            },
            State::Size => {
                let digits = line.split(';').next().unwrap_or_default().trim();
                match u64::from_str_radix(digits, 16) {
                    Ok(0) => State::Trailers,
                    Ok(size) => State::Chunk(size),
                    Err(_) => State::Broken(format!("{line:?} is no size of a chunk")),
                }
            }
            State::Behind if line == "\r\n" => State::Size,
            State::Behind => State::Broken(format!("{line:?} behind a chunk")),
            State::Trailers if line == "\r\n" => State::Complete,
            _ => State::Trailers,
        };
    }

    /// The state that follows a head (RFC 9112 section 6.3).
    fn body(&mut self, head: Head) -> State {
        if self.of != Of::Request && head.status().is_some_and(|status| (100..200).contains(&status)) {
            // One on the way (RFC 9110 section 15.2).
            return State::Head;
        }
        let lengths: Vec<&str> = head.all("content-length").collect();
        let length = lengths.first().map(|length| length.parse::<u64>());
        let has_body = !matches!((self.of, head.status()), (Of::Answer { to_head: true }, _) | (_, Some(204 | 304)));
        let state = match (length, lengths.len()) {
            _ if !has_body => State::Complete,
            (Some(_), _) if head.has("transfer-encoding", "chunked") => {
                State::Broken("both Content-Length and Transfer-Encoding".to_owned())
            }
            (None, _) if head.has("transfer-encoding", "chunked") => State::Size,
            (Some(Ok(0)), 1) => State::Complete,
            (Some(Ok(length)), 1) => State::Length(length),
            (Some(_), _) => State::Broken(format!("Content-Length: {lengths:?}")),
            (None, _) if self.of == Of::Request => State::Complete,
            (None, _) => State::UntilClose,
        };
        self.head = Some(head);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payload of `text` if it comes in pieces of `piece` bytes, and whether it was whole before and after the end of
    /// the connection.
    fn decode(of: Of, text: &str, piece: usize) -> (String, bool, bool) {
        let mut decoder = Decoder::new(of);
        let mut payload = Vec::new();
        for bytes in text.as_bytes().chunks(piece) {
            decoder.take(bytes, &mut |bytes| payload.extend_from_slice(bytes));
        }
        let before = decoder.is_complete();
        decoder.end();
        (String::from_utf8(payload).expect("text"), before, decoder.is_complete())
    }

    const ANSWER: Of = Of::Answer { to_head: false };

    #[test]
    fn a_message_is_the_same_in_pieces_of_any_size() {
        let cases = [
            (Of::Request, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", true, true),
            (Of::Request, "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "abc", true, true),
            (
                ANSWER,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
                "ab0123456789",
                true,
                true,
            ),
            (ANSWER, "HTTP/1.0 200 OK\r\n\r\nuntil the end", "until the end", false, true),
            (ANSWER, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", true, true),
            (Of::Answer { to_head: true }, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "", true, true),
            (ANSWER, "HTTP/1.1 204 No Content\r\n\r\n", "", true, true),
            // Cut short: not whole, whatever ends.
            (ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "abc", false, false),
            (ANSWER, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", "abc", false, false),
            (ANSWER, "HTTP/1.1 200 OK\r\nX: y\r\n", "", false, false),
        ];
        for (of, text, payload, before, after) in cases {
            for piece in [1, 2, 7, text.len()] {
                assert_eq!(decode(of, text, piece), (payload.to_owned(), before, after), "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_broken_message_and_excess_bytes_are_reported() {
        for text in [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        ] {
            let mut decoder = Decoder::new(ANSWER);
            decoder.take(text.as_bytes(), &mut |_| {});
            assert!(decoder.broken().is_some() && !decoder.is_complete(), "{text:?}");
        }
        let mut decoder = Decoder::new(Of::Request);
        decoder.take(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n", &mut |_| {});
        assert_eq!(decoder.excess(), 16);
    }

    #[test]
    fn each_mistake_in_a_head_is_a_fault_of_its_own() {
        let length = Framing::Length(3);
        let dialogue = Dialogue { method: "POST", request: length, answer: length, fields: 3, has_hop: true };
        let right = "POST /conform/7/0 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Conform-0: 0\r\nX-Conform-1: 1 vvvvvvv\r\n\
                     x-conform-2: 2 vvvvvvvvvvvvvv\r\nVia: 1.1 p\r\nContent-Length: 3\r\n\r\n";
        let judge = |text: &str| {
            let faults = dialogue.judge_request(&Head::read(text).expect("a head"), "127.0.0.1:80", &path(7, 0));
            faults.into_iter().map(|fault| fault.name).collect::<Vec<_>>()
        };
        assert!(judge(right).is_empty());
        for (from, to, name) in [
            ("POST /c", "POST http://127.0.0.1:80/c", "request-changed"),
            ("POST /c", "GET /c", "request-changed"),
            ("Host: 127.0.0.1:80", "Host: 127.0.0.1", "request-changed"),
            ("X-Conform-1: 1", "X-Conform-1: 2", "request-changed"),
            ("X-Conform-0: 0\r\n", "", "request-changed"),
            ("Via:", "X-Hop: 1\r\nVia:", "field-not-removed"),
            ("Via: 1.1 p\r\n", "", "via-missing"),
        ] {
            assert_eq!(judge(&right.replace(from, to)), [name], "{from} -> {to}");
        }
        let answer = String::from_utf8(dialogue.answer_head()).expect("text");
        assert!(dialogue.judge_answer(&Head::read(&answer).expect("a head")).is_empty());
    }

    #[test]
    fn an_answer_states_whether_its_connection_goes_on() {
        for (text, keeps) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\n", false),
        ] {
            let mut decoder = Decoder::new(ANSWER);
            decoder.take(text.as_bytes(), &mut |_| {});
            assert_eq!(decoder.keeps_connection(), keeps, "{text:?}");
        }
    }
}
