//! A single value, read as what its field takes.

use headend_engine::time::Duration;
use headend_engine::units::quantity;
use headend_engine::units::{Bytes, Capacity, Chance, Rate};

use super::document::{Data, Value};
use super::error::Place;
use super::fields::{Family, Kind, RATE_BPS, SIZE_BYTES_MAX};

/// A value of one of the simple kinds.
pub(super) use headend_engine::part::Value as Setting;

/// Most packet numbers in a list of losses.
const NUMBERS_MAX: usize = 100_000;

impl Kind {
    /// Reads a value, or says what is expected instead. Names of nodes and personalities are only read as text.
    pub(super) fn read(&self, data: &Data) -> Result<Setting, String> {
        self.try_read(data).ok_or_else(|| self.expected())
    }

    /// Reads a value as [`read`](Kind::read) does, where it is known who wrote it. A bare 1 for a probability is 100%
    /// in a file, which is written with the documentation at hand; on a command line it may as well be meant as 1%.
    pub(super) fn read_from(&self, value: &Value) -> Result<Setting, String> {
        if self.is_ambiguous(value) { Err("its unit: 1% or 100%?".into()) } else { self.read(&value.data) }
    }

    /// True for a probability of 1 without a unit that a request asks for.
    pub(super) fn is_ambiguous(&self, value: &Value) -> bool {
        let is_bare = match &value.data {
            Data::Text(text) | Data::Float(text) => !text.ends_with('%'),
            Data::Integer(_) => true,
            _ => false,
        };
        let is_certain = || self.read(&value.data) == Ok(Setting::Chance(Chance::ALWAYS));
        matches!(self, Kind::Chance) && matches!(value.place, Place::Request(_)) && is_bare && is_certain()
    }

    fn try_read(&self, data: &Data) -> Option<Setting> {
        let whole = |min: u64, max: u64| match data {
            Data::Integer(number) => u64::try_from(*number).ok().filter(|number| (min..=max).contains(number)),
            _ => None,
        };
        let text = match data {
            Data::Text(text) => Some(text.as_str()),
            _ => None,
        };
        match *self {
            Kind::Text | Kind::Personality | Kind::Node | Kind::Recording(_) | Kind::Cdf => {
                text.map(|text| Setting::Text(text.to_owned()))
            }
            Kind::Choice(names) => {
                text.filter(|text| names().contains(text)).map(|text| Setting::Text(text.to_owned()))
            }
            Kind::Flag => match data {
                Data::Flag(flag) => Some(Setting::Flag(*flag)),
                _ => None,
            },
            Kind::Count { min, max } => whole(min, max).map(Setting::Count),
            Kind::CountOr { min, max, word } => match text {
                Some(text) => (text == word).then_some(Setting::Word),
                None => whole(min, max).map(Setting::Count),
            },
            Kind::Rate => quantity::rate(text?).filter(|rate| RATE_BPS.contains(&rate.get())).map(Setting::Rate),
            Kind::Size { min, max } => {
                quantity::size(text?).filter(|size| (min..=max).contains(&size.get())).map(Setting::Size)
            }
            Kind::SizeOr(word) if text? == word => Some(Setting::Word),
            Kind::SizeOr(_) => Kind::Size { min: 1, max: SIZE_BYTES_MAX }.try_read(data),
            Kind::Span { min, max } => {
                quantity::span(text?).filter(|span| (min..=max).contains(&span.as_nanos())).map(Setting::Span)
            }
            Kind::Chance => match data {
                Data::Text(text) | Data::Float(text) => quantity::chance(text),
                Data::Integer(number) => quantity::chance(&number.to_string()),
                _ => None,
            }
            .map(Setting::Chance),
            Kind::Capacity => capacity(text?).map(Setting::Capacity),
            Kind::Numbers => numbers(data).map(Setting::Numbers),
            Kind::List(kind) => list(kind, data).map(Setting::List),
            Kind::Part(family) => family.plain.try_read(data),
            Kind::Pair | Kind::Table(_) | Kind::Named(_) | Kind::Sweep => None,
        }
    }

    /// Says what is expected, as in "expected ...".
    pub(super) fn expected(&self) -> String {
        match *self {
            Kind::Text | Kind::Recording(_) | Kind::Cdf => "text in quotes".into(),
            Kind::Flag => "true or false".into(),
            Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
            Kind::CountOr { min, max, word } => format!("a whole number from {min} to {max} or \"{word}\""),
            Kind::Rate => format!("{} (from 1bit/s to 1Tbit/s)", quantity::RATE),
            Kind::Size { max: SIZE_BYTES_MAX, .. } => quantity::SIZE.into(),
            Kind::Size { min, max } => {
                format!("{} (from {} to {})", quantity::SIZE, Bytes::new(min), Bytes::new(max))
            }
            Kind::SizeOr(word) => format!("{} or \"{word}\"", quantity::SIZE),
            Kind::Span { min, max } => {
                let (min, max) = (Duration::from_nanos(min), Duration::from_nanos(max));
                format!("{} (from {min} to {max})", quantity::SPAN)
            }
            Kind::Chance => quantity::CHANCE.into(),
            Kind::Choice(names) => format!("one of \"{}\"", names().join("\", \"")),
            Kind::Personality => "the name of a personality".into(),
            Kind::Node => "the name of a host".into(),
            Kind::Pair => "the names of two nodes such as [\"server\", \"pc\"]".into(),
            Kind::Capacity => quantity::CAPACITY.into(),
            Kind::List(kind) => format!("a list, each of them {}", kind.expected()),
            Kind::Part(Family { plain, steps, table, .. }) => {
                let steps = steps.map(|steps| format!(", a list of {steps}")).unwrap_or_default();
                format!("{}{steps}, or a table such as {table}", plain.expected())
            }
            Kind::Numbers => "a list of different packet numbers from 1 such as [11, 14]".into(),
            Kind::Table(_) => "a table".into(),
            Kind::Named(shape) => format!("a table for each {0}, such as [{0}s.NAME]", shape.name),
            Kind::Sweep => "a list of values for each path".into(),
        }
    }

    /// A value as a scenario writes it, text without its quotes.
    pub(super) fn written(&self, value: &Setting) -> String {
        match value {
            Setting::Text(text) => text.clone(),
            Setting::Flag(flag) => flag.to_string(),
            Setting::Count(count) => count.to_string(),
            Setting::Word => match self {
                Kind::CountOr { word, .. } | Kind::SizeOr(word) => (*word).to_owned(),
                other => panic!("no word stands for {other:?}"),
            },
            Setting::Rate(rate) => rate.to_string(),
            Setting::Size(size) => size.to_string(),
            Setting::Span(span) => span.to_string(),
            Setting::Chance(chance) => chance.as_f64().to_string(),
            Setting::Capacity(Capacity::Unlimited) => "unlimited".into(),
            Setting::Capacity(Capacity::Packets(packets)) => format!("{packets} packets"),
            Setting::Capacity(Capacity::Bytes(size)) => size.to_string(),
            Setting::Numbers(numbers) => format!("{numbers:?}"),
            Setting::Recording(_) => "a recording".into(),
            Setting::Cdf(sizes) => format!("sizes of {} in the mean", sizes.mean()),
            Setting::List(values) => {
                let Kind::List(of) = self else { panic!("no list stands for {self:?}") };
                format!("[{}]", values.iter().map(|value| of.written(value)).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// A value to go on with after a mistake; never used in a run.
    pub(super) fn placeholder(&self) -> Setting {
        match *self {
            Kind::Flag => Setting::Flag(false),
            Kind::Count { min, .. } | Kind::CountOr { min, .. } => Setting::Count(min),
            Kind::Rate => Setting::Rate(Rate::bit(1)),
            Kind::Size { min, .. } => Setting::Size(Bytes::new(min)),
            Kind::SizeOr(_) => Setting::Word,
            Kind::Span { min, .. } => Setting::Span(Duration::from_nanos(min)),
            Kind::Chance => Setting::Chance(Chance::NEVER),
            Kind::Choice(names) => Setting::Text(names().first().copied().unwrap_or_default().to_owned()),
            Kind::Capacity => Setting::Capacity(Capacity::Unlimited),
            Kind::Numbers => Setting::Numbers(Vec::new()),
            Kind::List(kind) => Setting::List(vec![kind.placeholder()]),
            Kind::Text | Kind::Personality | Kind::Node | Kind::Recording(_) | Kind::Cdf => {
                Setting::Text(String::new())
            }
            Kind::Part(family) => family.plain.placeholder(),
            Kind::Pair | Kind::Table(_) | Kind::Named(_) | Kind::Sweep => Setting::Word,
        }
    }
}

fn capacity(text: &str) -> Option<Capacity> {
    quantity::capacity(text).filter(|capacity| match capacity {
        Capacity::Unlimited => true,
        Capacity::Packets(packets) => *packets <= SIZE_BYTES_MAX,
        Capacity::Bytes(bytes) => bytes.get() <= SIZE_BYTES_MAX,
    })
}

/// One value of `kind` or more, not too many.
fn list(kind: &Kind, data: &Data) -> Option<Vec<Setting>> {
    let Data::List(items) = data else { return None };
    if !(1..=NUMBERS_MAX).contains(&items.len()) {
        return None;
    }
    items.iter().map(|item| kind.try_read(&item.data)).collect()
}

fn numbers(data: &Data) -> Option<Vec<u64>> {
    let Data::List(items) = data else { return None };
    if items.len() > NUMBERS_MAX {
        return None;
    }
    let number = |item: &Data| match item {
        Data::Integer(number) => u64::try_from(*number).ok().filter(|number| *number > 0),
        _ => None,
    };
    let mut numbers = items.iter().map(|item| number(&item.data)).collect::<Option<Vec<u64>>>()?;
    numbers.sort_unstable();
    numbers.windows(2).all(|pair| pair[0] < pair[1]).then_some(numbers)
}
