//! What a tunnel's arguments, files and first words mean.

use headend_host::proxy::{Failure as Unreached, FailureKind};

use super::*;

#[test]
fn a_forward_is_a_place_here_and_one_there() {
    let read = |text: &str| forward(text).map(|one| (one.listen.to_string(), one.to.to_string()));
    assert_eq!(read("8080:10.0.0.5:80"), Ok(("127.0.0.1:8080".to_owned(), "10.0.0.5:80".to_owned())));
    assert_eq!(read("0.0.0.0:25:mail.example:25"), Ok(("0.0.0.0:25".to_owned(), "mail.example:25".to_owned())));
    assert_eq!(read("[::1]:1:[2001:db8::1]:2"), Ok(("[::1]:1".to_owned(), "[2001:db8::1]:2".to_owned())));
    for text in ["", "8080", "8080:host", "8080:host:0", "x:host:1"] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn a_file_of_keys_has_one_on_each_line() {
    let [one, two] = [(); 2].map(|()| Identity::generate().public());
    let text = format!("# those who may\n{one} laptop of Ada\n\n  {two}\n");
    assert_eq!(read_keys(&text), Ok(vec![one, two]));
    assert_eq!(read_keys("# a\nssh-ed25519 AAAA"), Err((2, "ssh-ed25519".to_owned())));
}

#[tokio::test]
async fn destinations_and_failures_come_as_they_were_said() {
    let to = Destination::read(b"[2001:db8::1]:443").unwrap();
    for kind in [speech::Kind::Bytes, speech::Kind::Datagrams] {
        let said = speech::request(kind, &to);
        assert_eq!(speech::read_request(&mut &said[..]).await.unwrap(), (kind, to.clone()));
    }
    for (kind, why) in [(FailureKind::Refused, "it refuses"), (FailureKind::Own, "\u{e4}\u{e4}")] {
        let mut said = Vec::new();
        speech::answer(&mut said, Some(&Unreached::new(kind, why))).await.unwrap();
        assert_eq!(speech::read_answer(&mut &said[..]).await.unwrap(), Some(Unreached::new(kind, why)));
    }
    assert_eq!(speech::read_answer(&mut &[0_u8][..]).await.unwrap(), None);
    assert!(speech::read_answer(&mut &[99_u8, 0, 0][..]).await.is_err());
    assert!(speech::read_request(&mut &[0xff_u8; 40][..]).await.is_err());
}
