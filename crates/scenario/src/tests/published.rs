//! Tests that the published schema and pages describe the format that the reader reads.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::fields::ALL;
use super::super::results::columns::{self, Definition};
use super::super::{Document, python, reference, schema};
use super::{examples, published};

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Compares a published file with what it should be; with HEADEND_BLESS set, writes it instead.
fn assert_current(path: &str, expected: &str) {
    let file = repository(path);
    if std::env::var_os("HEADEND_BLESS").is_some() {
        fs::write(&file, expected).expect("the file can be written");
    }
    let published = fs::read_to_string(&file).expect("the file is published");
    assert!(published == expected, "{path} is not current: HEADEND_BLESS=1 cargo test -p headend-scenario published");
}

#[test]
fn the_published_schema_is_current() {
    assert_current("scenarios/schema.json", &schema::text());
}

#[test]
fn the_published_classes_of_python_are_current() {
    assert_current("python/headend/fields.py", &python::module());
}

#[test]
fn the_reference_page_has_every_field_of_the_reader() {
    let path = "docs/reference/scenario.md";
    let mut page = fs::read_to_string(repository(path)).expect("the page is published");
    for (heading, shape) in ALL {
        let start = format!("<!-- fields: {heading} -->\n");
        let from = page.find(&start).unwrap_or_else(|| panic!("{path} has no {start}")) + start.len();
        let to = from + page[from..].find("<!-- end -->").expect("the table ends");
        page.replace_range(from..to, &reference::table(shape));
    }
    assert_current(path, &page);
    for field in ALL.iter().flat_map(|(_, shape)| (shape.fields)()) {
        assert!(page.contains(&format!("| `{}` |", field.name)), "{} is on the page", field.name);
    }
}

#[test]
fn the_reference_page_of_columns_has_every_table_and_column() {
    let path = "docs/reference/columns.md";
    let mut page = fs::read_to_string(repository(path)).expect("the page is published");
    let start = "<!-- columns -->\n";
    let from = page.find(start).unwrap_or_else(|| panic!("{path} has no {start}")) + start.len();
    let to = page.find("<!-- end -->").expect("the tables end");
    page.replace_range(from..to, &columns::page());
    assert_current(path, &page);
}

#[test]
fn every_column_has_a_meaning_and_a_name_that_ends_in_its_unit() {
    for (table, _, definitions) in columns::all() {
        assert!(!definitions.is_empty(), "{table} has columns");
        for Definition { name, unit, meaning } in definitions {
            assert!(meaning.ends_with('.') && meaning.len() > 10, "{table}.{name} is defined: {meaning:?}");
            let ending = [("_s", "s"), ("_bps", "bit/s"), ("_bytes", "B"), ("_packets", "packets")];
            let named = ending.iter().find(|(suffix, _)| name.ends_with(suffix));
            assert!(named.is_none_or(|(_, says)| *says == unit), "{table}.{name} is in {unit}");
            assert!(
                unit != "s" && unit != "bit/s" || named.is_some(),
                "{table}.{name} does not say that it is in {unit}"
            );
        }
    }
}

#[test]
fn the_page_s_own_example_is_a_scenario() {
    let page = fs::read_to_string(repository("docs/reference/scenario.md")).expect("the page is published");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let document = Document::parse("scenario.md", example).expect("TOML");
    assert_eq!(document.points().unwrap_or_else(|error| panic!("{error}")).len(), 3);
}

#[test]
fn every_example_of_the_page_by_example_is_a_scenario() {
    let page = fs::read_to_string(repository("docs/reference/scenario-by-example.md")).expect("the page is published");
    let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 6);
    for example in examples {
        let points = Document::parse("scenario-by-example.md", example).expect("TOML").points();
        assert!(!points.unwrap_or_else(|error| panic!("{error}")).is_empty());
    }
}

/// The first reason why `value` does not satisfy `schema`, for the keywords that the schema uses and no others.
fn refused(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if *schema == Value::Bool(false) {
        return Some(format!("{value} where nothing may be"));
    }
    let keywords = schema.as_object().expect("a schema is an object");
    let check = |keyword: &str, rule: &Value| -> bool {
        let all = |rules: &Value| rules.as_array().expect("a list").clone();
        let passes = |schema: &Value, value: &Value| refused(root, schema, value).is_none();
        match keyword {
            "$schema" | "$id" | "title" | "description" | "default" | "$defs" | "then" => true,
            "$ref" => passes(root.pointer(&rule.as_str().expect("text")[1..]).expect("a definition"), value),
            "type" => {
                let of = |name: &Value| match name.as_str().expect("text") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    other => panic!("unknown type {other}"),
                };
                rule.as_array().map_or_else(|| of(rule), |names| names.iter().any(of))
            }
            "enum" => all(rule).contains(value),
            "const" => rule == value,
            "pattern" => value.as_str().is_none_or(|text| {
                regex_lite::Regex::new(rule.as_str().expect("text")).expect("a regular expression").is_match(text)
            }),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().expect("a number")),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().expect("a number")),
            "anyOf" => all(rule).iter().any(|schema| passes(schema, value)),
            "allOf" => all(rule).iter().all(|schema| passes(schema, value)),
            "if" => !passes(rule, value) || passes(&schema["then"], value),
            "required" => value
                .as_object()
                .is_none_or(|object| all(rule).iter().all(|name| object.contains_key(name.as_str().expect("text")))),
            "properties" => value.as_object().is_none_or(|object| {
                object.iter().all(|(name, value)| rule.get(name).is_none_or(|schema| passes(schema, value)))
            }),
            "additionalProperties" => value.as_object().is_none_or(|object| {
                let known = |name: &str| schema.pointer("/properties").is_some_and(|known| known.get(name).is_some());
                object.iter().filter(|(name, _)| !known(name)).all(|(_, value)| passes(rule, value))
            }),
            "propertyNames" => value
                .as_object()
                .is_none_or(|object| object.keys().all(|name| passes(rule, &Value::from(name.as_str())))),
            "items" => value.as_array().is_none_or(|items| items.iter().all(|item| passes(rule, item))),
            "prefixItems" => {
                value.as_array().is_none_or(|items| all(rule).iter().zip(items).all(|(rule, item)| passes(rule, item)))
            }
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().expect("a number")),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().expect("a number")),
            "uniqueItems" => value
                .as_array()
                .is_none_or(|items| items.iter().enumerate().all(|(i, item)| !items[..i].contains(item))),
            other => panic!("the schema uses {other}, which this test does not know"),
        }
    };
    keywords
        .iter()
        .find(|(keyword, rule)| !check(keyword, rule))
        .map(|(keyword, rule)| format!("{value}: {keyword} {rule}"))
}

#[test]
fn every_published_scenario_satisfies_the_schema() {
    let schema = schema::schema();
    for (name, text) in published() {
        let json = Document::parse(&name, &text).expect("TOML").to_json();
        assert_eq!(refused(&schema, &schema, &json), None, "{name}");
    }
}

#[test]
fn reader_and_schema_agree_on_what_a_value_may_be() {
    let schema = schema::schema();
    for (path, value) in [
        ("/runs", json!(0)),
        ("/runs", json!(3)),
        ("/duration", json!("5")),
        ("/duration", json!("5s")),
        ("/nodes/server/personality", json!("linux")),
        ("/nodes/server/personality", json!(7)),
        ("/nodes/server/tcp/mss", json!("536B")),
        ("/nodes/server/tcp/mss", json!(536)),
        ("/nodes/server/tcp/initial_window_segments", json!("rfc6928")),
        ("/nodes/server/tcp/initial_window_segments", json!("large")),
        ("/nodes/server/tcp/nothing", json!(1)),
        ("/nodes/server/kind", json!("switch")),
        ("/links/cable/rate", json!("1Mbit/s")),
        ("/links/cable/down/rate", json!("1 Mbit/s")),
        ("/links/cable/down/rate", json!("1Mbits")),
        ("/links/cable/modem_buffer", json!("7 packets")),
        ("/links/cable/modem_buffer", json!(7)),
        ("/links/cable/down/loss", json!(0.01)),
        ("/links/cable/down/loss", json!(1.01)),
        ("/links/cable/down/loss", json!({ "model": "bit", "rate": 1e-7 })),
        ("/links/cable/down/loss", json!({ "model": "bit" })),
        ("/links/cable/down/loss", json!({ "model": "list", "packets": [1, 1] })),
        ("/links/cable/down/loss", json!({ "model": "list", "packets": [1], "rate": 0.1 })),
        ("/links/cable/between", json!(["server"])),
        ("/flows/get/bytes", json!("unlimited")),
        ("/flows/get/bytes", json!(3_000)),
        ("/flows/get/handshake", json!(false)),
        ("/flows/get/header", json!("250B")),
        ("/flows/get/count", json!(3)),
        ("/flows/get/count", json!(0)),
        ("/nowhere", json!(0)),
    ] {
        let mut json = Document::parse("hfc.toml", examples()[0].1).expect("TOML").to_json();
        json["sweep"] = json!({});
        let (parent, field) = path.rsplit_once('/').expect("a path");
        json.pointer_mut(parent).expect("the table is there")[field] = value.clone();
        let read = Document::parse_json("hfc", &json.to_string()).expect("JSON").points();
        let refused = refused(&schema, &schema, &json);
        assert_eq!(
            read.is_err(),
            refused.is_some(),
            "{path} = {value}: the reader says {read:?}, the schema {refused:?}"
        );
    }
}
