//! Nodes of which there are many: `count = 3` for the node `pc` means the nodes `pc-0`, `pc-1` and `pc-2`, and a link or a flow
//! that names `pc[]` is one for each of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::document::{Data, Table, Value};
use super::error::{Place, Problem};
use super::fields::{FLOWS_MAX, NODES_MAX};
use super::read::Log;

/// The name of the field of a node that says how many there are.
const COUNT: &str = "count";

/// The document with each of many nodes in a table of its own, and a table for each link and flow that names them all. Flows
/// keep their name: the numbers are, of each flow's table, how many of its name come before it. Mistakes are added to `log`, and
/// what has one stays as it is.
pub(super) fn expanded<'a>(root: &'a Table, log: &Log) -> (Cow<'a, Table>, Vec<usize>) {
    let many = counted(root, log);
    if many.is_empty() {
        let flows = root.get("flows").and_then(Value::as_table).map_or(0, |flows| flows.0.len());
        return (Cow::Borrowed(root), vec![0; flows]);
    }
    let mut before = Vec::new();
    let expand = |(key, value): &(String, Value)| {
        let data = match (key.as_str(), &value.data) {
            ("nodes", Data::Table(nodes)) => Data::Table(nodes_of(nodes, &many, log)),
            ("links", Data::Table(links)) => {
                let all = each(links, "links", &["between"], &many, log);
                twice(&all, links, log);
                let name = |(name, number, link): (String, Option<usize>, Value)| match number {
                    Some(number) => (format!("{name}-{number}"), link),
                    None => (name, link),
                };
                Data::Table(Table(all.into_iter().map(name).collect()))
            }
            ("flows", Data::Table(flows)) => {
                let all = each(flows, "flows", &["from", "to", "via"], &many, log);
                before = all.iter().map(|(_, number, _)| number.unwrap_or(0)).collect();
                Data::Table(Table(all.into_iter().map(|(name, _, flow)| (name, flow)).collect()))
            }
            (_, data) => data.clone(),
        };
        (key.clone(), Value { place: value.place.clone(), data })
    };
    let table = Table(root.0.iter().map(expand).collect());
    (Cow::Owned(table), before)
}

/// Most values, tables included, that many nodes, links or flows may come to.
const VALUES_MAX: usize = 4_000_000;
/// Most routers of one table: each has a route to every node.
const ROUTERS_MAX: usize = 1_000;

/// How many there are, by the names of nodes that have a `count`.
type Many<'a> = BTreeMap<&'a str, usize>;

fn counted<'a>(root: &'a Table, log: &Log) -> Many<'a> {
    let nodes = root.get("nodes").and_then(Value::as_table);
    let mut many = Many::new();
    let mut all = 0;
    for (name, value) in nodes.into_iter().flat_map(|nodes| &nodes.0) {
        let Some(count) = value.as_table().and_then(|node| node.get(COUNT)) else { continue };
        // Another value is told by whoever reads the node.
        let Data::Integer(number @ 1..) = count.data else { continue };
        let Ok(number) = usize::try_from(number) else { continue };
        all += number;
        let node = value.as_table();
        let is_router = node.and_then(|node| node.get("kind")).is_some_and(|kind| kind.data.shown() != "host");
        let values = number.saturating_mul(value.data.values());
        let text = if all > NODES_MAX {
            format!("makes {all} nodes, and {NODES_MAX} are possible")
        } else if is_router && number > ROUTERS_MAX {
            format!("makes {number} nodes with routes to all, and {ROUTERS_MAX} are possible")
        } else if values > VALUES_MAX {
            format!("makes {values} values, and {VALUES_MAX} are possible")
        } else {
            many.insert(name, number);
            continue;
        };
        log.add(&count.place, format!("nodes.{name}.{COUNT}"), Problem::Contradiction(text));
        return Many::new();
    }
    many
}

fn nodes_of(nodes: &Table, many: &Many<'_>, log: &Log) -> Table {
    let mut all = Vec::new();
    for (name, value) in &nodes.0 {
        let (Some(&count), Data::Table(node)) = (many.get(name.as_str()), &value.data) else {
            let copied = name.rsplit_once('-').and_then(|(of, number)| Some((of, number.parse::<usize>().ok()?)));
            if let Some((of, number)) = copied
                && many.get(of).is_some_and(|&count| number < count)
            {
                let text = format!("is one of the nodes that `count` of \"{of}\" makes");
                log.add(&value.place, format!("nodes.{name}"), Problem::Contradiction(text));
            }
            all.push((name.clone(), value.clone()));
            continue;
        };
        let fields = node.0.iter().filter(|(key, _)| key != COUNT).cloned().collect();
        let node = Value { place: value.place.clone(), data: Data::Table(Table(fields)) };
        all.extend((0..count).map(|number| (format!("{name}-{number}"), node.clone())));
    }
    Table(all)
}

/// The tables by their names, one for each of the nodes that one of `fields` names with `[]`, with its number.
fn each(
    tables: &Table,
    what: &str,
    fields: &[&str],
    many: &Many<'_>,
    log: &Log,
) -> Vec<(String, Option<usize>, Value)> {
    let mut all = Vec::new();
    let mut values = 0_usize;
    for (name, value) in &tables.0 {
        let Data::Table(table) = &value.data else {
            all.push((name.clone(), None, value.clone()));
            continue;
        };
        let named: Vec<(&str, &Place, &str)> = fields.iter().flat_map(|field| texts(table, field)).collect();
        let mut count = None;
        for (field, place, text) in named {
            let wrong = |text| log.add(place, format!("{what}.{name}.{field}"), Problem::Contradiction(text));
            let Some(&of) = many.get(text.trim_end_matches("[]")) else { continue };
            if !text.ends_with("[]") {
                wrong(format!("\"{text}\" is {of} nodes: \"{text}[]\" is each of them, and \"{text}-0\" the first"));
            } else if count.is_some_and(|count| count != of) {
                let text = format!("\"{text}\" is {of} nodes, and the other end {}", count.unwrap_or_default());
                wrong(text);
            } else {
                count = Some(of);
            }
        }
        let Some(count) = count else {
            all.push((name.clone(), None, value.clone()));
            continue;
        };
        values = values.saturating_add(count.saturating_mul(value.data.values()));
        if all.len() + count > FLOWS_MAX as usize || values > VALUES_MAX {
            let text =
                format!("makes {count} {what} with {values} values so far; {FLOWS_MAX} and {VALUES_MAX} are possible");
            log.add(&value.place, format!("{what}.{name}"), Problem::Contradiction(text));
            return Vec::new();
        }
        for number in 0..count {
            let own = table.0.iter().map(|(key, value)| (key.clone(), numbered(key, value, fields, number)));
            let own = Value { place: value.place.clone(), data: Data::Table(Table(own.collect())) };
            all.push((name.clone(), Some(number), own));
        }
    }
    all
}

/// Reports links that have the name of one that is made of another.
fn twice(all: &[(String, Option<usize>, Value)], links: &Table, log: &Log) {
    for (name, number, _) in all {
        let Some(number) = number else { continue };
        let made = format!("{name}-{number}");
        if let Some(value) = links.get(&made) {
            let text = format!("is one of the links that \"{name}\" makes");
            log.add(&value.place, format!("links.{made}"), Problem::Contradiction(text));
            return;
        }
    }
}

/// The texts of a field, which may be one or a list of them.
fn texts<'a>(table: &'a Table, field: &'a str) -> Vec<(&'a str, &'a Place, &'a str)> {
    let text = |value: &'a Value| match &value.data {
        Data::Text(text) => Some((field, &value.place, text.as_str())),
        _ => None,
    };
    match table.get(field) {
        Some(Value { data: Data::List(items), .. }) => items.iter().filter_map(text).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    }
}

/// A field's value with the number in place of `[]`.
fn numbered(key: &str, value: &Value, fields: &[&str], number: usize) -> Value {
    if !fields.contains(&key) {
        return value.clone();
    }
    let of = |value: &Value| {
        let data = match &value.data {
            Data::Text(text) => match text.strip_suffix("[]") {
                Some(name) => Data::Text(format!("{name}-{number}")),
                None => Data::Text(text.clone()),
            },
            other => other.clone(),
        };
        Value { place: value.place.clone(), data }
    };
    match &value.data {
        Data::List(items) => Value { place: value.place.clone(), data: Data::List(items.iter().map(of).collect()) },
        _ => of(value),
    }
}
