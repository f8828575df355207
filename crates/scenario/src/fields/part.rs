//! Tables that describe one of several parts: the fields of all of them, each with the parts that have it.

use headend_engine::part::{self, Description};

use super::{Field, Kind};

/// The fields of a table whose tag names one of `parts`: the tag, which is told to mean what each of them is, and then every
/// field of every part once. A field that not all of them have applies to those that have it.
///
/// # Panics
/// If parts share a field and do not agree on what it takes, or on what holds without it: a schema could not say so.
pub(crate) fn of_family(tag: Field, parts: &'static [Description]) -> Vec<Field> {
    let meanings: Vec<String> = parts.iter().map(|part| format!("`{}`: {}", part.name, part.doc)).collect();
    let mut fields = vec![Field { doc: kept(meanings.join(" ")), ..tag }];
    for field in parts.iter().flat_map(|part| part.fields) {
        if !fields.iter().any(|known| known.name == field.name) {
            fields.push(shared(field.name, parts));
        }
    }
    fields
}

/// The fields of several kinds of one thing, given by their names, each field once, with the kinds that have it.
///
/// # Panics
/// If kinds share a field and do not agree on it.
pub(crate) fn of_kinds(things: &str, kinds: &[(&'static str, &'static [Field])]) -> Vec<Field> {
    let mut all: Vec<Field> = Vec::new();
    for field in kinds.iter().flat_map(|(_, fields)| *fields) {
        if all.iter().any(|known| known.name == field.name) {
            continue;
        }
        let having = kinds.iter().filter_map(|(kind, fields)| {
            let own = fields.iter().find(|own| own.name == field.name)?;
            assert!(own.is_the_same_as(field), "`{}` is the same in all kinds of {things} that have it", field.name);
            Some(*kind)
        });
        let having: Vec<&'static str> = having.collect();
        let only: &'static [&'static str] = if having.len() == kinds.len() { &[] } else { having.leak() };
        all.push(Field { only, ..*field });
    }
    all
}

/// The field of this name, of all parts that have it.
fn shared(name: &'static str, parts: &'static [Description]) -> Field {
    let of = |part: &'static Description| part.fields.iter().find(|field| field.name == name);
    let having: Vec<(&str, &part::Field)> = parts.iter().filter_map(|part| Some((part.name, of(part)?))).collect();
    let (first_part, first) = having[0];
    let takes = |field: &part::Field| (Kind::from(field.kind).expected(), field.absent);
    for (part, field) in &having[1..] {
        assert_eq!(takes(field), takes(first), "`{name}` of \"{part}\" is what it is of \"{first_part}\"");
    }
    let is_the_same = having.iter().all(|(_, field)| field.doc == first.doc);
    let docs = having.iter().map(|(part, field)| format!("`{part}`: {}", field.doc));
    let doc = if is_the_same { first.doc } else { kept(docs.collect::<Vec<_>>().join(" ")) };
    let only: Vec<&'static str> = having.iter().map(|(part, _)| *part).collect();
    let only: &'static [&'static str] = if having.len() == parts.len() { &[] } else { only.leak() };
    Field { name, kind: first.kind.into(), absent: first.absent, only, doc }
}

/// The text for as long as the program runs: tables of fields are made once.
fn kept(text: String) -> &'static str {
    text.leak()
}
