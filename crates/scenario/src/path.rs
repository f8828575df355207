//! The path language: `links.cable.down.loss` names a field, for `--set` and for sweeps alike.
//!
//! A `*` in the place of a node's, link's or flow's name stands for all of them (among nodes: all hosts).

use super::document::{Data, Document, Table, Value};
use super::error::{Error, Mistake, Place, Problem};
use super::fields::{self, Kind, Shape};

/// Deepest path that a field can have, and more.
const STEPS_MAX: usize = 8;

impl Document {
    /// Sets the field at `path` to `text`: TOML if it parses as such, else the text itself. Fields may be new, names of
    /// nodes, links, flows and personalities may not. A sweep over the same path ends: who sets a field wants that value.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), Error> {
        self.set_value(path, &Value::from_request(Place::Request("set".into()), text))?;
        self.end_sweep(path);
        Ok(())
    }

    /// The place of the field at `path`, or of as much of the path as the document has.
    pub fn place_of(&self, path: &str) -> Place {
        let (mut table, mut place) = (&self.root, Place::Line { file: self.name.clone(), line: 0 });
        for step in path.split('.') {
            let Some(value) = table.get(step) else { break };
            place = value.place.clone();
            let Data::Table(inner) = &value.data else { break };
            table = inner;
        }
        place
    }

    fn end_sweep(&mut self, path: &str) {
        let sweep = self.root.0.iter_mut().find(|(name, _)| name == "sweep");
        if let Some((_, Value { data: Data::Table(swept), .. })) = sweep {
            swept.0.retain(|(swept, _)| swept != path);
        }
    }

    pub(super) fn set_value(&mut self, path: &str, value: &Value) -> Result<(), Error> {
        let steps: Vec<&str> = path.split('.').collect();
        if steps.len() > STEPS_MAX {
            let problem = Problem::Contradiction(format!("no field is {STEPS_MAX} names deep"));
            return Err(wrong(value, path, problem));
        }
        if steps[0] == "sweep" {
            let text = "a sweep is no single value; ask for a sweep of the field instead".into();
            return Err(wrong(value, path, Problem::Contradiction(text)));
        }
        Walk { steps, value }.fields(0, &fields::ROOT, &mut self.root)
    }
}

fn wrong(value: &Value, field: &str, problem: Problem) -> Error {
    Error::from(Mistake { place: value.place.clone(), field: field.to_owned(), problem })
}

/// A value on its way to its field.
struct Walk<'a> {
    steps: Vec<&'a str>,
    value: &'a Value,
}

impl Walk<'_> {
    /// The path up to and with step `depth`.
    fn so_far(&self, depth: usize) -> String {
        self.steps[..=depth].join(".")
    }

    fn wrong<T>(&self, depth: usize, problem: Problem) -> Result<T, Error> {
        Err(wrong(self.value, &self.so_far(depth), problem))
    }

    /// Step `depth` is a field of `table`.
    fn fields(&self, depth: usize, shape: &'static Shape, table: &mut Table) -> Result<(), Error> {
        let name = self.steps[depth];
        let Some(field) = shape.field(name) else {
            let tag = shape.tag.and_then(|tag| table.get(tag)).map(|value| value.data.shown());
            let allowed = shape.fields_with(tag.as_deref()).map(|field| field.name);
            return self.wrong(depth, Problem::unknown("field", name, allowed));
        };
        let is_last = depth + 1 == self.steps.len();
        if is_last {
            table.put(name, self.value.clone());
            return Ok(());
        }
        let inner = match field.kind {
            Kind::Table(shape) => shape,
            Kind::Named(shape) => return self.named(depth + 1, shape, table.get_or_insert(name, || self.empty())),
            Kind::Part(family) => &family.shape,
            _ => {
                let text = format!("has no fields; it takes {}", field.kind.expected());
                return self.wrong(depth, Problem::Contradiction(text));
            }
        };
        match &mut table.get_or_insert(name, || self.empty()).data {
            Data::Table(table) => self.fields(depth + 1, inner, table),
            other => {
                let text = format!("is {} and no table; set it whole", other.found());
                self.wrong(depth, Problem::Contradiction(text))
            }
        }
    }

    /// Step `depth` is the name of one of the tables in `value`, or `*`.
    fn named(&self, depth: usize, shape: &'static Shape, value: &mut Value) -> Result<(), Error> {
        let name = self.steps[depth];
        let is_last = depth + 1 == self.steps.len();
        let Data::Table(tables) = &mut value.data else {
            let text = format!("is {} and no table", value.data.found());
            return self.wrong(depth - 1, Problem::Contradiction(text));
        };
        let mut found = false;
        for (known, value) in &mut tables.0 {
            let is_router = value
                .as_table()
                .and_then(|table| table.get("kind"))
                .is_some_and(|kind| matches!(&kind.data, Data::Text(kind) if kind == "router"));
            if known != name && (name != "*" || is_router) {
                continue;
            }
            found = true;
            match &mut value.data {
                _ if is_last => *value = self.value.clone(),
                Data::Table(table) => self.fields(depth + 1, shape, table)?,
                other => {
                    let text = format!("is {} and no table", other.found());
                    return self.wrong(depth, Problem::Contradiction(text));
                }
            }
        }
        if found {
            return Ok(());
        }
        let allowed = tables.0.iter().map(|(name, _)| name.as_str());
        self.wrong(depth, Problem::unknown(shape.name, name, allowed))
    }

    fn empty(&self) -> Value {
        Value { place: self.value.place.clone(), data: Data::Table(Table::default()) }
    }
}
