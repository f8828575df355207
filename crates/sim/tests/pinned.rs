//! Results to the byte, recorded. `cargo test` holds a debug build to them, `python/tests/test_determinism.py` a release
//! build. Whoever means to change them records them anew with the command in `pinned/senders.toml`, and says why.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use headend_scenario::Document;
use headend_sim::sweep::{self, Options};

#[test]
fn a_sweep_over_senders_and_loss_yields_these_very_bytes_in_every_build() {
    let points = Document::parse("senders.toml", include_str!("pinned/senders.toml")).unwrap().points().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options { threads: NonZeroUsize::new(2), journal: None, resume: false, stop: &stop, trace: false };
    let flows = sweep::run(&points, &options, &mut |_| {}).unwrap().flows;

    let senders = flows.column("nodes.*.personality").unwrap().as_text().unwrap();
    let transfer_s = flows.column("transfer_s").unwrap().as_f64().unwrap();
    for (rows, sender) in transfer_s.chunks(4).zip(senders.iter().step_by(4)) {
        let [clean, again, lossy, _] = rows else { panic!("two losses, two runs each") };
        assert!(clean == again && (0.1..1.0).contains(clean), "{sender}: 200 KB take {rows:?}");
        // Packets are lost before the modem's queue, which can keep the slower Ethernet busy meanwhile.
        assert!(lossy >= clean, "{sender}: loss wins no time: {rows:?}");
        assert!(lossy > clean || &**sender == "linux", "{sender}: coarse timers lose time: {rows:?}");
    }

    let mut text = Vec::new();
    flows.write_csv(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let recorded = include_str!("pinned/senders.csv");
    for (got, wanted) in text.lines().zip(recorded.lines()) {
        assert_eq!(got, wanted, "not what was recorded");
    }
    assert_eq!(text.lines().count(), recorded.lines().count(), "rows");
}
