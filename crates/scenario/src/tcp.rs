//! The fields of a personality, as scenarios name them: the registry of what `tcp` tables may say.

mod options;

use std::sync::LazyLock;

use headend_engine::cc::Algorithm;
use headend_engine::part::{Mistake, Values};
use headend_engine::tcp::personality::{Personality, Recovery};
use headend_engine::units::Bytes;

use super::fields::part::of_family;
use super::fields::{Absent, Field, Kind, Shape};
use super::read::default_setting;
use super::setting::Setting;
pub use options::{OPTIONS, TcpOption};

/// A personality while its fields are being set. Parameters of controllers that it does not name are kept as well, so that
/// they survive a change of the controller's name.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The personality as set so far, with the controller of the one from which it differs.
    personality: Personality,
    /// The name of another controller, if one was given.
    controller: Option<String>,
    /// The parameters of controllers that were given.
    parameters: Vec<(&'static str, Setting)>,
}

/// The `tcp` table of a node.
pub static SHAPE: Shape = Shape { name: "tcp", tag: None, fields };

/// All fields, in the order in which they are applied, so that a set of values stands before its parts.
pub fn fields() -> &'static [Field] {
    &FIELDS
}

/// The field behind which those of congestion control stand.
const BEFORE_CONTROLLER: &str = "recovery";
/// The meaning of a field that is not given.
const INHERITED: Absent = Absent::Follows("the personality's");

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let others = || OPTIONS.iter().map(|option| option.field);
    let first = 1 + others().position(|field| field.name == BEFORE_CONTROLLER).expect("it is one of the options");
    let others = || others().map(|field| if field.name == BEFORE_CONTROLLER { told_of_each(field) } else { field });
    others().take(first).chain(CONTROLLER.iter().copied()).chain(others().skip(first)).collect()
});

/// The choice of a recovery, with what each of them is.
fn told_of_each(field: Field) -> Field {
    let each = Recovery::ALL.iter().map(|recovery| format!(" `{}`: {}", recovery.name(), recovery.doc()));
    Field { doc: format!("{}{}", field.doc, each.collect::<String>()).leak(), ..field }
}

/// The controller's name, and the parameters of all of them.
static CONTROLLER: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = Kind::Choice(|| Algorithm::ALL.iter().map(|algorithm| algorithm.name).collect());
    let tag = Field { name: "controller", kind: names, absent: INHERITED, only: &[], doc: "" };
    let inherit = |field: Field| {
        let doc = match field.only {
            [] => format!("Congestion control. {}", field.doc),
            only => format!("With `controller = \"{}\"`: {}", only.join("\"` or `\""), field.doc),
        };
        Field { absent: INHERITED, only: &[], doc: doc.leak(), ..field }
    };
    of_family(tag, Algorithm::ALL).into_iter().map(inherit).collect()
});

static WITH_BASE: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let base = Field {
        name: "base",
        kind: Kind::Choice(names),
        absent: Absent::Is("linux"),
        only: &[],
        doc: "The built-in personality from which this one differs.",
    };
    std::iter::once(base).chain(FIELDS.iter().copied()).collect()
});

/// The fields of a personality of the scenario's own: what it differs from, and how.
pub(super) fn with_base() -> &'static [Field] {
    &WITH_BASE
}

/// The names of the built-in personalities.
pub(super) fn names() -> Vec<&'static str> {
    Personality::ALL.iter().map(|(name, _)| *name).collect()
}

impl From<Personality> for Draft {
    fn from(personality: Personality) -> Draft {
        Draft { personality, controller: None, parameters: Vec::new() }
    }
}

impl Draft {
    /// Gives a field a value of its kind.
    pub(super) fn set(&mut self, field: &'static str, setting: Setting) {
        if let Some(option) = OPTIONS.iter().find(|option| option.field.name == field) {
            (option.set)(&mut self.personality, setting);
        } else if field == CONTROLLER[0].name {
            self.controller = Some(setting.text());
        } else {
            self.parameters.retain(|(known, _)| *known != field);
            self.parameters.push((field, setting));
        }
    }

    /// A field's value, as a scenario writes it.
    pub fn show(&self, field: &Field) -> String {
        if let Some(option) = OPTIONS.iter().find(|option| option.field.name == field.name) {
            (option.show)(&self.personality)
        } else if field.name == CONTROLLER[0].name {
            self.controller().to_owned()
        } else {
            self.parameter(field.name).map_or_else(|| "none".into(), |value| field.kind.written(&value))
        }
    }

    fn controller(&self) -> &str {
        self.controller.as_deref().unwrap_or(self.personality.controller.name())
    }

    /// The value of a controller's parameter: as it was given, or as the base has it, or its default.
    fn parameter(&self, name: &str) -> Option<Setting> {
        let given = self.parameters.iter().find(|(known, _)| *known == name).map(|(_, setting)| setting.clone());
        given.or_else(|| self.personality.controller.values().given(name).cloned()).or_else(|| {
            let field =
                Algorithm::ALL.iter().flat_map(|algorithm| algorithm.fields).find(|field| field.name == name)?;
            let Absent::Is(text) = field.absent else { return None };
            let field = FIELDS.iter().find(|known| known.name == name)?;
            Some(default_setting(field, text))
        })
    }

    /// The personality with what was set, or what is wrong with its values, in words.
    pub(super) fn finish(self) -> Result<Personality, String> {
        let mut personality = self.personality.clone();
        if self.controller.is_some() || !self.parameters.is_empty() {
            // Those of the others are checked as well: a sweep may choose one of them.
            for algorithm in Algorithm::ALL {
                let read = self.algorithm(algorithm.name)?;
                let is_own = self.controller.is_none() && matches!(personality.controller, Algorithm::Custom(_));
                if algorithm.name == self.controller() && !is_own {
                    personality.controller = read;
                }
            }
        }
        contradiction(&personality).map_or(Ok(personality), Err)
    }

    fn algorithm(&self, name: &str) -> Result<Algorithm, String> {
        let description = Algorithm::ALL.iter().find(|algorithm| algorithm.name == name).expect("one of the registry");
        let values = description.fields.iter().filter_map(|field| Some((field.name, self.parameter(field.name)?)));
        let read = Algorithm::read(name, &Values::new(values.collect())).expect("one of the registry");
        read.map_err(|Mistake { field, text }| format!("{field} {text}"))
    }
}

/// Says, in words, why a personality cannot work; `None` if it can.
fn contradiction(p: &Personality) -> Option<String> {
    let short = |name: &str, buffer: Bytes| {
        (buffer < p.mss).then(|| format!("{name} = {buffer} holds no segment of mss = {}", p.mss))
    };
    short("send_buffer", p.send_buffer)
        .or_else(|| short("receive_buffer", p.receive_buffer))
        .or_else(|| (p.rto.min > p.rto.max).then(|| format!("rto_min = {} is over rto_max = {}", p.rto.min, p.rto.max)))
        .or_else(|| {
            let lacks_sack = p.recovery.needs_sack() && !p.sack;
            lacks_sack.then(|| format!("recovery = {:?} needs sack = true", p.recovery.name()))
        })
}
