//! Parts that describe themselves: queue disciplines and whatever else a network can have one of several of.
//!
//! A part is one file. It holds the part's behaviour and a plain struct `Parameters`, which implements [`Part`]: its
//! [`Description`] (name, documentation, fields with their ranges and defaults), how the parameters are read from values,
//! and a method that builds the part from them. A family of parts is an enum of such structs, made by [`registry!`] with
//! one line for each part. Readers of scenario files, schemas and reference pages go through the registry and know no part
//! by name, so a new part is its file, its `mod` line and its line in the registry:
//!
//! ```
//! use headend_engine::part::{Absent, Description, Field, Kind, Mistake, Part, Value, Values, registry};
//!
//! /// The parameters of a wall with a door every so often.
//! #[derive(Clone, Debug, PartialEq, Eq)]
//! pub struct Doors {
//!     every: u64,
//! }
//!
//! impl Part for Doors {
//!     const DESCRIPTION: Description = Description {
//!         name: "doors",
//!         doc: "A wall with doors.",
//!         fields: &[Field {
//!             name: "every",
//!             kind: Kind::Count { min: 1, max: 100 },
//!             absent: Absent::Is("10"),
//!             doc: "Metres from one door to the next.",
//!         }],
//!     };
//!
//!     fn read(values: &Values) -> Result<Doors, Mistake> {
//!         match values.count("every") {
//!             13 => Err(Mistake { field: "every", text: "brings bad luck: 12 or 14?".to_owned() }),
//!             every => Ok(Doors { every }),
//!         }
//!     }
//! }
//!
//! impl Doors {
//!     fn build(&self, metres: u64) -> Vec<u64> {
//!         (0..metres).step_by(self.every as usize).collect()
//!     }
//! }
//!
//! registry! {
//!     /// What a wall can be.
//!     pub enum Wall {
//!         Doors(Doors),
//!     }
//!
//!     /// Where it has doors.
//!     fn build(&self, metres: u64) -> Vec<u64>;
//! }
//!
//! let values = Values::new(vec![("every", Value::Count(5))]);
//! let wall = Wall::read("doors", &values).expect("it is in the registry").expect("12 or 14");
//! assert_eq!(wall, Wall::Doors(Doors { every: 5 }));
//! assert_eq!(wall.build(12), [0, 5, 10]);
//! assert_eq!(Wall::ALL[0].name, "doors");
//! ```

use crate::link::recording::Recording;
use crate::time::Duration;
use crate::units::{Bytes, Capacity, Chance, Rate};
use crate::workload::Distribution;

/// The rates that a link may have, from the slowest to the fastest, in bit/s.
pub const RATE_BPS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Largest transfer, queue or buffer: a petabyte.
pub const SIZE_BYTES_MAX: u64 = 1_000_000_000_000_000;

/// A part of a family, as the parameters from which it is built.
pub trait Part: Sized {
    /// The part's name, documentation and fields.
    const DESCRIPTION: Description;

    /// The parameters that the values of the fields say, or why they cannot be together. Each value is of its field's kind
    /// and range; what holds without a field has been filled in, unless its default [follows](Absent::Follows) something.
    fn read(values: &Values) -> Result<Self, Mistake>;
}

/// The description of a part, for readers and pages that have none at hand.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The part's name in scenario files, which no other part of its family has.
    pub name: &'static str,
    /// The part's documentation: what it does, in a sentence or two.
    pub doc: &'static str,
    /// The fields that the part takes. Parts of a family may share a field, if it has the same kind and default in each.
    pub fields: &'static [Field],
}

/// A field of a part.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field's key.
    pub name: &'static str,
    /// The kind of value that the field takes.
    pub kind: Kind,
    /// The rule for a part that does not give the field.
    pub absent: Absent,
    /// The field's documentation: what it means, in a sentence or two.
    pub doc: &'static str,
}

/// What recordings do when they end: true if they start again.
const AT_END: &[(&str, bool)] = &[("repeat", true), ("hold", false)];

impl Field {
    /// The field of parts that play a recording which says what they do when it ends.
    pub const AT_END: Field = Field {
        name: "at_end",
        kind: Kind::Choice(|| names(AT_END)),
        absent: Absent::Is("repeat"),
        doc: "When the recording has ended it starts again (`repeat`), or its last value holds (`hold`).",
    };
}

/// The rule that holds when a field is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// No default: the field must be given.
    Required,
    /// A default value, written as in the file (text without its quotes).
    Is(&'static str),
    /// The value of something else, named in words.
    Follows(&'static str),
}

/// The kind of value that a field takes. Ranges include both ends.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Count {
        /// The smallest valid number.
        min: u64,
        /// The largest valid number.
        max: u64,
    },
    /// A whole number from `min` to `max`, or a word.
    CountOr {
        /// The smallest valid number.
        min: u64,
        /// The largest valid number.
        max: u64,
        /// The word that may stand in its place.
        word: &'static str,
    },
    /// A rate within [`RATE_BPS`].
    Rate,
    /// A size of `min` to `max` bytes.
    Size {
        /// The smallest valid value, in bytes.
        min: u64,
        /// The largest valid value, in bytes.
        max: u64,
    },
    /// A size of 1 to [`SIZE_BYTES_MAX`] bytes, or a word.
    SizeOr(&'static str),
    /// A span of time of `min` to `max` nanoseconds.
    Span {
        /// The shortest valid span, in nanoseconds.
        min: u64,
        /// The longest valid span, in nanoseconds.
        max: u64,
    },
    /// A probability.
    Chance,
    /// One of some names.
    Choice(fn() -> Vec<&'static str>),
    /// A limit to what may wait: a number of packets, a size, or none.
    Capacity,
    /// Different packet numbers from 1.
    Numbers,
    /// The name of a recording of a link, from which this is read.
    Recording(Recorded),
    /// The name of a file with a cumulative distribution of sizes.
    Cdf,
}

/// What is read from a recording of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded {
    /// The rate at which it served.
    Rate,
    /// The delay of its packets, one way.
    Delay,
    /// The chance with which it lost them.
    Loss,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text, or one of the names of a choice.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Count(u64),
    /// The word of a kind that has one.
    Word,
    /// A rate.
    Rate(Rate),
    /// A size.
    Size(Bytes),
    /// A span of time.
    Span(Duration),
    /// A probability.
    Chance(Chance),
    /// A limit to what may wait.
    Capacity(Capacity),
    /// Packet numbers, ascending.
    Numbers(Vec<u64>),
    /// What was read from a recording of a link.
    Recording(Recording),
    /// A distribution of sizes.
    Cdf(Distribution),
    /// Several values of one kind.
    List(Vec<Value>),
}

/// The values of a part's fields, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Vec<(&'static str, Value)>);

/// The reason why the values of a part's fields cannot be together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field to change.
    pub field: &'static str,
    /// A text that says what is wrong with the field, and what would be right.
    pub text: String,
}

/// Makes a family of parts: an enum with a variant for each, the list `ALL` of their descriptions, `read` by name, and the
/// methods named at the end, each of which calls the method of the same name of the part at hand. The
/// [module](crate::part) has an example. Parts after an `and` have no name: scenario files write them in a way of their own,
/// and they are no [`Part`](crate::part::Part).
#[macro_export]
#[doc(hidden)]
macro_rules! part_registry {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Family:ident $named:tt and $unnamed:tt

        $(
            $(#[$method_meta:meta])*
            fn $method:ident(&self $(, $arg:ident: $Arg:ty)*) -> $Out:ty;
        )*
    ) => {
        $crate::part::registry!(@family [$(#[$meta])*] [$vis] $Family $named $unnamed);

        impl $Family {
            $(
                $(#[$method_meta])*
                pub fn $method(&self $(, $arg: $Arg)*) -> $Out {
                    $crate::part::registry!(@call self, $Family, $named, $unnamed, $method, ($($arg),*))
                }
            )*
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $Family:ident $named:tt $($methods:tt)*) => {
        $crate::part::registry!($(#[$meta])* $vis enum $Family $named and {} $($methods)*);
    };
    (
        @family [$($meta:tt)*] [$vis:vis] $Family:ident
        { $($Variant:ident($Parameters:ty),)+ } { $($Unnamed:ident($UnnamedParameters:ty),)* }
    ) => {
        $($meta)*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis enum $Family {
            $(
                #[doc = concat!("See `", stringify!($Parameters), "`.")]
                $Variant($Parameters),
            )+
            $(
                #[doc = concat!("See `", stringify!($UnnamedParameters), "`.")]
                $Unnamed($UnnamedParameters),
            )*
        }

        impl $Family {
            /// The descriptions of all parts, in the order in which pages list them.
            pub const ALL: &'static [$crate::part::Description] =
                &[$(<$Parameters as $crate::part::Part>::DESCRIPTION),+];

            /// The part of this name with these values, or why they cannot be together; `None` if there is no such part.
            pub fn read(
                name: &str,
                values: &$crate::part::Values,
            ) -> Option<Result<$Family, $crate::part::Mistake>> {
                $(
                    if name == <$Parameters as $crate::part::Part>::DESCRIPTION.name {
                        let read = <$Parameters as $crate::part::Part>::read(values);
                        return Some(read.map($Family::$Variant));
                    }
                )+
                None
            }
        }

        $(
            impl From<$Parameters> for $Family {
                fn from(parameters: $Parameters) -> $Family {
                    $Family::$Variant(parameters)
                }
            }
        )+
        $(
            impl From<$UnnamedParameters> for $Family {
                fn from(parameters: $UnnamedParameters) -> $Family {
                    $Family::$Unnamed(parameters)
                }
            }
        )*
    };
    (
        @call $self:ident, $Family:ident,
        { $($Variant:ident($Parameters:ty),)+ }, { $($Unnamed:ident($UnnamedParameters:ty),)* },
        $method:ident, $args:tt
    ) => {
        match $self {
            $($Family::$Variant(parameters) => parameters.$method $args,)+
            $($Family::$Unnamed(parameters) => parameters.$method $args,)*
        }
    };
}

#[doc(inline)]
pub use part_registry as registry;

/// The names of some choices, for [`Kind::Choice`].
pub fn names<T>(choices: &[(&'static str, T)]) -> Vec<&'static str> {
    choices.iter().map(|(name, _)| *name).collect()
}

impl Values {
    /// Collects these values, each of its field's kind.
    pub fn new(values: Vec<(&'static str, Value)>) -> Values {
        Values(values)
    }

    /// The fields and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// The value of a field; `None` if it is not given and its default follows something else.
    pub fn given(&self, field: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    fn value(&self, field: &str) -> &Value {
        self.given(field).unwrap_or_else(|| panic!("the part's own field {field} is given or has a default"))
    }

    /// The value of a field that takes text or a choice.
    pub fn text(&self, field: &str) -> &str {
        match self.value(field) {
            Value::Text(text) => text,
            other => panic!("the part says that {field} is text, not {other:?}"),
        }
    }

    /// The meaning of the value of a field that takes the [`names`] of `choices`.
    pub fn choice<T: Copy>(&self, field: &str, choices: &[(&str, T)]) -> T {
        self.value(field).choice(choices)
    }

    /// The value of a field that takes a flag.
    pub fn flag(&self, field: &str) -> bool {
        self.value(field).flag()
    }

    /// The value of a field that takes a whole number.
    pub fn count(&self, field: &str) -> u64 {
        self.value(field).count()
    }

    /// The value of a field that takes a whole number below 2^32.
    pub fn small(&self, field: &str) -> u32 {
        u32::try_from(self.count(field)).expect("the field's range fits 32 bits")
    }

    /// The value of a field that takes a whole number or a word: `None` for the word.
    pub fn count_or(&self, field: &str) -> Option<u64> {
        self.value(field).count_or()
    }

    /// The value of a field that takes a rate.
    pub fn rate(&self, field: &str) -> Rate {
        self.value(field).rate()
    }

    /// The value of a field that takes a size.
    pub fn size(&self, field: &str) -> Bytes {
        self.value(field).size()
    }

    /// The value of a field that takes a size or a word: `None` for the word.
    pub fn size_or(&self, field: &str) -> Option<Bytes> {
        self.value(field).size_or()
    }

    /// The value of a field that takes a span of time.
    pub fn span(&self, field: &str) -> Duration {
        self.value(field).span()
    }

    /// The value of a field that takes a probability.
    pub fn chance(&self, field: &str) -> Chance {
        self.value(field).chance()
    }

    /// The value of a field that takes a capacity.
    pub fn capacity(&self, field: &str) -> Capacity {
        self.value(field).capacity()
    }

    /// The value of a field that takes a recording.
    pub fn recording(&self, field: &str) -> Recording {
        match self.value(field) {
            Value::Recording(recording) => recording.clone(),
            other => panic!("the part says that {field} is a recording, not {other:?}"),
        }
    }

    /// The value of a field that takes a cumulative distribution of sizes.
    pub fn cdf(&self, field: &str) -> Distribution {
        match self.value(field) {
            Value::Cdf(distribution) => distribution.clone(),
            other => panic!("the part says that {field} is a distribution, not {other:?}"),
        }
    }

    /// True if a recording starts again when it ends: the value of [`Field::AT_END`].
    pub fn starts_again(&self) -> bool {
        self.choice(Field::AT_END.name, AT_END)
    }

    /// The value of a field that takes packet numbers, ascending.
    pub fn numbers(&self, field: &str) -> Vec<u64> {
        self.value(field).clone().numbers()
    }
}

/// Each accessor panics if the value is of another kind: a part's fields and what reads them are one program.
impl Value {
    /// The text.
    pub fn text(self) -> String {
        match self {
            Value::Text(text) => text,
            other => panic!("the field is said to be text, not {other:?}"),
        }
    }

    /// The meaning of the text, which is one of the [`names`] of `choices`.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> T {
        let chosen = choices.iter().find(|(name, _)| matches!(self, Value::Text(text) if text == name));
        chosen.unwrap_or_else(|| panic!("the field is said to be one of some names, not {self:?}")).1
    }

    /// True if the flag is set.
    pub fn flag(&self) -> bool {
        match self {
            Value::Flag(flag) => *flag,
            other => panic!("the field is said to be a flag, not {other:?}"),
        }
    }

    /// The number.
    pub fn count(&self) -> u64 {
        self.count_or().expect("the field is said to take no word")
    }

    /// The number, or `None` for the word.
    pub fn count_or(&self) -> Option<u64> {
        match self {
            Value::Count(count) => Some(*count),
            Value::Word => None,
            other => panic!("the field is said to be a number, not {other:?}"),
        }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        match self {
            Value::Rate(rate) => *rate,
            other => panic!("the field is said to be a rate, not {other:?}"),
        }
    }

    /// The size.
    pub fn size(&self) -> Bytes {
        self.size_or().expect("the field is said to take no word")
    }

    /// The size, or `None` for the word.
    pub fn size_or(&self) -> Option<Bytes> {
        match self {
            Value::Size(size) => Some(*size),
            Value::Word => None,
            other => panic!("the field is said to be a size, not {other:?}"),
        }
    }

    /// The span of time.
    pub fn span(&self) -> Duration {
        match self {
            Value::Span(span) => *span,
            other => panic!("the field is said to be a time, not {other:?}"),
        }
    }

    /// The probability.
    pub fn chance(&self) -> Chance {
        match self {
            Value::Chance(chance) => *chance,
            other => panic!("the field is said to be a probability, not {other:?}"),
        }
    }

    /// The limit to what may wait.
    pub fn capacity(&self) -> Capacity {
        match self {
            Value::Capacity(capacity) => *capacity,
            other => panic!("the field is said to be a capacity, not {other:?}"),
        }
    }

    /// The packet numbers, ascending.
    pub fn numbers(self) -> Vec<u64> {
        match self {
            Value::Numbers(numbers) => numbers,
            other => panic!("the field is said to be a list of numbers, not {other:?}"),
        }
    }

    /// The values of a list.
    pub fn list(self) -> Vec<Value> {
        match self {
            Value::List(list) => list,
            other => panic!("the field is said to be a list, not {other:?}"),
        }
    }
}
