//! Sweeps: axes of values, and the points that they span.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::document::{Data, Document, Table, Value};
use super::error::{Error, Mistake, Place, Problem};
use super::fields::{Kind, POINTS_MAX, RUNS_MAX, VALUES_MAX};
use super::read::{self, Log};
use super::{Axis, Point, Scenario, Sweep};

/// Top-level fields that are the same for all points.
const FIXED: &[&str] = &["title", "seed", "runs", "sweep"];

impl Document {
    /// Sweeps the field at `path` over `values`, each TOML if it parses as such, else the text itself. An earlier sweep
    /// of the same path is replaced; a new one varies faster than those before.
    pub fn sweep(&mut self, path: &str, values: &[&str]) {
        let place = Place::Request("sweep".into());
        let items = values.iter().map(|text| Value::from_request(place.clone(), text)).collect();
        let list = Value { place: place.clone(), data: Data::List(items) };
        let table = self.root.get_or_insert("sweep", || Value { place, data: Data::Table(Table::default()) });
        // Something else than a table is reported when the document is read.
        if let Data::Table(axes) = &mut table.data {
            axes.put(path, list);
        }
    }

    /// Every point of its sweep, read and checked: one without a sweep. The first axis varies slowest.
    pub fn points(&self) -> Result<Vec<Point>, Error> {
        let plan = Plan::new(self)?;
        let first = plan.read(&plan.choice(0))?;
        let points = plan.check_size(&first)?;
        let mut known = plan.check_values()?;
        known.insert(0, first);
        let point = |index| -> Result<Point, Error> {
            let choice = plan.choice(index);
            let scenario = known.remove(&index).map_or_else(|| plan.read(&choice), Ok)?;
            Ok(Point { index, settings: plan.settings(&choice), scenario })
        };
        (0..points).map(point).collect()
    }

    /// Reads the scenario, every point of its sweep checked. The fields are those of the first point.
    pub fn scenario(&self) -> Result<Scenario, Error> {
        let sweep = Plan::new(self)?.sweep();
        let first = self.points()?.swap_remove(0).scenario;
        Ok(Scenario { sweep, ..first })
    }
}

/// An axis with its values as they stand in the document.
struct Written {
    path: String,
    values: Vec<Value>,
}

/// A document taken apart: what it says without its sweep, and the sweep.
struct Plan<'a> {
    /// A copy only if there is a sweep to be left out: a large document takes a while and some memory to copy.
    base: Cow<'a, Document>,
    axes: Vec<Written>,
    /// The place where the sweep is written.
    place: Place,
}

impl<'a> Plan<'a> {
    fn new(document: &'a Document) -> Result<Plan<'a>, Error> {
        let place = document.root.get("sweep").map(|value| value.place.clone());
        let place = place.unwrap_or(Place::Line { file: document.name.clone(), line: 0 });
        let axes = axes(document)?;
        let mut base = Cow::Borrowed(document);
        if base.root.get("sweep").is_some() {
            base.to_mut().root.0.retain(|(name, _)| name != "sweep");
        }
        Ok(Plan { base, axes, place })
    }

    /// The sweep as a scenario has it.
    fn sweep(&self) -> Sweep {
        let shown = |axis: &Written| Axis {
            path: axis.path.clone(),
            values: axis.values.iter().map(|value| value.data.shown()).collect(),
        };
        Sweep { axes: self.axes.iter().map(shown).collect() }
    }

    /// The scenario in which each axis has the value of this number.
    fn at(&self, choice: &[usize]) -> Result<Scenario, Error> {
        let mut document = self.base.clone();
        for (axis, &value) in self.axes.iter().zip(choice) {
            document.to_mut().set_value(&axis.path, &axis.values[value])?;
        }
        read::scenario(&document)
    }

    /// The number of the value that point `index` has on each axis.
    fn choice(&self, index: usize) -> Vec<usize> {
        let mut rest = index;
        let mut choice = vec![0; self.axes.len()];
        for (chosen, axis) in choice.iter_mut().zip(&self.axes).rev() {
            *chosen = rest % axis.values.len();
            rest /= axis.values.len();
        }
        choice
    }

    /// The point at which each axis has the value of this number.
    fn index(&self, choice: &[usize]) -> usize {
        self.axes.iter().zip(choice).fold(0, |index, (axis, &value)| index * axis.values.len() + value)
    }

    fn settings(&self, choice: &[usize]) -> Vec<(String, String)> {
        let chosen = self.axes.iter().zip(choice);
        chosen.map(|(axis, &value)| (axis.path.clone(), axis.values[value].data.shown())).collect()
    }

    /// Refuses a sweep that is too large, before it is laid out.
    fn check_size(&self, first: &Scenario) -> Result<usize, Error> {
        let points = self.axes.iter().fold(1_usize, |n, axis| n.saturating_mul(axis.values.len()));
        let runs = (points as u64).saturating_mul(u64::from(first.runs));
        let values = points.saturating_mul(self.base.root.values());
        let (found, expected) = if points > POINTS_MAX {
            (format!("{points} points"), format!("at most {POINTS_MAX}"))
        } else if runs > RUNS_MAX {
            (format!("{points} points of {} runs", first.runs), format!("at most {RUNS_MAX} runs in all"))
        } else if points > 1 && values > VALUES_MAX {
            let expected = format!("at most {VALUES_MAX} values in all points together");
            (format!("{points} points with {values} values"), expected)
        } else {
            return Ok(points);
        };
        let problem = Problem::Value { found, expected };
        Err(Error::from(Mistake { place: self.place.clone(), field: "sweep".into(), problem }))
    }

    /// The scenarios of every value of each axis with the others at their first, by the index of the point; or all mistakes
    /// at once.
    fn check_values(&self) -> Result<BTreeMap<usize, Scenario>, Error> {
        let log = Log::default();
        let mut known = BTreeMap::new();
        let mut choice = self.choice(0);
        for (i, axis) in self.axes.iter().enumerate() {
            for value in 1..axis.values.len() {
                choice[i] = value;
                match self.read(&choice) {
                    Ok(scenario) => drop(known.insert(self.index(&choice), scenario)),
                    Err(Error::Wrong(mistakes)) => {
                        mistakes.listed.into_iter().for_each(|m| log.add(&m.place, m.field, m.problem));
                    }
                    Err(error) => return Err(error),
                }
            }
            choice[i] = 0;
        }
        log.into_result(known)
    }

    /// The scenario in which each axis has the value of this number. Values that are each right may contradict each
    /// other, or ask too much of the network: then the message names the point.
    fn read(&self, choice: &[usize]) -> Result<Scenario, Error> {
        self.at(choice).map_err(|error| match error {
            Error::Wrong(mut mistakes) => {
                let settings = self.settings(choice);
                let at: Vec<String> = settings.iter().map(|(path, value)| format!("{path} = {value}")).collect();
                for mistake in mistakes.listed.iter_mut().filter(|mistake| self.depends(mistake, choice)) {
                    let text = format!("{} (at the point {})", mistake.problem, at.join(", "));
                    mistake.problem = Problem::Contradiction(text);
                }
                Error::Wrong(mistakes)
            }
            error => error,
        })
    }

    /// True if a mistake at a point need not be one at every other. That of a swept value itself says so already.
    fn depends(&self, mistake: &Mistake, choice: &[usize]) -> bool {
        let is_first = choice.iter().all(|&value| value == 0);
        let mut chosen = self.axes.iter().zip(choice).map(|(axis, &value)| &axis.values[value].place);
        let is_swept = matches!(mistake.problem, Problem::Value { .. }) && chosen.any(|place| *place == mistake.place);
        let table = |path: &str| path.rsplit_once('.').map_or(String::new(), |(table, _)| table.to_owned());
        let is_beside = || self.axes.iter().any(|axis| table(&axis.path) == table(&mistake.field));
        let may_differ = !is_first || matches!(mistake.problem, Problem::Contradiction(_)) || is_beside();
        !self.axes.is_empty() && !is_swept && may_differ
    }
}

/// The axes that a document asks for.
fn axes(document: &Document) -> Result<Vec<Written>, Error> {
    let log = Log::default();
    let mut axes = Vec::new();
    match document.root.get("sweep") {
        None => {}
        Some(Value { data: Data::Table(table), .. }) => collect(table, "", &log, &mut axes),
        Some(value) => {
            let problem = Problem::Value { found: value.data.found(), expected: Kind::Sweep.expected() };
            log.add(&value.place, "sweep".into(), problem);
        }
    }
    log.into_result(axes)
}

/// The lists of a table and of those in it: `"links.cable.delay" = [..]` and `links.cable.delay = [..]` are the same.
fn collect(table: &Table, prefix: &str, log: &Log, axes: &mut Vec<Written>) {
    for (name, value) in &table.0 {
        let path = format!("{prefix}{name}");
        let problem = match &value.data {
            Data::Table(inner) => {
                collect(inner, &format!("{path}."), log, axes);
                continue;
            }
            Data::List(_) if FIXED.contains(&path.as_str()) => {
                Problem::Contradiction("is the same for all points and cannot be swept".into())
            }
            Data::List(_) if axes.iter().any(|axis| axis.path == path) => {
                Problem::Contradiction("is swept twice".into())
            }
            Data::List(items) if !items.is_empty() && items.len() <= POINTS_MAX => {
                if let Some(twice) = repeated(items) {
                    let problem = Problem::Contradiction(format!("has the value {} twice", twice.data.found()));
                    log.add(&twice.place, format!("sweep.\"{path}\""), problem);
                }
                axes.push(Written { path, values: items.clone() });
                continue;
            }
            other => {
                let found = other.found();
                Problem::Value { found, expected: format!("a list of 1 to {POINTS_MAX} values") }
            }
        };
        log.add(&value.place, format!("sweep.\"{path}\""), problem);
    }
}

/// The first value that stands before it as well.
fn repeated(values: &[Value]) -> Option<&Value> {
    let mut seen = BTreeSet::new();
    values.iter().find(|value| !seen.insert(value.data.shown()))
}

impl Sweep {
    /// The number of points: 1 without axes.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }
}
