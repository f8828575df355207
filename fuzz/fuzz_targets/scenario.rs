//! No text makes the reader of scenarios panic; what it takes, it writes so that it takes it again.
#![no_main]

use headend_scenario::Document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(document) = Document::parse("fuzz.toml", text) else { return };
    let Ok(points) = document.points() else { return };
    let written = document.to_toml();
    let again = Document::parse("written.toml", &written).expect("what was read is written as TOML");
    let again = again.points().expect("what was understood is written so that it is understood");
    assert_eq!(points.len(), again.len(), "as many points");
});
