//! The field tables of the reference page, made from the same table of fields as the reader.

use std::fmt::{Display, Write as _};

use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use super::fields::{Absent, Family, Field, Kind, PERSONALITY, SIZE_BYTES_MAX, Shape};
use super::tcp;

/// The fields of a shape as a Markdown table.
pub fn table(shape: &'static Shape) -> String {
    let mut text = String::from("| field | takes | default | meaning |\n|---|---|---|---|\n");
    // A personality has all fields of `tcp`; one table of those is enough.
    let is_personality = shape.name == PERSONALITY.name;
    let is_told = |field: &&Field| !is_personality || tcp::SHAPE.field(field.name).is_none();
    for field in (shape.fields)().iter().filter(is_told) {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            field.name,
            takes(&field.kind),
            absent(field),
            meaning(shape, field)
        );
    }
    if is_personality {
        text.push_str("| any field of [tcp](#tcp) | | the base's | What differs. |\n");
    }
    text
}

fn takes(kind: &Kind) -> String {
    match *kind {
        Kind::Rate => "rate, `\"25Mbit/s\"`".into(),
        Kind::Size { max: SIZE_BYTES_MAX, .. } => "size, `\"8KB\"`".into(),
        Kind::Size { min, max } => format!("size, {}", range(Bytes::new(min), Bytes::new(max))),
        Kind::SizeOr(word) => format!("size or `\"{word}\"`"),
        Kind::Span { min, max } => {
            format!("time, {}", range(Duration::from_nanos(min), Duration::from_nanos(max)))
        }
        Kind::Chance => "probability, `\"1%\"` or `0.01`".into(),
        Kind::Flag => "`true` or `false`".into(),
        Kind::Count { min, max } => format!("whole number, {min} to {max}"),
        Kind::CountOr { min, max, word } => format!("whole number, {min} to {max}, or `\"{word}\"`"),
        Kind::Choice(names) => format!("`\"{}\"`", names().join("\"`, `\"")),
        Kind::Text | Kind::Recording(_) | Kind::Cdf => "text".into(),
        Kind::Personality => "name of a personality".into(),
        Kind::Node => "name of a host".into(),
        Kind::Pair => "two names of nodes, `[\"server\", \"pc\"]`".into(),
        Kind::Capacity => "`\"7 packets\"`, a size, or `\"unlimited\"`".into(),
        Kind::Part(Family { shape, plain, steps, .. }) => {
            let steps = if steps.is_some() { ", [steps](#steps) of it" } else { "" };
            format!("{}{steps}, or a [{1}](#{1}) table", takes(plain), shape.name)
        }
        Kind::List(of) => format!("list: {}", takes(of)),
        Kind::Numbers => "list of numbers, `[11, 14]`".into(),
        Kind::Table(shape) => format!("table: {}", shape.name),
        Kind::Named(shape) => format!("a table per {}", shape.name),
        Kind::Sweep => "lists by path".into(),
    }
}

fn range(min: impl Display, max: impl Display) -> String {
    format!("`\"{min}\"` to `\"{max}\"`")
}

fn absent(field: &Field) -> String {
    match field.absent {
        Absent::Required => "required".into(),
        Absent::Is("") => "empty".into(),
        Absent::Is("{}") => "none".into(),
        Absent::Is(text) => match field.kind {
            Kind::Flag | Kind::Count { .. } => format!("`{text}`"),
            _ => format!("`\"{text}\"`"),
        },
        Absent::Follows(what) => what.into(),
    }
}

fn meaning(shape: &Shape, field: &Field) -> String {
    // Where parts say different things of a field, its text names them already.
    let is_named = |part: &&str| field.doc.starts_with(&format!("`{part}`: "));
    match (shape.tag, field.only) {
        (Some(_), [first, ..]) if is_named(first) => field.doc.to_owned(),
        (Some(tag), [_, ..]) => format!("With `{tag} = \"{}\"`: {}", field.only.join("\"` or `\""), field.doc),
        _ => field.doc.to_owned(),
    }
}
