//! The tables of a scenario as Python classes, typed field by field: `python/headend/fields.py`. They are made from the same
//! table of fields as the reader, so an editor that knows types completes and checks what a scenario may say.

use std::fmt::Write as _;

use super::fields::{ALL, Absent, Family, Field, Kind, ROOT, Shape};

const HEAD: &str = r#""""The tables of a scenario as classes, a typed attribute for each field; `headend.Scenario` is made of them.

Made from the reader's own table of fields, by `HEADEND_BLESS=1 cargo test -p headend-scenario published`: change nothing here.
A rate is text such as "25Mbit/s", a size "8KB", a span of time "20ms", a probability "1%" or 0.01.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from headend.section import Section, Tables

"#;

/// Python's keywords among the names of fields.
const KEYWORDS: &[&str] = &["from"];

/// The module with a class for each table.
pub fn module() -> String {
    let mut text = String::from(HEAD);
    let names: Vec<String> = ALL.iter().map(|(_, shape)| format!("\"{}\"", class(shape))).collect();
    let _ = writeln!(text, "__all__ = [{}]", names.join(", "));
    for (heading, shape) in ALL {
        text.push_str(&of_shape(heading, shape));
    }
    text
}

/// A class of its own for the top level: `headend.Scenario` adds what can be done with it.
fn class(shape: &Shape) -> String {
    if shape.name == ROOT.name {
        return "Root".to_owned();
    }
    shape.name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

fn of_shape(heading: &str, shape: &'static Shape) -> String {
    let fields = (shape.fields)();
    let mut text =
        format!("\n\nclass {}(Section):\n    \"\"\"A table of a scenario: {heading}.\"\"\"\n\n", class(shape));
    let names: Vec<String> = fields.iter().map(|field| format!("\"{}\"", field.name)).collect();
    let _ = writeln!(text, "    _kind: ClassVar[str] = \"{}\"", shape.name);
    let _ = writeln!(text, "    _fields: ClassVar[tuple[str, ...]] = ({},)", names.join(", "));
    let held: Vec<String> =
        fields.iter().filter_map(|field| Some(format!("\"{}\": {}", field.name, held(&field.kind)?))).collect();
    let _ = writeln!(text, "    _held: ClassVar[Mapping[str, tuple[str, str]]] = {{{}}}\n", held.join(", "));
    for field in fields {
        let _ = writeln!(text, "    {}: {}", attribute(field), attribute_type(&field.kind));
        let _ = writeln!(text, "    \"\"\"{}\"\"\"", documentation(shape, field));
    }
    text.push_str("\n    def __init__(\n        self,\n        *,\n");
    for field in fields {
        let _ = writeln!(text, "        {}: {} | None = None,", attribute(field), taken(&field.kind));
    }
    text.push_str("    ) -> None:\n        self._take(locals())\n");
    text
}

/// How the field holds tables, if it does, and of which class.
fn held(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Table(shape) => Some(format!("(\"table\", \"{}\")", class(shape))),
        Kind::Named(shape) => Some(format!("(\"tables\", \"{}\")", class(shape))),
        Kind::Part(family) => Some(format!("(\"part\", \"{}\")", class(&family.shape))),
        _ => None,
    }
}

fn attribute(field: &Field) -> String {
    if KEYWORDS.contains(&field.name) { format!("{}_", field.name) } else { field.name.to_owned() }
}

fn attribute_type(kind: &Kind) -> String {
    match kind {
        Kind::Table(shape) => class(shape),
        Kind::Named(shape) => format!("Tables[{}]", class(shape)),
        _ => format!("{} | None", taken(kind)),
    }
}

/// The type of what may be given for a field.
fn taken(kind: &Kind) -> String {
    match kind {
        Kind::Flag => "bool".to_owned(),
        Kind::Count { .. } => "int".to_owned(),
        Kind::CountOr { word, .. } => format!("int | Literal[\"{word}\"]"),
        Kind::Chance => "float | str".to_owned(),
        Kind::Choice(names) => format!("Literal[\"{}\"]", names().join("\", \"")),
        Kind::Pair => "Sequence[str]".to_owned(),
        Kind::Part(Family { shape, plain, steps, .. }) => {
            let steps = if steps.is_some() { " | Sequence[Sequence[Any]]" } else { "" };
            format!("{}{steps} | {} | Mapping[str, Any]", taken(plain), class(shape))
        }
        Kind::List(of) => format!("Sequence[{}]", taken(of)),
        Kind::Numbers => "Sequence[int]".to_owned(),
        Kind::Table(shape) => format!("{} | Mapping[str, Any]", class(shape)),
        Kind::Named(shape) => format!("Mapping[str, {} | Mapping[str, Any]]", class(shape)),
        Kind::Sweep => "dict[str, Any]".to_owned(),
        Kind::Text
        | Kind::Rate
        | Kind::Size { .. }
        | Kind::SizeOr(_)
        | Kind::Span { .. }
        | Kind::Personality
        | Kind::Node
        | Kind::Capacity
        | Kind::Recording(_)
        | Kind::Cdf => "str".to_owned(),
    }
}

fn documentation(shape: &Shape, field: &Field) -> String {
    let only = match (shape.tag, field.only) {
        (Some(tag), [_, ..]) => format!("With {tag} {}: ", field.only.join(" or ")),
        _ => String::new(),
    };
    let absent = match field.absent {
        Absent::Required => " Required.".to_owned(),
        Absent::Is("" | "{}") => String::new(),
        Absent::Is(text) => format!(" Default: {text}."),
        Absent::Follows(what) => format!(" Default: {what}."),
    };
    format!("{only}{}{absent}", field.doc).replace('\\', "\\\\").replace('"', "'")
}
