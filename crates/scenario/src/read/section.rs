//! One table of a document, read as its shape: its tag, its fields and what they name.

use headend_engine::part::{self, Description, Values};

use super::Log;
use crate::document::{Data, Table, Value};
use crate::error::{Place, Problem};
use crate::fields::{Absent, Field, Kind, NAME_BYTES_MAX, NODES_MAX, Shape};
use crate::recording::{Recordings, Wrong};
use crate::setting::Setting;

/// A table of the document, read as its shape.
pub(crate) struct Section<'a> {
    pub(super) log: &'a Log,
    shape: &'static Shape,
    /// Its path, with a dot at the end unless it is the top level.
    pub(super) prefix: String,
    pub(super) place: &'a Place,
    pub(crate) table: &'a Table,
    pub(super) tag: Option<String>,
    /// The table itself is a mistake and was reported: what it lacks is no further one.
    pub(super) muted: bool,
}

impl<'a> Section<'a> {
    /// Opens a table, reads its tag and reports the fields that it may not have.
    pub(super) fn open(
        log: &'a Log,
        shape: &'static Shape,
        prefix: String,
        place: &'a Place,
        table: &'a Table,
    ) -> Section<'a> {
        let mut section = Section { log, shape, prefix, place, table, tag: None, muted: false };
        if let Some(tag) = shape.tag {
            let before = log.count();
            let value = section.setting(tag).text();
            section.muted = log.count() > before;
            section.tag = (!section.muted).then_some(value);
        }
        for (name, value) in &table.0 {
            let Some(field) = shape.field(name) else {
                let allowed = shape.fields_with(section.tag.as_deref()).map(|field| field.name);
                section.unknown(name, "field", name, allowed);
                continue;
            };
            if let (Some(tag_name), Some(tag)) = (shape.tag, section.tag.as_deref())
                && !field.applies(tag)
            {
                let (what, only) = (shape.name, field.only.join("\" or \""));
                let text = format!("only for a {what} with {tag_name} = \"{only}\"; this one has \"{tag}\"");
                section.wrong(name, &value.place, Problem::Contradiction(text));
            }
        }
        section
    }

    pub(crate) fn wrong(&self, field: &str, place: &Place, problem: Problem) {
        self.log.add(place, format!("{}{field}", self.prefix), problem);
    }

    /// Reports that nothing which may stand in `field` has the name that is there.
    pub(crate) fn unknown<'n>(
        &self,
        field: &str,
        what: &'static str,
        name: &str,
        allowed: impl IntoIterator<Item = &'n str>,
    ) {
        let path = format!("{}{field}", self.prefix);
        self.log.add_with(self.place_of(field), path, || Problem::unknown(what, name, allowed));
    }

    /// Returns what the table's tag stands for; the first of all if the tag is a mistake, which was reported.
    pub(super) fn chosen<T: Copy>(&self, tags: &[(&str, T)]) -> T {
        let name = self.tag.as_deref().unwrap_or(tags[0].0);
        tags.iter().find(|(known, _)| *known == name).expect("a tag was checked against its choices").1
    }

    /// The number of mistakes found so far in the whole document.
    pub(crate) fn mistakes(&self) -> usize {
        self.log.count()
    }

    /// True if the field is written.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    pub(crate) fn place_of(&self, name: &str) -> &'a Place {
        self.table.get(name).map_or(self.place, |value| &value.place)
    }

    pub(super) fn field(&self, name: &str) -> &'static Field {
        self.shape.field(name).unwrap_or_else(|| panic!("{} has no field {name}", self.shape.name))
    }

    /// The field's value, or what holds without it; after a mistake, a placeholder.
    pub(crate) fn setting(&self, name: &str) -> Setting {
        let field = self.field(name);
        if let Some(value) = self.table.get(name) {
            return field.kind.read_from(value).unwrap_or_else(|expected| {
                self.wrong(name, &value.place, Problem::Value { found: value.data.found(), expected });
                field.kind.placeholder()
            });
        }
        match field.absent {
            Absent::Is(text) => default_setting(field, text),
            Absent::Required => {
                self.missing(name);
                field.kind.placeholder()
            }
            Absent::Follows(_) => panic!("{name} follows something else; its reader must look there"),
        }
    }

    /// The part of a family that the table's tag names, with the fields that the table gives; `None` after a mistake.
    pub(super) fn part<P>(
        &self,
        family: &[Description],
        read: fn(&str, &Values) -> Option<Result<P, part::Mistake>>,
        recordings: &Recordings,
    ) -> Option<P> {
        let name = self.tag.as_deref()?;
        let fields = family.iter().find(|part| part.name == name).expect("a tag is one of the family's names").fields;
        let before = self.log.count();
        let is_given = |field: &&part::Field| self.has(field.name) || !matches!(field.absent, Absent::Follows(_));
        let value = |field: &part::Field| match field.kind {
            part::Kind::Recording(what) => {
                self.recording(field.name, |name| recordings.read(name, what).map(Setting::Recording))
            }
            part::Kind::Cdf => self.recording(field.name, |name| recordings.sizes(name).map(Setting::Cdf)),
            _ => self.setting(field.name),
        };
        let given = fields.iter().filter(is_given).map(|field| (field.name, value(field)));
        let values = Values::new(given.collect());
        if self.log.count() > before {
            return None;
        }
        match read(name, &values).expect("a tag is one of the family's names") {
            Ok(part) => Some(part),
            Err(part::Mistake { field, text }) => {
                self.wrong(field, self.place_of(field), Problem::Contradiction(text));
                None
            }
        }
    }

    /// Reads the file that the field names.
    fn recording(&self, name: &str, read: impl FnOnce(&str) -> Result<Setting, Wrong>) -> Setting {
        let before = self.log.count();
        let file = self.setting(name);
        if self.log.count() > before {
            return file;
        }
        read(&file.text()).unwrap_or_else(|Wrong { place, problem }| {
            self.wrong(name, place.as_ref().unwrap_or(self.place_of(name)), problem);
            self.field(name).kind.placeholder()
        })
    }

    pub(super) fn missing(&self, name: &str) {
        if !self.muted {
            let problem = Problem::Missing { expected: self.field(name).kind.expected() };
            self.wrong(name, self.place, problem);
        }
    }

    /// The table under a field, or an empty one if it may be left out.
    pub(crate) fn table_under(&self, name: &str, shape: &'static Shape) -> Section<'a> {
        static NOTHING: Table = Table(Vec::new());
        let prefix = format!("{}{name}.", self.prefix);
        let is_required = self.field(name).absent == Absent::Required;
        match self.table.get(name) {
            Some(Value { place, data: Data::Table(table) }) => {
                return Section::open(self.log, shape, prefix, place, table);
            }
            Some(value) => {
                let expected = self.field(name).kind.expected();
                self.wrong(name, &value.place, Problem::Value { found: value.data.found(), expected });
            }
            None if is_required => self.missing(name),
            None => {}
        }
        Section { log: self.log, shape, prefix, place: self.place, table: &NOTHING, tag: None, muted: true }
    }

    /// The tables under a field of the kind [`Kind::Named`], in the file's order.
    pub(super) fn named(&self, name: &str) -> Vec<(&'a str, Section<'a>)> {
        let Kind::Named(shape) = self.field(name).kind else { panic!("{name} holds no named tables") };
        let Some(value) = self.table.get(name) else {
            if self.field(name).absent == Absent::Required {
                self.missing(name);
            }
            return Vec::new();
        };
        let Data::Table(tables) = &value.data else {
            let expected = self.field(name).kind.expected();
            self.wrong(name, &value.place, Problem::Value { found: value.data.found(), expected });
            return Vec::new();
        };
        if tables.0.len() > NODES_MAX {
            let (found, expected) = (format!("{} of them", tables.0.len()), format!("at most {NODES_MAX}"));
            self.wrong(name, &value.place, Problem::Value { found, expected });
            return Vec::new();
        }
        if tables.0.is_empty() && self.field(name).absent == Absent::Required {
            self.missing(name);
        }
        let open = |(key, value): &'a (String, Value)| {
            let path = format!("{name}.{key}");
            if !is_name(key) {
                let expected = format!("a name of letters, digits, - and _, at most {NAME_BYTES_MAX} long");
                self.wrong(&path, &value.place, Problem::Value { found: Data::Text(key.clone()).found(), expected });
                return None;
            }
            let Data::Table(table) = &value.data else {
                let (found, expected) = (value.data.found(), format!("a table: [{path}]"));
                self.wrong(&path, &value.place, Problem::Value { found, expected });
                return None;
            };
            Some((key.as_str(), Section::open(self.log, shape, format!("{path}."), &value.place, table)))
        };
        tables.0.iter().filter_map(open).collect()
    }
}

/// Reads a field's default. The shapes' own texts are right, and a test reads them all.
pub(crate) fn default_setting(field: &Field, text: &str) -> Setting {
    let data = match field.kind {
        Kind::Flag => Data::Flag(text == "true"),
        Kind::Count { .. } => Data::Integer(text.parse().expect("a default count is a number")),
        Kind::CountOr { .. } => text.parse().map_or(Data::Text(text.into()), Data::Integer),
        _ => Data::Text(text.into()),
    };
    field.kind.read(&data).unwrap_or_else(|expected| panic!("{}: the default {text:?} is not {expected}", field.name))
}

/// Checks the name that an author gave to a node, link, flow or personality.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}
