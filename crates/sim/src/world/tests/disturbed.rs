//! Links that repeat packets, hold them, and make bits of them wrong.

use super::*;

/// A path of 10 Mbit/s that does to packets what `disturbance` says, both ways.
fn path(disturbance: &str, flow: &str) -> Scenario {
    let text = format!(
        "seed = 3\nduration = \"60s\"\n[nodes.a]\n[nodes.b]\n[links.path]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\n\
         delay = \"10ms\"\n{disturbance}\n[flows.f]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    );
    Scenario::parse("disturbed", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_transfer_arrives_whole_whatever_the_medium_does() {
    let calm = flow(&path("", "bytes = \"3MB\""));
    for disturbance in ["jitter = \"5ms\"", "reorder = \"2%\"", "duplicate = \"5%\"", "corrupt = \"1%\""] {
        let row = flow(&path(disturbance, "bytes = \"3MB\""));
        assert_eq!(row.delivered_bytes, 3_000_000, "{disturbance}");
        // A copy takes nobody's place: it is made behind the link.
        let costs_time = !disturbance.starts_with("duplicate");
        assert!(!costs_time || row.transfer_ns > calm.transfer_ns, "{disturbance} costs time: {row:?}");
        let is_lossy = disturbance.starts_with("corrupt");
        assert!(!is_lossy || row.retransmits >= 10, "of 2000 segments 20 are corrupted: {row:?}");
    }
}

#[test]
fn each_datagram_counts_once_and_a_corrupted_one_not_at_all() {
    let datagrams = "kind = \"datagrams\"\nrate = \"1Mbit/s\"";
    let whole = flow(&path("", datagrams)).delivered_bytes;
    assert_eq!(flow(&path("duplicate = \"20%\"", datagrams)).delivered_bytes, whole);
    let share = flow(&path("corrupt = \"20%\"", datagrams)).delivered_bytes as f64 / whole as f64;
    assert!((0.75..0.85).contains(&share), "{share} of the datagrams");
}

#[test]
fn the_same_seed_disturbs_the_same_packets() {
    let all = "jitter = \"2ms\"\nreorder = \"1%\"\nduplicate = \"1%\"\ncorrupt = \"1%\"";
    let scenario = path(all, "bytes = \"1MB\"");
    assert_eq!(flow(&scenario).transfer_ns, flow(&scenario).transfer_ns);
    let other = Scenario { seed: 4, ..scenario.clone() };
    assert_ne!(flow(&scenario).transfer_ns, flow(&other).transfer_ns);
}
