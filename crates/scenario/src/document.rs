//! A scenario as written: a tree of values that remember where they stand, before anything is understood of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use headend_engine::tcp::personality::Personality;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::error::{Error, MISTAKES_MAX, Mistake, Mistakes, Place, Problem};
use super::recording::Recordings;

/// Largest scenario file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// A scenario file as a tree. Values can be changed by path before it is read.
#[derive(Clone, Debug)]
pub struct Document {
    /// The name that messages give it.
    pub(super) name: Arc<str>,
    /// The fields of the top level.
    pub(super) root: Table,
    /// The recordings that it names.
    pub(super) recordings: Recordings,
    /// The personalities that it may name beside the built-in ones and its own.
    pub(super) personalities: BTreeMap<String, Personality>,
    /// The use that is to be made of it.
    pub(super) purpose: Purpose,
}

/// The uses that are made of a document, which say what its flows may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Flows that can be simulated, at least one.
    Simulation,
    /// Flows of all kinds, at least one.
    RealHosts,
    /// Flows do not matter, and there need not be any.
    Links,
}

/// Fields in the order of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(pub(super) Vec<(String, Value)>);

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) place: Place,
    pub(super) data: Data,
}

/// A value as it was written, before it is read as anything.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Text(String),
    Integer(i128),
    /// A number with a fraction, kept as text: a decimal fraction must not become a binary one on the way.
    Float(String),
    Flag(bool),
    List(Vec<Value>),
    Table(Table),
    /// Something that no field takes: a date, or JSON's null.
    Other(String),
}

impl Document {
    /// Reads a TOML file of at most [`FILE_BYTES_MAX`].
    pub fn load(path: &Path) -> Result<Document, Error> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| failed(io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text")))?;
        Ok(Document::parse(&path.display().to_string(), &text)?.beside(path))
    }

    /// Reads TOML text; messages call it `name`.
    pub fn parse(name: &str, text: &str) -> Result<Document, Error> {
        let name: Arc<str> = name.into();
        check_length(&name, text)?;
        let lines = Lines::new(name.clone(), text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let listed = errors.iter().take(MISTAKES_MAX).map(|error| Mistake {
                place: lines.place(error.span().map_or(0, |span| span.start)),
                field: String::new(),
                problem: Problem::Syntax(format!("not TOML: {}", error.message())),
            });
            return Err(Error::Wrong(Mistakes {
                listed: listed.collect(),
                more: errors.len().saturating_sub(MISTAKES_MAX),
            }));
        }
        Ok(Document::new(name, lines.table(table.get_ref())))
    }

    /// Reads JSON text, the same fields as in TOML; messages call it `name`. Other than in TOML no lines are known.
    pub fn parse_json(name: &str, text: &str) -> Result<Document, Error> {
        let name: Arc<str> = name.into();
        check_length(&name, text)?;
        let json = serde_json::from_str(text).map_err(|error| {
            let place = Place::Line { file: name.clone(), line: error.line() };
            Error::from(Mistake { place, field: String::new(), problem: Problem::Syntax(format!("not JSON: {error}")) })
        })?;
        let place = Place::Line { file: name.clone(), line: 0 };
        match Value::from_json(&place, json).data {
            Data::Table(root) => Ok(Document::new(name, root)),
            other => Err(Error::from(Mistake {
                place,
                field: String::new(),
                problem: Problem::Value { found: other.inline(), expected: "an object".into() },
            })),
        }
    }

    /// The same, as if it stood in the file `path`: recordings that it names are looked for beside that.
    pub fn beside(mut self, path: &Path) -> Document {
        self.recordings = Recordings::beside(path);
        self
    }

    /// The same that need not have flows: for whoever runs its links alone.
    pub fn of_links_alone(mut self) -> Document {
        self.purpose = Purpose::Links;
        self
    }

    /// The same that may have flows which only real hosts can run: for whoever has such hosts. The simulator refuses the scenario
    /// then by a panic, not with an error.
    pub fn for_real_hosts(mut self) -> Document {
        self.purpose = Purpose::RealHosts;
        self
    }

    fn new(name: Arc<str>, root: Table) -> Document {
        Document {
            name,
            root,
            recordings: Recordings::default(),
            personalities: BTreeMap::new(),
            purpose: Purpose::Simulation,
        }
    }

    /// Makes a personality known under `name`, for one that no file can describe: with a
    /// [controller of one's own](headend_engine::cc#a-controller-of-ones-own), say. Nodes name it as they name built-in ones.
    pub fn add_personality(&mut self, name: &str, personality: Personality) {
        self.personalities.insert(name.to_owned(), personality);
    }

    /// The document as TOML text; comments of the file are not kept.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let (tables, plain): (Vec<_>, Vec<_>) = self.root.0.iter().partition(|(_, value)| value.as_table().is_some());
        for (key, value) in plain {
            let _ = writeln!(text, "{} = {}", bare_or_quoted(key), value.data.inline());
        }
        for (key, value) in tables {
            let Data::Table(table) = &value.data else { continue };
            let is_named = key != "sweep" && table.0.iter().all(|(_, value)| value.as_table().is_some());
            if is_named && !table.0.is_empty() {
                for (name, value) in &table.0 {
                    let Data::Table(fields) = &value.data else { continue };
                    let _ = writeln!(text, "\n[{}.{}]", bare_or_quoted(key), bare_or_quoted(name));
                    fields.write_lines(&mut text);
                }
            } else {
                let _ = writeln!(text, "\n[{}]", bare_or_quoted(key));
                table.write_lines(&mut text);
            }
        }
        text
    }

    /// The document as JSON, the fields in order.
    pub fn to_json(&self) -> serde_json::Value {
        self.root.to_json()
    }
}

fn check_length(name: &Arc<str>, text: &str) -> Result<(), Error> {
    if text.len() <= FILE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::from(Mistake {
        place: Place::Line { file: name.clone(), line: 0 },
        field: String::new(),
        problem: Problem::Value { found: "a longer text".into(), expected: format!("at most {FILE_BYTES_MAX} bytes") },
    }))
}

impl Table {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value of `key`, made by `make` if there is none.
    pub(super) fn get_or_insert(&mut self, key: &str, make: impl FnOnce() -> Value) -> &mut Value {
        let index = self.0.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            self.0.push((key.to_owned(), make()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }

    pub(super) fn put(&mut self, key: &str, value: Value) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Counts the values, tables included.
    pub(super) fn values(&self) -> usize {
        self.0.iter().map(|(_, value)| value.data.values()).sum()
    }

    fn write_lines(&self, text: &mut String) {
        for (key, value) in &self.0 {
            let _ = writeln!(text, "{} = {}", bare_or_quoted(key), value.data.inline());
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.iter().map(|(key, value)| (key.clone(), value.data.to_json())).collect()
    }
}

impl Value {
    pub(super) fn as_table(&self) -> Option<&Table> {
        match &self.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }

    /// A value of a request: TOML if it parses as such, else the text itself.
    pub(super) fn from_request(place: Place, text: &str) -> Value {
        let (value, errors) = DeValue::parse_recoverable(text);
        if text.is_empty() || !errors.is_empty() {
            return Value { place, data: Data::Text(text.to_owned()) };
        }
        Value { data: data_of(value.get_ref(), &|_| place.clone()), place: place.clone() }
    }

    fn from_json(place: &Place, json: serde_json::Value) -> Value {
        use serde_json::Value as Json;
        let data = match json {
            Json::Null => Data::Other("null".into()),
            Json::Bool(flag) => Data::Flag(flag),
            Json::Number(number) => {
                let text = number.to_string();
                text.parse().map_or(Data::Float(text), Data::Integer)
            }
            Json::String(text) => Data::Text(text),
            Json::Array(items) => Data::List(items.into_iter().map(|item| Value::from_json(place, item)).collect()),
            Json::Object(fields) => {
                Data::Table(Table(fields.into_iter().map(|(k, v)| (k, Value::from_json(place, v))).collect()))
            }
        };
        Value { place: place.clone(), data }
    }
}

impl Data {
    pub(super) fn values(&self) -> usize {
        match self {
            Data::List(items) => 1 + items.iter().map(|item| item.data.values()).sum::<usize>(),
            Data::Table(table) => 1 + table.values(),
            _ => 1,
        }
    }

    /// The value as TOML on one line.
    pub(super) fn inline(&self) -> String {
        match self {
            Data::Text(text) => quoted(text),
            Data::Integer(number) => number.to_string(),
            Data::Float(text) | Data::Other(text) => text.clone(),
            Data::Flag(flag) => flag.to_string(),
            Data::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.data.inline()).collect();
                format!("[{}]", items.join(", "))
            }
            Data::Table(table) if table.0.is_empty() => "{}".into(),
            Data::Table(table) => {
                let field =
                    |(key, value): &(String, Value)| format!("{} = {}", bare_or_quoted(key), value.data.inline());
                format!("{{ {} }}", table.0.iter().map(field).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The value as a column of a result shows it: as TOML, but a text without its quotes.
    pub(super) fn shown(&self) -> String {
        match self {
            Data::Text(text) => text.clone(),
            other => other.inline(),
        }
    }

    /// The value for a message, cut short.
    pub(super) fn found(&self) -> String {
        match self {
            Data::Table(_) => "a table".into(),
            other => cut_short(&other.inline()),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Data::Text(text) | Data::Other(text) => text.as_str().into(),
            // TOML's inf and nan, and more than 64 bits, are no numbers in JSON.
            Data::Integer(number) => {
                serde_json::Number::from_i128(*number).map_or_else(|| number.to_string().into(), Into::into)
            }
            Data::Float(text) => {
                serde_json::from_str::<serde_json::Number>(text).map_or_else(|_| text.as_str().into(), Into::into)
            }
            Data::Flag(flag) => (*flag).into(),
            Data::List(items) => items.iter().map(|item| item.data.to_json()).collect(),
            Data::Table(table) => table.to_json(),
        }
    }
}

/// Byte offsets of a text as lines.
struct Lines {
    file: Arc<str>,
    /// The offset at which each line starts, the first left out.
    starts: Vec<usize>,
}

impl Lines {
    fn new(file: Arc<str>, text: &str) -> Lines {
        Lines { file, starts: text.match_indices('\n').map(|(at, _)| at + 1).collect() }
    }

    fn place(&self, offset: usize) -> Place {
        let line = 1 + self.starts.partition_point(|start| *start <= offset);
        Place::Line { file: self.file.clone(), line }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        table_of(table, &|offset| self.place(offset))
    }
}

fn table_of(table: &DeTable<'_>, place: &dyn Fn(usize) -> Place) -> Table {
    let field = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        // Where the key stands: for `[links.cable]` the value's own span is the header's, and for a value over
        // several lines the first is the one to look at.
        let key_text: &std::borrow::Cow<'_, str> = key.get_ref();
        let at = place(key.span().start);
        (key_text.to_string(), Value { place: at, data: data_of(value.get_ref(), place) })
    };
    Table(table.iter().map(field).collect())
}

fn data_of(value: &DeValue<'_>, place: &dyn Fn(usize) -> Place) -> Data {
    let items = |items: &DeArray<'_>| {
        let item = |item: &Spanned<DeValue<'_>>| Value {
            place: place(item.span().start),
            data: data_of(item.get_ref(), place),
        };
        items.iter().map(item).collect()
    };
    match value {
        DeValue::String(text) => Data::Text(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Data::Integer(number),
            Err(_) => Data::Other(number.to_string()),
        },
        DeValue::Float(number) => Data::Float(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Data::Flag(*flag),
        DeValue::Datetime(date) => Data::Other(date.to_string()),
        DeValue::Array(array) => Data::List(items(array)),
        DeValue::Table(table) => Data::Table(table_of(table, place)),
    }
}

/// The text as a message can quote it: on one line, and not too long.
fn cut_short(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut shown: String = text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

fn bare_or_quoted(key: &str) -> String {
    let is_bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if is_bare { key.to_owned() } else { quoted(key) }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
