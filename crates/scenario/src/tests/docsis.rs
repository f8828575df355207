//! Modems: who is on whose channel, and what they may be told.

use headend_engine::cable::docsis::{Channel, Modem, Shaping};

use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate};

use super::super::*;

const DOCSIS: &str = r#"
[nodes.cmts]
kind = "router"
[nodes.server]
[nodes.a]
[nodes.b]
[links.trunk]
between = ["server", "cmts"]
rate = "100Mbit/s"
[links.first]
kind = "docsis"
between = ["cmts", "a"]
delay = "100us"
[links.second]
kind = "docsis"
between = ["cmts", "b"]
shares = "first"
modem = { down_rate = "3Mbit/s", down_granularity = "8ms", piggyback = false, up_buffer = "10KB" }
[flows.f]
from = "server"
to = "a"
"#;

fn of(scenario: &Scenario, link: usize) -> &Docsis {
    match &scenario.links[link].kind {
        LinkKind::Docsis(docsis) => docsis,
        other => panic!("{other:?} is no modem"),
    }
}

fn messages(from: &str, to: &str) -> Vec<String> {
    assert!(DOCSIS.contains(from), "{from}");
    match Scenario::parse("net.toml", &DOCSIS.replacen(from, to, 1)) {
        Err(Error::Wrong(mistakes)) => mistakes.listed.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_modem_has_a_channel_of_its_own_or_is_on_another_s() {
    let scenario = Scenario::parse("net.toml", DOCSIS).expect("a scenario");
    assert_eq!(of(&scenario, 1), &Docsis { channel: DocsisChannel::Own(Channel::usual()), modem: Modem::unlimited() });
    let second = of(&scenario, 2);
    assert_eq!(second.channel, DocsisChannel::Of(1));
    let (rate, burst, granularity) = (Rate::mbit(3), Bytes::new(1_522), Duration::from_millis(8));
    let down = Some(Shaping { rate, burst, granularity });
    let up_buffer = Bytes::new(10_000);
    assert_eq!(second.modem, Modem { down, up_buffer, piggyback: false, ..Modem::unlimited() });
}

#[test]
fn what_no_modem_can_be_is_answered_with_what_can() {
    let unknown = messages("shares = \"first\"", "shares = \"frist\"");
    assert_eq!(unknown.len(), 1, "{unknown:#?}");
    assert!(
        unknown[0].starts_with("net.toml:17: links.second.shares: ") && unknown[0].contains("\"first\""),
        "{unknown:?}"
    );
    let trunk = messages("shares = \"first\"", "shares = \"trunk\"");
    assert!(trunk[0].contains("no docsis link with a channel of its own") || trunk[0].contains("first"), "{trunk:?}");
    let both = messages("shares = \"first\"", "shares = \"first\"\ndelay = \"1ms\"");
    assert!(both[0].contains("links.second.delay") && both[0].contains("links.first says it"), "{both:?}");
    let late = messages("delay = \"100us\"", "delay = \"100us\"\nchannel = { look_ahead = \"1ms\" }");
    assert!(late[0].contains("links.first.channel") && late[0].contains("a look-ahead of 1ms is less"), "{late:?}");
    let bucket = messages("down_rate = \"3Mbit/s\", ", "");
    assert!(bucket[0].contains("only with `down_rate`"), "{bucket:?}");
    let plain =
        messages("kind = \"docsis\"\nbetween = [\"cmts\", \"b\"]", "rate = \"1Mbit/s\"\nbetween = [\"cmts\", \"b\"]");
    assert!(plain.iter().any(|text| text.contains("kind = \"docsis\"")), "{plain:?}");
}
