//! Rates, losses, delays and queues of links, and sizes of transfers: fields that may be a plain value, steps of it, or a table that names a
//! part.

use headend_engine::link::delay::{self, DelayModel};
use headend_engine::link::headers::HeaderCompression;
use headend_engine::link::loss::{self, LossModel};
use headend_engine::link::queue::Discipline;
use headend_engine::link::recording::Series;
use headend_engine::link::service::{self, RateModel};
use headend_engine::time::{Duration, Time};
use headend_engine::units::Rate;
use headend_engine::workload::SizeModel;

use super::Section;
use crate::document::{Data, Value};
use crate::error::Problem;
use crate::fields::{self, Family, Kind, STEP_TIME, STEPS_MAX};
use crate::flow::Amount;
use crate::recording::Recordings;
use crate::setting::Setting;

/// The field `rate` of a link or direction.
pub(crate) fn rate(section: &Section<'_>, recordings: &Recordings) -> RateModel {
    let given = Given::new(section, "rate", &fields::RATE);
    let read = given.map_or_else(
        || {
            section.missing("rate");
            None
        },
        |given| match given {
            Given::Plain(rate) => Some(RateModel::constant(rate.rate())),
            Given::Steps(steps) => {
                let steps = steps.into_iter().map(|(time, rate)| (time, rate.rate())).collect::<Vec<_>>();
                Some(RateModel::Steps(service::steps::Parameters { steps: Series::held(steps) }))
            }
            Given::Table(table) => table.part(RateModel::ALL, RateModel::read, recordings),
            Given::Wrong => None,
        },
    );
    // A placeholder, never used in a run.
    read.unwrap_or(RateModel::constant(Rate::bit(1)))
}

/// The field `loss` of a link, direction or channel.
pub(crate) fn loss(section: &Section<'_>, recordings: &Recordings) -> LossModel {
    let read = match Given::new(section, "loss", &fields::LOSS) {
        Some(Given::Plain(chance)) => Some(LossModel::bernoulli(chance.chance())),
        Some(Given::Steps(steps)) => {
            let steps = steps.into_iter().map(|(time, chance)| (time, chance.chance())).collect::<Vec<_>>();
            Some(LossModel::Steps(loss::steps::Parameters { steps: Series::held(steps) }))
        }
        Some(Given::Table(table)) => table.part(LossModel::ALL, LossModel::read, recordings),
        Some(Given::Wrong) | None => None,
    };
    read.unwrap_or(LossModel::NONE)
}

/// The field `delay` of a link or direction.
pub(crate) fn delay(section: &Section<'_>, recordings: &Recordings) -> DelayModel {
    let read = match Given::new(section, "delay", &fields::DELAY) {
        Some(Given::Plain(span)) => Some(DelayModel::constant(span.span())),
        Some(Given::Steps(steps)) => {
            let steps = steps.into_iter().map(|(time, span)| (time, span.span())).collect::<Vec<_>>();
            Some(DelayModel::Steps(delay::steps::Parameters { steps: Series::held(steps) }))
        }
        Some(Given::Table(table)) => table.part(DelayModel::ALL, DelayModel::read, recordings),
        Some(Given::Wrong) | None => None,
    };
    read.unwrap_or(DelayModel::constant(Duration::ZERO))
}

/// The field `delay` of a link whose delay does not change.
pub(crate) fn constant_delay(section: &Section<'_>) -> Duration {
    match Given::new(section, "delay", &fields::DELAY) {
        Some(Given::Plain(span)) => return span.span(),
        Some(Given::Steps(_) | Given::Table(_)) => {
            let text = "the delay of a plain link can change, and that of no other: expected a single time".to_owned();
            section.wrong("delay", section.place_of("delay"), Problem::Contradiction(text));
        }
        Some(Given::Wrong) | None => {}
    }
    Duration::ZERO
}

/// The field `queue` of a link or direction.
pub(crate) fn discipline(section: &Section<'_>, recordings: &Recordings) -> Discipline {
    let read = match Given::new(section, "queue", &fields::QUEUE) {
        Some(Given::Plain(limit)) => Some(Discipline::drop_tail(limit.capacity())),
        Some(Given::Steps(_)) => unreachable!("no queue changes at known times"),
        Some(Given::Table(table)) => table.part(Discipline::ALL, Discipline::read, recordings),
        Some(Given::Wrong) | None => None,
    };
    read.unwrap_or(Discipline::UNLIMITED)
}

/// The field `bytes` of a flow.
pub(crate) fn amount(section: &Section<'_>, recordings: &Recordings) -> Amount {
    let read = match Given::new(section, "bytes", &fields::SIZE) {
        Some(Given::Plain(bytes)) => bytes.size_or().map(Amount::Exactly),
        Some(Given::Steps(_)) => unreachable!("no size changes at known times"),
        Some(Given::Table(table)) => table.part(SizeModel::ALL, SizeModel::read, recordings).map(Amount::Drawn),
        Some(Given::Wrong) | None => None,
    };
    read.unwrap_or(Amount::Unlimited)
}

/// A field that takes a part of a family, in the form in which it was given.
enum Given<'a> {
    /// One value.
    Plain(Setting),
    /// Values, each from a time on, the first from the start.
    Steps(Vec<(Time, Setting)>),
    /// A table that names the part.
    Table(Box<Section<'a>>),
    /// A form that it cannot have; the mistake was reported.
    Wrong,
}

impl<'a> Given<'a> {
    /// The field `name` of `section`; `None` if it is not given.
    fn new(section: &Section<'a>, name: &str, family: &'static Family) -> Option<Given<'a>> {
        let value = section.table.get(name)?;
        Some(match &value.data {
            Data::List(items) if family.steps.is_some() => {
                steps(section, name, value, items, family.plain).map_or(Given::Wrong, Given::Steps)
            }
            Data::Table(table) => {
                let prefix = format!("{}{name}.", section.prefix);
                Given::Table(Box::new(Section::open(section.log, &family.shape, prefix, &value.place, table)))
            }
            data => family.plain.read_from(value).map_or_else(
                |plain| {
                    // Who writes text means a plain value; whoever does not is told all that there is.
                    let is_plain = matches!(data, Data::Text(_)) || family.plain.is_ambiguous(value);
                    let named = if let Data::Text(text) = data { table_of(family, text) } else { None };
                    let expected = named.unwrap_or_else(|| match is_plain {
                        true => plain,
                        false => section.field(name).kind.expected(),
                    });
                    section.wrong(name, &value.place, Problem::Value { found: data.found(), expected });
                    Given::Wrong
                },
                Given::Plain,
            ),
        })
    }
}

/// What stands for a part of the family whose name is given without a table.
fn table_of(family: &Family, name: &str) -> Option<String> {
    let tag = family.shape.field(family.shape.tag?)?;
    let Kind::Choice(names) = tag.kind else { return None };
    names().contains(&name).then(|| format!("a table, {{ {} = \"{name}\" }}, for one that has a name", tag.name))
}

/// A list of times and values, each of `kind`: from zero on, each later than the one before. `None` after a mistake.
fn steps(
    section: &Section<'_>,
    field: &str,
    list: &Value,
    items: &[Value],
    kind: Kind,
) -> Option<Vec<(Time, Setting)>> {
    let wrong = |place, found: String, expected: String| {
        section.wrong(field, place, Problem::Value { found, expected });
        None
    };
    if items.is_empty() || items.len() > STEPS_MAX {
        let found = format!("{} steps", items.len());
        return wrong(&list.place, found, format!("at least one and at most {STEPS_MAX}, the first at \"0s\""));
    }
    let mut steps: Vec<(Time, Setting)> = Vec::with_capacity(items.len());
    for item in items {
        let expected = |what| format!("{what} in a step such as [\"5s\", ...]");
        let Data::List(step) = &item.data else {
            return wrong(&item.place, item.data.found(), expected("a time and a value".into()));
        };
        let [at, of] = step.as_slice() else {
            return wrong(&item.place, item.data.found(), expected("a time and a value".into()));
        };
        let span = match STEP_TIME.read(&at.data) {
            Ok(span) => Time::ZERO + span.span(),
            Err(what) => return wrong(&at.place, at.data.found(), expected(what)),
        };
        match steps.last() {
            None if span > Time::ZERO => {
                return wrong(&at.place, at.data.found(), "\"0s\" in the first step".into());
            }
            Some(&(last, _)) if span <= last => {
                return wrong(&at.place, at.data.found(), "a time later than that of the step before".into());
            }
            _ => {}
        }
        match kind.read_from(of) {
            Ok(setting) => steps.push((span, setting)),
            Err(what) => return wrong(&of.place, of.data.found(), what),
        }
    }
    Some(steps)
}

/// The field `header_compression` of a link or direction.
pub(crate) fn compression(chosen: Setting) -> HeaderCompression {
    chosen.choice(HeaderCompression::ALL)
}

/// The fields `header_copies` and `header_repeats` of a link or direction, and `copies` of a circuit.
pub(crate) fn copies(given: Setting) -> u32 {
    u32::try_from(given.count()).expect("the field's range fits 32 bits")
}
