//! What the shapes say is true of the engine and of themselves.

use headend_engine::tcp::personality::Personality;

use super::super::fields::{ALL, Absent, Kind};
use super::super::read::default_setting;
use super::super::{Scenario, tcp};
use super::SMALL;

/// The members of a personality as `Debug` prints them, those of its parts with the part's name before.
fn members() -> Vec<String> {
    let text = format!("{:#?}", Personality::linux());
    let mut part = None;
    let mut members = Vec::new();
    for line in text.lines() {
        let name = line.trim().split(':').next().unwrap_or_default();
        match (line.len() - line.trim_start().len(), line.contains(": ")) {
            (4, true) if line.ends_with("Policy {") || line.ends_with("Ack {") || line.ends_with("Rules {") => {
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
        let found = tcp::OPTIONS.iter().any(|option| option.member == Some(member));
        assert!(found, "Personality::{member} has no field in scenario::tcp::OPTIONS");
    }
    for option in tcp::OPTIONS {
        let Some(member) = option.member else { continue };
        assert!(members.iter().any(|known| known == member), "no Personality::{member} for {}", option.field.name);
    }
}

#[test]
fn every_tcp_field_changes_what_it_shows_and_nothing_else() {
    for option in tcp::OPTIONS {
        let other = Personality::ALL.iter().map(|(_, make)| make()).find_map(|personality| {
            let shown = (option.show)(&personality);
            let differs = shown != (option.show)(&Personality::bsd_reno_1996());
            (differs && shown != "two sizes" && shown != "its own").then_some(shown)
        });
        // A field that no built-in personality varies is tried with a value of its kind.
        let value = other.unwrap_or_else(|| match option.field.kind {
            Kind::Flag => ((option.show)(&Personality::bsd_reno_1996()) != "true").to_string(),
            Kind::Choice(names) => names()[1].to_owned(),
            Kind::Count { .. } | Kind::CountOr { .. } => "17".into(),
            Kind::Size { .. } => "536B".into(),
            kind => panic!("{}: no other value of {kind:?} is known", option.field.name),
        });
        let quoted = if value.parse::<u64>().is_ok() || value == "true" || value == "false" {
            value.clone()
        } else {
            format!("\"{value}\"")
        };
        let text = format!("{SMALL}\n[personalities.x]\nbase = \"bsd-reno-1996\"\n{} = {quoted}\n", option.field.name);
        // The node's own fields keep the personality from contradicting itself.
        let text = text.replacen("personality = \"newreno\"", "personality = \"x\"", 1);
        let needs = match option.field.name {
            "recovery" => "tcp = { sack = true }",
            "rto_min" | "rto_max" => "tcp = { rto_max = \"1000s\" }",
            _ => "",
        };
        let text = text.replacen("personality = \"x\"", &format!("personality = \"x\"\n{needs}"), 1);
        let scenario = Scenario::parse("option.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let changed = super::personality(&scenario.nodes[0]);
        if needs.is_empty() || option.field.name != "rto_max" {
            assert_eq!((option.show)(changed), value, "{}", option.field.name);
        }
        for unchanged in tcp::OPTIONS.iter().filter(|other| {
            let of_set =
                |set: &str, part: &str| other.field.name.starts_with(part) && option.field.name.starts_with(set);
            let is_part =
                of_set("era", "era") || other.field.name.ends_with("buffer") && option.field.name.ends_with("buffer");
            let is_needed = ["sack", "rto_max"].contains(&other.field.name) && !needs.is_empty();
            other.field.name != option.field.name && !is_part && !is_needed
        }) {
            let before = (unchanged.show)(&Personality::bsd_reno_1996());
            assert_eq!((unchanged.show)(changed), before, "{} changed {}", option.field.name, unchanged.field.name);
        }
    }
}

#[test]
fn every_default_is_a_value_that_its_field_takes() {
    let mut read = 0;
    for field in ALL.iter().flat_map(|(_, shape)| (shape.fields)()) {
        let Absent::Is(text) = field.absent else { continue };
        if !matches!(field.kind, Kind::Table(_) | Kind::Named(_) | Kind::Sweep | Kind::Loss) {
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
