//! The columns of every table, described where they are filled: name, unit, meaning and value in one line each.

use std::borrow::Borrow;
use std::fmt::Write as _;
use std::sync::Arc;

use super::{Column, Interner, RunOutcome, Swept, Table, circuits, flows, intervals, links, media, trace};

/// A column of a table whose rows are made from `Row`s.
pub(super) struct ColumnOf<Row> {
    definition: Definition,
    value: Value<Row>,
}

/// The published definition of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The column's name, which ends in the unit if that is one of time, rate or size.
    pub name: &'static str,
    /// The unit, such as "s"; empty for a name or a number without a unit.
    pub unit: &'static str,
    /// One or more whole sentences.
    pub meaning: &'static str,
}

/// Takes a column's value from a row and the run that it belongs to.
enum Value<Row> {
    Count(fn(&RunOutcome, &Row) -> u64),
    Number(fn(&RunOutcome, &Row) -> f64),
    Name(fn(&Row) -> &str),
}

/// A column of counts, sizes or indices.
pub(super) const fn count<Row>(
    name: &'static str,
    unit: &'static str,
    value: fn(&RunOutcome, &Row) -> u64,
    meaning: &'static str,
) -> ColumnOf<Row> {
    ColumnOf { definition: Definition { name, unit, meaning }, value: Value::Count(value) }
}

/// A column of times, rates or ratios, in which NaN stands for "no value".
pub(super) const fn number<Row>(
    name: &'static str,
    unit: &'static str,
    value: fn(&RunOutcome, &Row) -> f64,
    meaning: &'static str,
) -> ColumnOf<Row> {
    ColumnOf { definition: Definition { name, unit, meaning }, value: Value::Number(value) }
}

/// A column of names.
pub(super) const fn name<Row>(name: &'static str, value: fn(&Row) -> &str, meaning: &'static str) -> ColumnOf<Row> {
    ColumnOf { definition: Definition { name, unit: "", meaning }, value: Value::Name(value) }
}

/// The rows of one table, each with its run.
pub(super) fn rows<Row>(runs: &[RunOutcome], of: fn(&RunOutcome) -> &Vec<Row>) -> Vec<(&RunOutcome, &Row)> {
    runs.iter().flat_map(|run| of(run).iter().map(move |row| (run, row))).collect()
}

/// A table of these rows: the columns that every table has, then its own.
pub(super) fn table<Row>(rows: &[(&RunOutcome, impl Borrow<Row>)], own: &[ColumnOf<Row>], swept: &[Swept]) -> Table {
    let mut table = Table::default();
    let mut names = Interner::default();
    let [point, run_and_seed @ ..] = &COMMON;
    point.fill(rows, &mut table, &mut names, |(run, _)| (*run, &()));
    for (path, values) in swept {
        table.push(path.clone(), Column::Text(rows.iter().map(|(run, _)| values[run.point].clone()).collect()));
    }
    for column in run_and_seed {
        column.fill(rows, &mut table, &mut names, |(run, _)| (*run, &()));
    }
    for column in own {
        column.fill(rows, &mut table, &mut names, |(run, row)| (*run, row.borrow()));
    }
    table
}

/// The same; `None` if there is no row.
pub(super) fn table_if_any<Row>(rows: &[(&RunOutcome, &Row)], own: &[ColumnOf<Row>], swept: &[Swept]) -> Option<Table> {
    (!rows.is_empty()).then(|| table(rows, own, swept))
}

impl<Row> ColumnOf<Row> {
    fn fill<'a, Item>(
        &self,
        items: &'a [Item],
        table: &mut Table,
        names: &mut Interner,
        parts: impl Fn(&'a Item) -> (&'a RunOutcome, &'a Row),
    ) where
        Row: 'a,
    {
        let parts = items.iter().map(parts);
        let column = match self.value {
            Value::Count(of) => Column::U64(parts.map(|(run, row)| of(run, row)).collect()),
            Value::Number(of) => Column::F64(parts.map(|(run, row)| of(run, row)).collect()),
            Value::Name(of) => Column::Text(parts.map(|(_, row)| names.intern(of(row))).collect::<Vec<Arc<str>>>()),
        };
        table.push(self.definition.name, column);
    }
}

/// The columns that begin every table; the swept fields follow the first.
const COMMON: [ColumnOf<()>; 3] = [
    count(
        "point",
        "",
        |run, ()| run.point as u64,
        "Point of the sweep, from 0. Behind it stands a column for each swept field, called by its path, with the field's value as text.",
    ),
    count("run", "", |run, ()| run.run, "Run of the point, from 0."),
    count("seed", "", |run, ()| run.seed, "Seed of the run: the scenario's, and `run` more."),
];

/// All tables: what each is called, when there is one and what a row is, and its columns.
pub fn all() -> Vec<(&'static str, &'static str, Vec<Definition>)> {
    vec![
        ("common", "Every table begins with these columns.", definitions(&COMMON)),
        ("flows", "A row for each instance of each flow of each run.", definitions(flows::COLUMNS)),
        ("links", "A row for each direction of each link of each run.", definitions(links::COLUMNS)),
        (
            "circuits",
            "A row for each circuit of each run, if the scenario has circuits or flows over them.",
            definitions(circuits::COLUMNS),
        ),
        (
            "media",
            "A row for each instance of each flow of kind `media` of each run, if there are any.",
            definitions(media::COLUMNS),
        ),
        (
            "intervals",
            "A row for each instance of a flow and each direction of a link in each span of time, if the scenario has an `interval`.",
            definitions(intervals::COLUMNS),
        ),
        (
            "series",
            "With `--trace` (in Python `trace=True`, and the table is `trace`): a row for each change of a sender's state.",
            definitions(trace::SERIES),
        ),
        (
            "packets",
            "With `--trace` (in Python `trace=True`): a row for each thing that happened to a packet.",
            definitions(trace::PACKETS),
        ),
    ]
}

fn definitions<Row>(columns: &[ColumnOf<Row>]) -> Vec<Definition> {
    columns.iter().map(|column| column.definition).collect()
}

/// The reference page's part between its markers.
pub fn page() -> String {
    let mut text = String::new();
    for (table, rows, columns) in all() {
        let _ = write!(text, "\n## {table}\n\n{rows}\n\n| column | unit | meaning |\n|---|---|---|\n");
        for Definition { name, unit, meaning } in columns {
            let _ = writeln!(text, "| `{name}` | {unit} | {meaning} |");
        }
    }
    text.push('\n');
    text
}
