//! Tests that the tables of fields agree with the engine and with themselves.

use headend_engine::cc::{Algorithm, cubic, fast, vegas};
use headend_engine::part::Value;
use headend_engine::tcp::personality::Personality;

use super::super::document::Data;
use super::super::fields::{ALL, Absent, Field, Kind};
use super::super::read::default_setting;
use super::super::tcp::{self, Draft, OPTIONS};

/// The members of a personality as `Debug` prints them, those of its parts with the part's name before.
fn members() -> Vec<String> {
    let text = format!("{:#?}", Personality::linux());
    let mut part = None;
    let mut members = Vec::new();
    for line in text.lines() {
        let name = line.trim().split(':').next().unwrap_or_default();
        match (line.len() - line.trim_start().len(), line.contains(": ")) {
            (4, true) if line.ends_with(" {") => {
                part = Some(name.to_owned());
            }
            (4, true) => members.push(name.to_owned()),
            (8, true) => members.extend(part.as_ref().map(|part| format!("{part}.{name}"))),
            _ => {}
        }
    }
    members
}

#[test]
fn every_field_of_a_personality_has_a_name_in_scenarios() {
    let members = members();
    assert!(members.len() > 20 && members.contains(&"rto.tick".to_owned()), "{members:?}");
    // That one is a part, whose fields come from a registry.
    for member in members.iter().filter(|member| *member != "controller") {
        let found = OPTIONS.iter().any(|option| option.member == Some(member));
        assert!(found, "Personality::{member} has no field in scenario::tcp::OPTIONS");
    }
    for option in OPTIONS {
        let Some(member) = option.member else { continue };
        assert!(members.iter().any(|known| known == member), "no Personality::{member} for {}", option.field.name);
    }
}

/// A value that the field takes, other than `shown`.
fn another(kind: Kind, shown: &str) -> Data {
    let of = |texts: &[&str]| Data::Text((*texts.iter().find(|text| **text != shown).expect("two values")).into());
    match kind {
        Kind::Flag => Data::Flag(shown != "true"),
        Kind::Count { .. } | Kind::CountOr { .. } => Data::Integer(if shown == "17" { 18 } else { 17 }),
        Kind::Choice(names) => of(&names()),
        Kind::Size { .. } => of(&["536B", "537B"]),
        Kind::Span { .. } => of(&["70ms", "71ms"]),
        other => panic!("no field of a personality takes {other:?}"),
    }
}

/// The fields that set one thing each: not those that set several at once.
fn single_fields() -> impl Iterator<Item = &'static Field> {
    let sets_several = |field: &&Field| OPTIONS.iter().any(|o| o.field.name == field.name && o.member.is_none());
    tcp::fields().iter().filter(move |field| !sets_several(field))
}

#[test]
fn every_tcp_field_changes_what_it_names_and_nothing_else() {
    for (name, make) in Personality::ALL {
        let before = Draft::from(make());
        for field in single_fields() {
            let data = another(field.kind, &before.show(field));
            let mut after = before.clone();
            after.set(field.name, field.kind.read(&data).expect("a value of the kind"));
            assert_eq!(after.show(field), data.shown(), "{name}: {}", field.name);
            for other in single_fields().filter(|other| other.name != field.name) {
                assert_eq!(after.show(other), before.show(other), "{name}: {} changed {}", field.name, other.name);
            }
        }
    }
}

#[test]
fn what_a_tcp_field_shows_is_what_it_takes() {
    for (name, make) in Personality::ALL {
        for field in single_fields() {
            let shown = Draft::from(make()).show(field);
            let data = match field.kind {
                Kind::Flag => Data::Flag(shown == "true"),
                Kind::Count { .. } | Kind::CountOr { .. } => shown.parse().map_or(Data::Text(shown), Data::Integer),
                _ => Data::Text(shown),
            };
            let read = field.kind.read(&data);
            assert!(read.is_ok(), "{name}: {} is {data:?}, expected {read:?}", field.name);
        }
    }
}

#[test]
fn a_controller_without_a_word_has_its_default_parameters() {
    let defaults: [Algorithm; 3] =
        [cubic::Parameters::DEFAULT.into(), fast::Parameters::DEFAULT.into(), vegas::Parameters::DEFAULT.into()];
    for algorithm in defaults {
        // Reno has no parameters that could be inherited.
        let mut draft = Draft::from(Personality::newreno());
        draft.set("controller", Value::Text(algorithm.name().to_owned()));
        assert_eq!(draft.finish().expect("defaults go together").controller, algorithm);
    }
}

#[test]
fn every_default_is_a_value_that_its_field_takes() {
    let mut read = 0;
    for field in ALL.iter().flat_map(|(_, shape)| (shape.fields)()) {
        let Absent::Is(text) = field.absent else { continue };
        if !matches!(field.kind, Kind::Table(_) | Kind::Named(_) | Kind::Sweep) {
            default_setting(field, text);
            read += 1;
        }
    }
    assert!(read > 10, "{read} defaults were read");
}

#[test]
fn every_field_says_what_it_means_and_is_named_once() {
    for (heading, shape) in ALL {
        let fields = (shape.fields)();
        for (i, field) in fields.iter().enumerate() {
            assert!(field.doc.ends_with('.'), "{heading}: {} has a sentence", field.name);
            assert!(fields[..i].iter().all(|other| other.name != field.name), "{heading}: {} twice", field.name);
        }
    }
}
