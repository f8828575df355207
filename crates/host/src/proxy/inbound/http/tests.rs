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

#[test]
fn a_connect_names_its_destination_and_leaves_what_follows() {
    let text = "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n";
    let read = request(&format!("{text}\x16\x03\x01"));
    assert_eq!((read.consumed, read.destination.to_string()), (text.len(), "example.org:443".to_owned()));
    assert_eq!((read.head.len(), read.body), (0, Body::Tunnel));
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
    assert_eq!(read.destination.to_string(), "example.org:8080");
    let expected = "GET /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nVia: 1.1 headend\r\n\
                    Connection: close\r\n\r\n";
    assert_eq!(String::from_utf8(read.head).unwrap(), expected);
    assert_eq!(read.credentials, Some(Credentials { user: b"user".to_vec(), password: b"pa:ss".to_vec() }));
    assert_eq!(read.body, Body::Length(0));
}

#[test]
fn an_empty_path_is_the_root_and_the_port_80_unless_told() {
    for (target, line) in [
        ("GET http://[2001:db8::1] HTTP/1.0", "GET / HTTP/1.0"),
        ("GET HTTP://example.org?q HTTP/1.0", "GET /?q HTTP/1.0"),
        ("OPTIONS http://example.org HTTP/1.0", "OPTIONS * HTTP/1.0"),
    ] {
        let read = request(&format!("{target}\r\n\r\n"));
        assert_eq!(read.destination.port, 80);
        assert!(String::from_utf8(read.head).unwrap().starts_with(line), "{target}");
    }
}

#[test]
fn a_body_s_end_is_told_in_one_way_or_the_request_refused() {
    let with = |fields: &str| format!("POST http://a.example/ HTTP/1.1\r\n{fields}\r\n");
    assert_eq!(request(&with("Content-Length: 7\r\n")).body, Body::Length(7));
    assert_eq!(request(&with("Content-Length: 7\r\nContent-Length: 7\r\n")).body, Body::Length(7));
    assert_eq!(request(&with("Transfer-Encoding: Chunked\r\n")).body, Body::Chunked);
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
