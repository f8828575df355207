//! What the shapes say is true of the engine and of themselves.

use headend_engine::tcp::personality::Personality;

use super::super::document::Data;
use super::super::fields::{ALL, Absent, Kind};
use super::super::read::default_setting;
use super::super::tcp::OPTIONS;

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
    for member in &members {
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

#[test]
fn every_tcp_field_changes_its_own_member_and_no_other() {
    for (name, make) in Personality::ALL {
        let before = make();
        for option in OPTIONS.iter().filter(|option| option.member.is_some()) {
            let data = another(option.field.kind, &(option.show)(&before));
            let mut after = before.clone();
            (option.set)(&mut after, option.field.kind.read(&data).expect("a value of the kind"));
            assert_eq!((option.show)(&after), data.shown(), "{name}: {}", option.field.name);
            let others = OPTIONS.iter().filter(|other| other.member.is_some() && other.member != option.member);
            for other in others {
                let unchanged = (other.show)(&after) == (other.show)(&before);
                assert!(unchanged, "{name}: {} changed {}", option.field.name, other.field.name);
            }
        }
    }
}

#[test]
fn what_a_tcp_field_shows_is_what_it_takes() {
    for (name, make) in Personality::ALL {
        for option in OPTIONS.iter().filter(|option| option.member.is_some()) {
            let shown = (option.show)(&make());
            let data = match option.field.kind {
                Kind::Flag => Data::Flag(shown == "true"),
                Kind::Count { .. } | Kind::CountOr { .. } => shown.parse().map_or(Data::Text(shown), Data::Integer),
                _ => Data::Text(shown),
            };
            let read = option.field.kind.read(&data);
            assert!(read.is_ok(), "{name}: {} is {data:?}, expected {read:?}", option.field.name);
        }
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
