//! A meter that shows a sweep's progress to a person: a bar on a terminal, else a line now and then; always on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Progress;

/// The shortest time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how far a sweep has come.
#[derive(Debug)]
pub struct Meter {
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl Default for Meter {
    fn default() -> Self {
        Meter::new()
    }
}

impl Meter {
    /// A meter on stderr that shows nothing until it is told something.
    pub fn new() -> Meter {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs  {elapsed} elapsed  {eta} left");
            ProgressBar::no_length().with_style(style.expect("the template is well-formed"))
        });
        Meter { bar, last_line: Instant::now() }
    }

    /// Shows `at`.
    pub fn show(&mut self, at: Progress) {
        if let Some(bar) = &self.bar {
            bar.set_length(at.total as u64);
            bar.set_position(at.done as u64);
        } else if self.last_line.elapsed() >= LINE_EVERY {
            eprintln!("{} of {} runs finished", at.done, at.total);
            self.last_line = Instant::now();
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
