//! What must hold of the readers of a proxy's clients, whatever the bytes. Fuzzing looks for bytes for which it does not;
//! the tests of `headend-host` replay those that were found on the way.

use headend_host::proxy::inbound::http::{Head, Refusal, Wants};
use headend_host::proxy::inbound::proxy_protocol::{ProxyHeader, Version};
use headend_host::proxy::inbound::socks5::{Conversation, Step};
use headend_host::proxy::inbound::{Destination, Host};

/// As in the proxy's own limits.
const HEAD_BYTES_MAX: usize = 16_384;

/// The head of a request to an HTTP proxy.
pub(crate) fn http(bytes: &[u8]) {
    let request = match Head::read(bytes, HEAD_BYTES_MAX) {
        Head::More => return assert!(bytes.len() <= HEAD_BYTES_MAX, "nobody can make it hold more"),
        Head::Refused(refusal) => return answer(&refusal),
        Head::Request(request) => request,
    };
    assert!(request.consumed <= bytes.len().min(HEAD_BYTES_MAX), "{request:?}");
    let same = Head::Request(request.clone());
    assert_eq!(Head::read(&bytes[..request.consumed], HEAD_BYTES_MAX), same, "what follows the head does not matter");
    for cut in cuts(request.consumed) {
        assert_eq!(Head::read(&bytes[..cut], HEAD_BYTES_MAX), Head::More, "{cut} bytes of {}", request.consumed);
    }
    let fetch = match &request.wants {
        Wants::Tunnel(to) => return destination(to),
        Wants::Fetch(fetch) => fetch,
    };
    // What the server gets is one head, and says in one way where the body ends.
    destination(&fetch.destination);
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    assert!(is_word(&fetch.target) && (fetch.target.starts_with('/') || fetch.target == "*"), "{:?}", fetch.target);
    assert!(is_word(&fetch.host) && !fetch.host.contains(['/', '@', '#', '?']), "{:?}", fetch.host);
    let is_dropped = |name: &str| fetch.dropped.iter().any(|dropped| dropped == name);
    for name in ["connection", "keep-alive", "te", "transfer-encoding", "upgrade", "proxy-authorization"] {
        assert!(is_dropped(name), "{name} goes no further");
    }
    // hyper frames a body by its length, if it has one, or anew in chunks: of these a client may take away neither.
    assert!(!is_dropped("content-length") && !is_dropped("host"), "{:?}", fetch.dropped);
    if let Some(upgrade) = &fetch.upgrade {
        assert!(upgrade.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{upgrade:?}");
    }
}

/// A conversation in SOCKS5; the first byte says whether the proxy wants credentials.
pub(crate) fn socks5(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else { return };
    let wants_credentials = first & 1 != 0;
    let mut conversation = Conversation::new(wants_credentials);
    let mut has_credentials = false;
    loop {
        let before = conversation.clone();
        let step = conversation.step(rest);
        let consumed = match &step {
            Step::More => return assert!(rest.len() <= 2 + 2 * 256 + 2, "nobody can make it hold more"),
            Step::Refused { reply, why } => return assert!(!why.is_empty() && reply.len() <= 32),
            Step::Reply { consumed, .. } => *consumed,
            Step::Authenticate { consumed, credentials } => {
                assert!(wants_credentials && !credentials.user.is_empty());
                has_credentials = true;
                *consumed
            }
            Step::Request { consumed, destination: to } => {
                assert_eq!(has_credentials, wants_credentials, "no request without the credentials that are wanted");
                destination(to);
                *consumed
            }
        };
        assert!((1..=rest.len()).contains(&consumed));
        assert_eq!(before.clone().step(&rest[..consumed]), step, "what follows a message does not matter");
        for cut in cuts(consumed) {
            assert_eq!(before.clone().step(&rest[..cut]), Step::More, "{cut} bytes of {consumed}");
        }
        if matches!(step, Step::Request { .. }) {
            return;
        }
        rest = &rest[consumed..];
    }
}

/// A header of the PROXY protocol.
pub(crate) fn proxy_protocol(bytes: &[u8]) {
    let read = ProxyHeader::read(bytes);
    let (consumed, connection) = match &read {
        ProxyHeader::More => return assert!(bytes.len() < 16 + 4_096, "nobody can make it hold more"),
        ProxyHeader::Refused(why) => return assert!(!why.is_empty()),
        ProxyHeader::Complete { consumed, connection } => (*consumed, *connection),
    };
    assert!((1..=bytes.len()).contains(&consumed));
    assert_eq!(ProxyHeader::read(&bytes[..consumed]), read, "what follows the header does not matter");
    for cut in cuts(consumed) {
        assert_eq!(ProxyHeader::read(&bytes[..cut]), ProxyHeader::More, "{cut} bytes of {consumed}");
    }
    for version in [Version::V1, Version::V2] {
        let Some(connection) = connection else { continue };
        let header = connection.header(version);
        let expected = ProxyHeader::Complete { consumed: header.len(), connection: Some(connection) };
        assert_eq!(ProxyHeader::read(&header), expected, "what is told on is the same connection");
    }
}

/// A place that can be written where it is needed, in a header or a log, and be read again.
fn destination(destination: &Destination) {
    assert_ne!(destination.port, 0);
    let text = destination.to_string();
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    assert_eq!(Destination::read(text.as_bytes()).as_ref(), Ok(destination), "{text:?}");
    if let Host::Name(name) = &destination.host {
        assert!((1..=253).contains(&name.len()), "{name}");
    }
}

/// An answer is one, and holds nothing that the client wrote to look like another.
fn answer(refusal: &Refusal) {
    let answer = refusal.answer();
    assert!(answer.starts_with(b"HTTP/1.1 "));
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("the answer's head has an end");
    let head = String::from_utf8(answer[..end].to_vec()).expect("the head is text");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    assert_eq!(length.parse(), Ok(answer.len() - end - 4), "{head}");
    assert!(refusal.why.chars().all(|letter| !letter.is_control()), "{:?}", refusal.why);
}

/// Lengths below `whole`: all of a short message, some of a long one.
fn cuts(whole: usize) -> impl Iterator<Item = usize> {
    (0..whole).filter(move |cut| whole < 64 || cut % (whole / 16) == 0 || cut + 4 > whole)
}
