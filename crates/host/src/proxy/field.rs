//! Fields of the proxy's file that describe themselves: name, type, default, meaning, and how to be read.
//!
//! A table that `fields!` declares is the only place that knows of its fields: the reader of files, the reference page
//! (`docs/reference/proxy-config.md`) and the options that a reload keeps go through [`Table::FIELDS`].

use std::num::NonZeroUsize;
use std::time::Duration as StdDuration;

use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate, quantity};

/// A value as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// A text, such as `"20ms"`.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Truth(bool),
}

/// A field of the table `T`.
#[derive(Debug)]
pub struct Field<T> {
    /// The name in files.
    pub name: &'static str,
    /// The second column of its row on the page: the default, or the unit where a field has no default.
    pub shown: &'static str,
    /// The meaning, for the page and for the documentation of the code.
    pub meaning: &'static str,
    /// Sets the field in a table; refused, the error says what was found and what was expected.
    pub read: fn(&mut T, Written) -> Result<(), String>,
    /// The value as a file would have it; `None` for a field that says nothing or stands for others.
    pub written: fn(&T) -> Option<String>,
    /// Takes over the field from another table, if this one has its default and the other one not. True if so.
    pub keep: fn(&mut T, &T) -> bool,
}

/// A table of the file.
pub trait Table: Default + 'static {
    /// Its fields, in the order in which they are read and shown.
    const FIELDS: &'static [Field<Self>];
}

/// The type of a field.
pub trait FieldValue: Sized {
    /// The values that a file may have, in words.
    fn expected() -> String;

    /// The value that is written, if it can be one.
    fn read(written: &Written) -> Option<Self>;

    /// The value as a file has it; `None` if it is that of a field left out.
    fn written(&self) -> Option<String>;
}

impl Written {
    /// The value of type `V` that this is, or what would be one.
    pub fn value<V: FieldValue>(&self) -> Result<V, String> {
        V::read(self).ok_or_else(|| {
            let found = match self {
                Written::Text(text) => format!("{text:?}"),
                Written::Number(number) => number.to_string(),
                Written::Truth(truth) => truth.to_string(),
            };
            format!("found {found}, expected {}", V::expected())
        })
    }
}

impl FieldValue for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn read(written: &Written) -> Option<bool> {
        if let Written::Truth(truth) = written { Some(*truth) } else { None }
    }

    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl FieldValue for u32 {
    fn expected() -> String {
        "a whole number".to_owned()
    }

    fn read(written: &Written) -> Option<u32> {
        if let Written::Number(number) = written { u32::try_from(*number).ok() } else { None }
    }

    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl FieldValue for usize {
    fn expected() -> String {
        "a number of 1 or more".to_owned()
    }

    fn read(written: &Written) -> Option<usize> {
        let Written::Number(number) = written else { return None };
        usize::try_from(*number).ok().and_then(NonZeroUsize::new).map(NonZeroUsize::get)
    }

    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl FieldValue for String {
    fn expected() -> String {
        "a text".to_owned()
    }

    fn read(written: &Written) -> Option<String> {
        if let Written::Text(text) = written { Some(text.clone()) } else { None }
    }

    fn written(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl FieldValue for Bytes {
    fn expected() -> String {
        quantity::SIZE.to_owned()
    }

    fn read(written: &Written) -> Option<Bytes> {
        if let Written::Text(text) = written { quantity::size(text) } else { None }
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl FieldValue for Rate {
    fn expected() -> String {
        format!("{}, above zero", quantity::RATE)
    }

    fn read(written: &Written) -> Option<Rate> {
        let Written::Text(text) = written else { return None };
        quantity::rate(text).filter(|rate| rate.get() > 0)
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl FieldValue for Duration {
    fn expected() -> String {
        format!("{} longer than none", quantity::SPAN)
    }

    fn read(written: &Written) -> Option<Duration> {
        let Written::Text(text) = written else { return None };
        quantity::span(text).filter(|span| *span > Duration::ZERO)
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl FieldValue for StdDuration {
    fn expected() -> String {
        Duration::expected()
    }

    fn read(written: &Written) -> Option<StdDuration> {
        Duration::read(written).map(|span| StdDuration::from_nanos(span.as_nanos()))
    }

    fn written(&self) -> Option<String> {
        Duration::from_nanos(self.as_nanos() as u64).written()
    }
}

impl<V: FieldValue> FieldValue for Option<V> {
    fn expected() -> String {
        V::expected()
    }

    fn read(written: &Written) -> Option<Option<V>> {
        V::read(written).map(Some)
    }

    fn written(&self) -> Option<String> {
        self.as_ref().and_then(V::written)
    }
}

/// Declares a table: a struct with public fields, its default, and its [`Table::FIELDS`]. A row is
/// `name: type = default, "shown", "meaning";`. Rows behind `beside` are in the struct and not in files; those behind `begun by`
/// are in files and not in the struct: a function sets what such a field stands for, before all others are read.
macro_rules! fields {
    (
        $(#[$about:meta])*
        pub struct $table:ident {
            $($name:ident: $type:ty = $default:expr, $shown:literal, $meaning:literal;)*
        }
        $(beside { $($(#[$note:meta])* $own:ident: $own_type:ty;)* })?
        $(begun by { $($from:ident = $read:path, $from_shown:literal, $from_meaning:literal;)* })?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $table {
            $(#[doc = $meaning] pub $name: $type,)*
            $($($(#[$note])* pub $own: $own_type,)*)?
        }

        impl Default for $table {
            fn default() -> $table {
                $table { $($name: $default,)* $($($own: Default::default(),)*)? }
            }
        }

        impl $crate::proxy::field::Table for $table {
            const FIELDS: &'static [$crate::proxy::field::Field<$table>] = &[
                $($($crate::proxy::field::Field {
                    name: stringify!($from),
                    shown: $from_shown,
                    meaning: $from_meaning,
                    read: $read,
                    written: |_| None,
                    keep: |_, _| false,
                },)*)?
                $($crate::proxy::field::Field {
                    name: stringify!($name),
                    shown: $shown,
                    meaning: $meaning,
                    read: |table, written| {
                        table.$name = written.value::<$type>()?;
                        Ok(())
                    },
                    written: |table| $crate::proxy::field::FieldValue::written(&table.$name),
                    keep: |table, before| {
                        let default = <$table>::default().$name;
                        let is_gone = table.$name == default && before.$name != default;
                        if is_gone {
                            table.$name.clone_from(&before.$name);
                        }
                        is_gone
                    },
                },)*
            ];
        }
    };
}

pub(crate) use fields;

/// A table's fields that say something, a line for each, as a file has them.
pub fn written<T: Table>(table: &T) -> String {
    let line = |field: &Field<T>| Some(format!("{} = {}\n", field.name, (field.written)(table)?));
    T::FIELDS.iter().filter_map(line).collect()
}

/// The rows of the page for a table: name, default or unit, and meaning of each field.
pub fn page_rows<T: Table>() -> String {
    let shown = |text: &str| if text.is_empty() { String::new() } else { format!("{text} ") };
    T::FIELDS
        .iter()
        .map(|field| format!("| `{}` | {}| {} |\n", field.name, shown(field.shown), field.meaning))
        .collect()
}
