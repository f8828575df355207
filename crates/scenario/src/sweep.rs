//! What to vary: axes of values, and the points that they span.

use std::borrow::Cow;

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
        let points = plan.check_size(&plan.at(&plan.choice(0))?)?;
        plan.check_values()?;
        (0..points).map(|index| plan.point(index)).collect()
    }

    /// What it says, every point of its sweep checked. The fields are those of the first point.
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
    /// Where the sweep stands.
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

    /// Which value of each axis point `index` has.
    fn choice(&self, index: usize) -> Vec<usize> {
        let mut rest = index;
        let mut choice = vec![0; self.axes.len()];
        for (chosen, axis) in choice.iter_mut().zip(&self.axes).rev() {
            *chosen = rest % axis.values.len();
            rest /= axis.values.len();
        }
        choice
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

    /// Each value of each axis, with the others at their first: all mistakes at once.
    fn check_values(&self) -> Result<(), Error> {
        let log = Log::default();
        let mut choice = self.choice(0);
        for (i, axis) in self.axes.iter().enumerate() {
            for value in 1..axis.values.len() {
                choice[i] = value;
                if let Err(Error::Wrong(mistakes)) = self.at(&choice) {
                    mistakes.listed.into_iter().for_each(|m| log.add(&m.place, m.field, m.problem));
                }
            }
            choice[i] = 0;
        }
        log.into_result(())
    }

    /// Point `index`. Values that are each right may contradict each other; then the message names the point.
    fn point(&self, index: usize) -> Result<Point, Error> {
        let choice = self.choice(index);
        let settings = self.settings(&choice);
        match self.at(&choice) {
            Ok(scenario) => Ok(Point { index, settings, scenario }),
            Err(Error::Wrong(mut mistakes)) if !settings.is_empty() => {
                let at: Vec<String> = settings.iter().map(|(path, value)| format!("{path} = {value}")).collect();
                for mistake in &mut mistakes.listed {
                    let text = format!("{} (at the point {})", mistake.problem, at.join(", "));
                    mistake.problem = Problem::Contradiction(text);
                }
                Err(Error::Wrong(mistakes))
            }
            Err(error) => Err(error),
        }
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

impl Sweep {
    /// How many points: 1 without axes.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }
}
