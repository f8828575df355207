//! A scenario as a command line asks for it: a file and what to change in it.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use clap::Args;

use headend_scenario::{self as scenario, Document, Point};

use crate::failure::Failure;
use crate::{input, printing};

/// Read a scenario and report its mistakes, without running it
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  headend check scenarios/hfc.toml --set links.cable.delay=25ms")]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: ScenarioRequest,
}

/// A scenario file and what to change in it.
#[derive(Args, Debug)]
pub(crate) struct ScenarioRequest {
    /// Scenario file (TOML; see docs/reference/scenario.md), or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Seed of the first run; run r uses seed + r
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Runs of every point
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,

    /// Set a field of the scenario, such as links.cable.down.loss=1%
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) settings: Vec<(String, String)>,

    /// Sweep a field over values, such as flows.get.bytes=30KB,300KB; several sweeps run every combination
    #[arg(long = "sweep", value_name = "PATH=V1,V2", value_parser = assignment)]
    pub(crate) sweeps: Vec<(String, String)>,
}

impl ScenarioRequest {
    /// The scenario as asked for, and all its points, checked.
    ///
    /// Reads in a thread of its own. Allocators keep what one thread gave back for itself, or for a thread that comes
    /// after it, as the first worker of a sweep does: of a large scenario 7 KiB a flow with its hosts and links, which
    /// here would lie idle for the rest of the run.
    pub(crate) fn read(&self) -> Result<(Document, Vec<Point>), Failure> {
        thread::scope(|scope| scope.spawn(|| self.read_as(|document| document)).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The same of a scenario that need not have flows.
    pub(crate) fn read_links(&self) -> Result<(Document, Vec<Point>), Failure> {
        self.read_as(Document::of_links_alone)
    }

    /// The same as [`read`](ScenarioRequest::read) of a scenario whose flows may be such as only real hosts can run.
    pub(crate) fn read_for_real_hosts(&self) -> Result<(Document, Vec<Point>), Failure> {
        self.read_as(Document::for_real_hosts)
    }

    fn read_as(&self, what: impl FnOnce(Document) -> Document) -> Result<(Document, Vec<Point>), Failure> {
        let (name, text) = input::read(&self.file)?;
        let read = || self.points_of(what(Document::parse(&name, &text)?.beside(&self.file)));
        read().map_err(|error| match error {
            scenario::Error::Wrong(_) => Failure::wrong_in(&name, &text, error.to_string()),
            scenario::Error::Read { .. } => Failure::from(error),
        })
    }

    fn points_of(&self, mut document: Document) -> Result<(Document, Vec<Point>), scenario::Error> {
        if let Some(seed) = self.seed {
            document.set("seed", &seed.to_string())?;
        }
        if let Some(runs) = self.runs {
            document.set("runs", &runs.to_string())?;
        }
        for (path, value) in &self.settings {
            document.set(path, value)?;
        }
        for (path, values) in &self.sweeps {
            document.sweep(path, &values_of(values));
        }
        let points = document.points()?;
        Ok((document, points))
    }
}

/// `headend check`
pub(crate) fn check(arguments: &Arguments) -> Result<(), Failure> {
    let (_, points) = arguments.request.read_links()?;
    let scenario = &points[0].scenario;
    let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let parts = [
        count(scenario.nodes.len(), "node"),
        count(scenario.links.len(), "link"),
        count(scenario.flows.len(), "flow"),
        count(points.len(), "point"),
        format!("{} of each", count(scenario.runs as usize, "run")),
    ];
    printing::print(|out| writeln!(out, "{}: {}", arguments.request.file.display(), parts.join(", ")))
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    let (path, value) = text.split_once('=').ok_or("expected PATH=VALUE, such as runs=5")?;
    Ok((path.trim().to_owned(), value.trim().to_owned()))
}

/// The values between commas; a comma within quotes, brackets or braces separates nothing.
fn values_of(text: &str) -> Vec<&str> {
    let mut values = Vec::new();
    let (mut start, mut depth, mut quote) = (0, 0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                values.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    values.push(text[start..].trim());
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_tables_lists_and_quotes_do_not_separate_values() {
        assert_eq!(values_of("1%, 2%"), ["1%", "2%"]);
        let table = "{ model = \"list\", packets = [11, 14] }";
        assert_eq!(values_of(&format!("0%,{table}")), ["0%", table]);
        assert_eq!(values_of("\"a,b\",c"), ["\"a,b\"", "c"]);
        assert_eq!(values_of("]],},'"), ["]]", "}", "'"]);
        assert_eq!(values_of(""), [""]);
    }

    #[test]
    fn the_value_of_a_setting_may_hold_equals_signs() {
        let expected = ("links.a.loss".to_owned(), "{ model = \"bit\" }".to_owned());
        assert_eq!(assignment("links.a.loss={ model = \"bit\" }"), Ok(expected));
        assert!(assignment("runs").is_err());
    }
}
