//! How fast a link serves and what it loses: fields that may be a value, steps of it, or a table.

use std::sync::Arc;

use headend_engine::time::Time;
use headend_engine::units::{Chance, Rate};

use super::Section;
use crate::document::{Data, Value};
use crate::error::Problem;
use crate::fields::{self, Kind, STEP_TIME, STEPS_MAX};
use crate::model::{HeaderCompression, LossSpec, RateSpec};
use crate::recording::{Recordings, Wrong};
use crate::setting::Setting;

/// The field `rate` of a link or direction: a rate, steps of it, or a table.
pub(super) fn service(section: &Section<'_>, recordings: &Recordings) -> RateSpec {
    const PLACEHOLDER: RateSpec = RateSpec::Constant(Rate::bit(1));
    let Some(value) = section.table.get("rate") else {
        section.missing("rate");
        return PLACEHOLDER;
    };
    match &value.data {
        Data::List(items) => steps(section, "rate", value, items, Kind::Rate, |setting| setting.rate())
            .map_or(PLACEHOLDER, RateSpec::Steps),
        Data::Table(table) => {
            let prefix = format!("{}rate.", section.prefix);
            let rate = Section::open(section.log, &fields::RATE, prefix, &value.place, table);
            let before = section.log.count();
            let name = rate.setting("trace").text();
            if section.log.count() > before {
                return PLACEHOLDER;
            }
            recordings.read(&name).map_or_else(
                |Wrong { place, problem }| {
                    rate.wrong("trace", place.as_ref().unwrap_or(rate.place_of("trace")), problem);
                    PLACEHOLDER
                },
                RateSpec::Recorded,
            )
        }
        data => Kind::Rate.read(data).map_or_else(
            |rate| {
                // Who writes text means a rate; whoever does not is told all that there is.
                let expected = if matches!(data, Data::Text(_)) { rate } else { Kind::Service.expected() };
                let found = data.found();
                section.wrong("rate", &value.place, Problem::Value { found, expected });
                PLACEHOLDER
            },
            |rate| RateSpec::Constant(rate.rate()),
        ),
    }
}

/// A list of times and values, each of `kind`: from zero on, each later than the one before. `None` after a mistake.
fn steps<T>(
    section: &Section<'_>,
    field: &str,
    list: &Value,
    items: &[Value],
    kind: Kind,
    value: fn(&Setting) -> T,
) -> Option<Arc<[(Time, T)]>> {
    let wrong = |place, found: String, expected: String| {
        section.wrong(field, place, Problem::Value { found, expected });
        None
    };
    if items.is_empty() || items.len() > STEPS_MAX {
        let found = format!("{} steps", items.len());
        return wrong(&list.place, found, format!("at least one and at most {STEPS_MAX}, the first at \"0s\""));
    }
    let mut steps: Vec<(Time, T)> = Vec::with_capacity(items.len());
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
        match kind.read(&of.data) {
            Ok(setting) => steps.push((span, value(&setting))),
            Err(what) => return wrong(&of.place, of.data.found(), what),
        }
    }
    Some(steps.into())
}

/// The field `header_compression` of a link or direction.
pub(super) fn compression(chosen: Setting) -> HeaderCompression {
    match chosen.text().as_str() {
        "vj" => HeaderCompression::Vj,
        "twice" => HeaderCompression::Twice,
        _ => HeaderCompression::None,
    }
}

/// How many copies something has.
pub(super) fn copies(given: Setting) -> u32 {
    u32::try_from(given.count()).expect("the field's range fits 32 bits")
}

/// The field `loss` of a link, direction or channel: a probability, steps of it, or a table.
pub(super) fn loss(section: &Section<'_>) -> LossSpec {
    let Some(value) = section.table.get("loss") else { return LossSpec::None };
    if let Data::List(items) = &value.data {
        return steps(section, "loss", value, items, Kind::Chance, |setting| setting.chance())
            .map_or(LossSpec::None, LossSpec::Steps);
    }
    let Data::Table(table) = &value.data else {
        return match Kind::Chance.read(&value.data) {
            Ok(chance) => bernoulli(chance.chance()),
            Err(_) => {
                let (found, expected) = (value.data.found(), Kind::Loss.expected());
                section.wrong("loss", &value.place, Problem::Value { found, expected });
                LossSpec::None
            }
        };
    };
    let model = Section::open(section.log, &fields::LOSS, format!("{}loss.", section.prefix), &value.place, table);
    match model.tag.as_deref() {
        Some("bit") => LossSpec::Bit(model.setting("rate").chance()),
        Some("gilbert-elliott") => LossSpec::GilbertElliott {
            good_to_bad: model.setting("good_to_bad").chance(),
            bad_to_good: model.setting("bad_to_good").chance(),
            loss_good: model.setting("loss_good").chance(),
            loss_bad: model.setting("loss_bad").chance(),
        },
        Some("list") => LossSpec::List(model.setting("packets").numbers()),
        _ => bernoulli(model.setting("rate").chance()),
    }
}

fn bernoulli(chance: Chance) -> LossSpec {
    if chance == Chance::NEVER { LossSpec::None } else { LossSpec::Bernoulli(chance) }
}
