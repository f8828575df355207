//! The scenario file as a JSON Schema (draft 2020-12), for editors and other programs. It is made from the same table of
//! fields as the reader; what the reader checks besides (names that exist, values together) no schema says.

use serde_json::{Map, Value, json};

use super::fields::{self, Absent, Field, Kind, Shape};

/// The path of the published schema, relative to the scenarios.
pub const ID: &str = "schema.json";

/// A decimal number and one of some units, as `quantity` reads them.
const RATE: &str = r"^[0-9]+(\.[0-9]+)? ?(bit/s|kbit/s|Mbit/s|Gbit/s|Tbit/s)$";
const SIZE: &str = r"^[0-9]+(\.[0-9]+)? ?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB)$";
const SPAN: &str = r"^[0-9]+(\.[0-9]+)? ?(ns|us|µs|ms|s|min|h)$";
const CHANCE: &str = r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)? ?%?$";
const QUEUE: &str = r"^(unlimited|[0-9]+ ?packets?|[0-9]+(\.[0-9]+)? ?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB))$";
const NAME: &str = "^[A-Za-z0-9_-]{1,64}$";
const NODE_NAME: &str = r"^[A-Za-z0-9_-]{1,64}(\[\])?$";

/// The JSON Schema of scenario files.
pub fn schema() -> Value {
    let mut root = Map::new();
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("$id".into(), ID.into());
    root.insert("title".into(), "A headend scenario".into());
    root.extend(object(&fields::ROOT));
    let inner = fields::ALL.iter().map(|(_, shape)| *shape).filter(|shape| shape.name != fields::ROOT.name);
    let definitions: Map<String, Value> =
        inner.map(|shape| (shape.name.to_owned(), Value::Object(object(shape)))).collect();
    root.insert("$defs".into(), definitions.into());
    Value::Object(root)
}

/// The schema as the text that is published.
pub fn text() -> String {
    format!("{:#}\n", schema())
}

fn object(shape: &'static Shape) -> Map<String, Value> {
    let fields = (shape.fields)();
    let properties: Map<String, Value> = fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let mut object = Map::new();
    object.insert("type".into(), "object".into());
    object.insert("properties".into(), properties.into());
    object.insert("additionalProperties".into(), false.into());
    let required = |field: &&Field| field.absent == Absent::Required && field.only.is_empty();
    let required: Vec<&str> = fields.iter().filter(required).map(|field| field.name).collect();
    if !required.is_empty() && is_whole(shape) {
        object.insert("required".into(), required.into());
    }
    if let Some(tag) = shape.tag {
        object.insert("allOf".into(), variants(shape, tag).into());
    }
    object
}

/// True if what the table requires must stand in it. Elsewhere a sweep may give the field instead.
fn is_whole(shape: &Shape) -> bool {
    [fields::ROOT.name, fields::LOSS.shape.name, fields::RATE.shape.name, fields::QUEUE.shape.name]
        .contains(&shape.name)
}

/// Lists, for each value of the tag, the fields that it forbids and those that it needs.
fn variants(shape: &'static Shape, tag: &'static str) -> Vec<Value> {
    let tag_field = shape.field(tag).expect("a shape has its tag");
    let Kind::Choice(names) = tag_field.kind else { panic!("a tag is a choice") };
    let variant = |name: &str| {
        let others = (shape.fields)().iter().filter(|field| !field.applies(name));
        let forbidden: Map<String, Value> = others.map(|field| (field.name.to_owned(), false.into())).collect();
        // Without the tag its default holds.
        let is_default = matches!(tag_field.absent, Absent::Is(default) if default == name);
        let mut condition = json!({ "properties": { tag: { "const": name } } });
        if !is_default {
            condition["required"] = json!([tag]);
        }
        let mut then = json!({ "properties": forbidden });
        let needed = (shape.fields)().iter();
        let needed = needed.filter(|f| f.absent == Absent::Required && f.applies(name) && !f.only.is_empty());
        let needed: Vec<&str> = needed.map(|field| field.name).collect();
        if !needed.is_empty() && is_whole(shape) {
            then["required"] = needed.into();
        }
        json!({ "if": condition, "then": then })
    };
    names().into_iter().map(variant).collect()
}

fn property(field: &Field) -> Value {
    let mut property = kind(&field.kind);
    let mut doc = field.doc.to_owned();
    if let Absent::Follows(what) = field.absent {
        doc.push_str(&format!(" Default: {}.", what.replace('`', "")));
    }
    property["description"] = doc.into();
    if let Absent::Is(text) = field.absent
        && let Some(default) = default(&field.kind, text)
    {
        property["default"] = default;
    }
    property
}

fn default(kind: &Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Flag => Some((text == "true").into()),
        Kind::Count { .. } | Kind::CountOr { .. } => Some(text.parse::<u64>().map_or(text.into(), Into::into)),
        Kind::Table(_) | Kind::Named(_) | Kind::Sweep => None,
        _ => Some(text.into()),
    }
}

fn kind(of: &Kind) -> Value {
    let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    let steps = |value: Value| {
        let step = json!({ "type": "array", "prefixItems": [pattern(SPAN), value], "minItems": 2, "maxItems": 2 });
        json!({ "type": "array", "items": step, "minItems": 1 })
    };
    match *of {
        Kind::Text | Kind::Personality | Kind::Recording(_) | Kind::Cdf => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::CountOr { min, max, word } => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, { "const": word }] })
        }
        Kind::Rate => pattern(RATE),
        Kind::Size { .. } => pattern(SIZE),
        Kind::SizeOr(word) => json!({ "anyOf": [pattern(SIZE), { "const": word }] }),
        Kind::Span { .. } => pattern(SPAN),
        Kind::Chance => json!({ "anyOf": [pattern(CHANCE), { "type": "number", "minimum": 0, "maximum": 1 }] }),
        Kind::Choice(names) => json!({ "enum": names() }),
        Kind::Node => pattern(NODE_NAME),
        Kind::Pair => json!({ "type": "array", "items": pattern(NODE_NAME), "minItems": 2, "maxItems": 2 }),
        Kind::Capacity => pattern(QUEUE),
        Kind::Part(family) => {
            let plain = kind(&family.plain);
            let mut any = plain["anyOf"].as_array().cloned().unwrap_or_else(|| vec![plain.clone()]);
            any.extend(family.steps.map(|_| steps(plain)));
            any.push(json!({ "$ref": format!("#/$defs/{}", family.shape.name) }));
            json!({ "anyOf": any })
        }
        Kind::List(of) => json!({ "type": "array", "items": kind(of), "minItems": 1 }),
        Kind::Numbers => json!({
            "type": "array",
            "items": { "type": "integer", "minimum": 1 },
            "uniqueItems": true
        }),
        Kind::Table(shape) => json!({ "$ref": format!("#/$defs/{}", shape.name) }),
        Kind::Named(shape) => json!({
            "type": "object",
            "propertyNames": { "pattern": NAME },
            "additionalProperties": { "$ref": format!("#/$defs/{}", shape.name) }
        }),
        // A list for a path, or tables on the way to one.
        Kind::Sweep => json!({ "type": "object", "additionalProperties": { "type": ["array", "object"] } }),
    }
}
