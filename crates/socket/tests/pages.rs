//! The programs on the page of sockets are those that are compiled and run, and the one in Rust does what the page says.

use std::fs;
use std::path::Path;
use std::time::Duration;

use headend_socket::{Config, Endpoint, Identity};
use tokio::time::timeout;

#[path = "../examples/echo.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main is for the command line, and nobody calls it from elsewhere")]
mod echo;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_example_sends_back_what_it_is_sent() {
    let (own, other) = (Identity::generate(), Identity::generate());
    let (key, client) = (own.public(), other.public());
    let loopback = "127.0.0.1:0".parse().unwrap();
    let allow = Box::new(move |key: &_| *key == client);
    let server = Endpoint::server(loopback, own, allow, Config::default()).unwrap();
    tokio::spawn(echo::serve(server.clone()));
    let client = Endpoint::client(loopback, other, Config::default()).unwrap();
    let exchange = async {
        let connection = client.connect(server.address(), &key).await.unwrap();
        // More than what may be under way at first.
        let question: Vec<u8> = (0..1_000_000).map(|at: u32| (at * 31 + (at >> 9)) as u8).collect();
        assert!(echo::ask(&connection, &question).await.unwrap() == question);
    };
    timeout(PATIENCE, exchange).await.expect("in time");
}

/// Each `<!-- file: PATH -->` of the page is followed by that file; `HEADEND_BLESS=1` writes them.
#[test]
fn the_page_shows_the_programs_that_are_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/reference/sockets.md");
    let text = fs::read_to_string(&page).unwrap();
    let mut made = String::new();
    let mut parts = text.split("<!-- file: ");
    made.push_str(parts.next().unwrap_or_default());
    let mut files = 0;
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("a mark has an end");
        let (opening, rest) = rest.split_once('\n').expect("a block follows");
        let (_, after) = rest.split_once("\n```\n").expect("the block has an end");
        let program = fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        made.push_str(&format!("<!-- file: {name} -->\n{opening}\n{}\n```\n{after}", program.trim_end()));
        files += 1;
    }
    assert!(files > 0, "the page shows programs");
    if std::env::var_os("HEADEND_BLESS").is_some() {
        fs::write(&page, made).unwrap();
    } else {
        assert!(
            made == text,
            "docs/reference/sockets.md shows other programs than are tested: run with HEADEND_BLESS=1"
        );
    }
}
