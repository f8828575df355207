//! No input panics. A failing case prints its input.

use headend_engine::units::quantity;
use proptest::prelude::*;

use super::super::*;
use super::examples;

/// Bits of scenarios, right and wrong.
fn fragment() -> impl Strategy<Value = String> {
    let known = [
        "\"1%\"",
        "0.01",
        "-1",
        "1e400",
        "9999999999999999999999",
        "nan",
        "inf",
        "true",
        "[]",
        "{}",
        "[[]]",
        "\"\"",
        "\"8KB\"",
        "\"7 packets\"",
        "\"unlimited\"",
        "{ model = \"list\", packets = [0] }",
        "{ model = 1 }",
        "1979-05-27",
        "\n[nodes.x]\n",
        "\n[sweep]\n",
        "nodes",
        "links",
        "kind = \"cable\"\n",
        "count = 100000\n",
        "\"99999999999999999999B\"",
        "\"0.000000000000000000001%\"",
        "\u{0}",
        "é",
        "\"\"\"",
        "=",
        "=[",
        ".",
        "*",
    ];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), ".{0,12}"]
}

/// An example file with parts cut out and fragments put in, at the ends of its words.
fn mutated() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..20_usize, fragment()), 1..6);
    (prop::sample::select(examples()), edits).prop_map(|((_, text), edits)| {
        let mut text = text.to_owned();
        for (at, cut, put) in edits {
            let stops: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let start = at.index(stops.len());
            let end = (start + cut).min(stops.len() - 1);
            text.replace_range(stops[start]..stops[end], &put);
        }
        text
    })
}

/// A path as of a real field, with steps changed.
fn path() -> impl Strategy<Value = String> {
    let known = [
        "links",
        "cable",
        "down",
        "loss",
        "rate",
        "nodes",
        "server",
        "pc",
        "*",
        "tcp",
        "mss",
        "flows",
        "get",
        "bytes",
        "runs",
        "sweep",
        "",
        "personality",
        "title",
        "model",
    ];
    let step = prop_oneof![8 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => ".{0,4}"];
    prop::collection::vec(step, 1..6).prop_map(|steps| steps.join("."))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_text_makes_the_reader_panic(text in mutated()) {
        if let Ok(document) = Document::parse("fuzz.toml", &text)
            && let Ok(points) = document.points()
        {
            let again = Document::parse("fuzz.toml", &document.to_toml()).and_then(|document| document.points());
            prop_assert!(again.is_ok_and(|again| again == points), "reads back the same:\n{}", document.to_toml());
        }
    }

    #[test]
    fn no_setting_and_no_sweep_makes_it_panic(path in path(), value in fragment(), other in fragment()) {
        let mut document = Document::parse("hfc.toml", examples()[0].1).expect("TOML");
        if document.set(&path, &value).is_ok() {
            let _ = document.scenario();
        }
        document.sweep(&path, &[&value, &other]);
        let _ = document.scenario();
    }

    #[test]
    fn no_json_makes_the_reader_panic(text in ".{0,80}") {
        if let Ok(document) = Document::parse_json("fuzz", &text) {
            let _ = document.scenario();
        }
    }

    #[test]
    fn no_quantity_makes_its_reader_panic(text in "[0-9.eE%+-]{0,24}( ?[A-Za-z/%]{0,6})?") {
        let _ = quantity::rate(&text);
        let _ = quantity::size(&text);
        let _ = quantity::span(&text);
        let _ = quantity::packets(&text);
        let _ = quantity::short_rate(&text);
        if let Some(chance) = quantity::chance(&text) {
            prop_assert!(chance.as_f64() <= 1.0);
        }
    }
}
