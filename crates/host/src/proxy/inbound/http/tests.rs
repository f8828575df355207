use super::*;

const MAX: usize = 16_384;

fn request(text: &str) -> Request {
    match Head::read(text.as_bytes(), MAX) {
        Head::Request(request) => request,
        other => panic!("{text:?} is a request, not {other:?}"),
    }
}

fn refusal(text: &str) -> Refusal {
    match Head::read(text.as_bytes(), MAX) {
        Head::Refused(refusal) => refusal,
        other => panic!("{text:?} is refused, not {other:?}"),
    }
}

fn fetch(text: &str) -> Fetch {
    match request(text).wants {
        Wants::Fetch(fetch) => fetch,
        other => panic!("{text:?} asks for a URL, not {other:?}"),
    }
}

#[test]
fn a_connect_names_its_destination_and_leaves_what_follows() {
    let text = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
    let read = request(&format!("{text}\x16\x03\x01"));
    assert_eq!(read.consumed, text.len());
    assert_eq!(read.wants, Wants::Tunnel(Destination::read(b"example.org:443").unwrap()));
}

#[test]
fn every_prefix_of_a_head_needs_more() {
    let text = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
    for len in 0..text.len() {
        assert_eq!(Head::read(&text.as_bytes()[..len], MAX), Head::More, "{len} bytes");
    }
}

#[test]
fn an_absolute_target_goes_on_in_origin_form_without_hop_fields() {
    let read = request(
        "GET http://example.org:8080/a?b=c HTTP/1.1\r\nHost: other.example\r\nAccept: */*\r\nX-Hop: 1\r\n\
         Proxy-Authorization: Basic dXNlcjpwYTpzcw==\r\nConnection: keep-alive, X-Hop\r\nTE: trailers\r\n\r\n",
    );
    assert_eq!(read.credentials, Some(Credentials { user: b"user".to_vec(), password: b"pa:ss".to_vec() }));
    let Wants::Fetch(fetch) = read.wants else { panic!("no tunnel") };
    assert_eq!((fetch.destination.to_string(), &*fetch.host), ("example.org:8080".to_owned(), "example.org:8080"));
    assert_eq!((&*fetch.target, fetch.body), ("/a?b=c", Body::Length(0)));
    for name in ["connection", "keep-alive", "x-hop", "te", "proxy-authorization"] {
        assert!(fetch.dropped.iter().any(|dropped| dropped == name), "{name} goes no further");
    }
    assert!(!fetch.dropped.iter().any(|dropped| dropped == "accept"));
}

#[test]
fn an_empty_path_is_the_root_and_the_port_80_unless_told() {
    for (target, expected) in [
        ("GET http://[2001:db8::1] HTTP/1.0", "/"),
        ("GET HTTP://example.org?q HTTP/1.0", "/?q"),
        ("OPTIONS http://example.org HTTP/1.0", "*"),
    ] {
        let read = fetch(&format!("{target}\r\n\r\n"));
        assert_eq!((read.destination.port, &*read.target), (80, expected), "{target}");
    }
}

#[test]
fn a_request_has_one_host_or_in_http_1_0_none() {
    let with = |version: u8, fields: &str| format!("GET http://a.example/ HTTP/1.{version}\r\n{fields}\r\n");
    fetch(&with(0, ""));
    fetch(&with(1, "Host: a.example\r\n"));
    fetch(&with(1, "Host:\r\n"));
    for (version, fields) in [
        (1, ""),
        (1, "Host: a.example\r\nHost: a.example\r\n"),
        (0, "Host: a\r\nHost: b\r\n"),
        (1, "Host: a b\r\n"),
        (1, "Host: a/b\r\n"),
    ] {
        assert_eq!(refusal(&with(version, fields)).status, Status::BadRequest, "{fields:?}");
    }
    refusal("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n");
}

#[test]
fn an_upgrade_goes_on_if_connection_names_it_and_it_is_not_http_2() {
    let with = |fields: &str| fetch(&format!("GET http://a/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).upgrade;
    assert_eq!(with("Connection: Upgrade\r\nUpgrade: websocket\r\n").as_deref(), Some("websocket"));
    assert_eq!(with("Upgrade: websocket\r\n"), None);
    assert_eq!(with("Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"), None);
    assert_eq!(with("Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: x\r\n"), None);
}

#[test]
fn max_forwards_is_read_of_trace_and_options_alone() {
    let with = |method: &str, value: &str| {
        let text = format!("{method} http://a/ HTTP/1.1\r\nHost: a\r\nMax-Forwards: {value}\r\n\r\n");
        Head::read(text.as_bytes(), MAX)
    };
    for (method, expected) in [("TRACE", Some(7)), ("OPTIONS", Some(7)), ("GET", None)] {
        let Head::Request(Request { wants: Wants::Fetch(fetch), .. }) = with(method, "7") else { panic!("a request") };
        assert_eq!(fetch.forwards, expected, "{method}");
    }
    assert!(matches!(with("TRACE", "-1"), Head::Refused(_)));
    assert!(matches!(with("TRACE", "many"), Head::Refused(_)));
}

#[test]
fn a_body_s_end_is_told_in_one_way_or_the_request_refused() {
    let with = |fields: &str| format!("POST http://a.example/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    assert_eq!(fetch(&with("Content-Length: 7\r\n")).body, Body::Length(7));
    assert_eq!(fetch(&with("Content-Length: 7\r\nContent-Length: 7\r\n")).body, Body::Length(7));
    assert_eq!(fetch(&with("Transfer-Encoding: Chunked\r\n")).body, Body::Chunked);
    for fields in [
        "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 7\r\nContent-Length: 8\r\n",
        "Content-Length: 7, 7\r\n",
        "Content-Length: +7\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length: 7\r\nConnection: content-length\r\n",
        "Transfer-Encoding: chunked\r\nConnection: close, Transfer-Encoding\r\n",
        "Content-Length : 7\r\n",
        "X: a\r\n folded\r\n",
    ] {
        refusal(&with(fields));
    }
}

#[test]
fn a_request_that_cannot_be_served_is_answered_with_status_and_reason() {
    for (text, status, why) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest, "this is a proxy"),
        ("GET https://a/ HTTP/1.1\r\n\r\n", Status::NotImplemented, "use CONNECT"),
        ("GET http://user@a/ HTTP/1.1\r\n\r\n", Status::BadRequest, "user"),
        ("GET http:///x HTTP/1.1\r\n\r\n", Status::BadRequest, "host is missing"),
        ("GET http://a/ HTTP/2.0\r\n\r\n", Status::VersionNotSupported, "version"),
        ("CONNECT example.org HTTP/1.1\r\n\r\n", Status::BadRequest, "port is missing"),
        ("CONNECT a:0 HTTP/1.1\r\n\r\n", Status::BadRequest, "port"),
        ("CONNECT a:1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", Status::BadRequest, "no body"),
        ("CONNECT a:1 HTTP/1.1\r\nA\0: 5\r\n\r\n", Status::BadRequest, "malformed"),
        ("\x16\x03\x01\x02", Status::BadRequest, "no HTTP request"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.status == status && refusal.why.contains(why), "{text:?}: {refusal:?}");
    }
}

#[test]
fn a_head_that_is_too_large_is_refused_before_it_is_complete() {
    let text = format!("GET http://a/ HTTP/1.1\r\nX: {}", "x".repeat(MAX));
    assert_eq!(refusal(&text).status, Status::HeadTooLarge);
    let many = format!("GET http://a/ HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX + 1));
    assert_eq!(refusal(&many).status, Status::HeadTooLarge);
}

#[test]
fn an_answer_ends_where_it_says() {
    let answer = Refusal::new(Status::AuthenticationRequired, "who are you?").answer();
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("Content-Length: {}\r\n", body.len())) && head.contains("Proxy-Authenticate: Basic")
    );
}
