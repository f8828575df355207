//! The Python package, which some commands hand their work to.

#[cfg(unix)]
use std::ffi::OsString;
#[cfg(unix)]
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::failure::Failure;
use crate::outputs::{self, ResultsFolder};

/// A module of the package that can be run, and what it takes.
#[derive(Debug)]
pub(crate) struct Module {
    name: &'static str,
    /// What of it reads a command line, and how it is called.
    main: &'static str,
    call: &'static str,
    /// The package's extra with what it needs.
    extra: &'static str,
}

#[cfg(unix)]
pub(crate) const EVALUATE: Module =
    Module { name: "headend.evaluate.cli", main: "main", call: "main()", extra: "papers" };
#[cfg(unix)]
pub(crate) const PLOT: Module =
    Module { name: "headend.plot", main: "app", call: "app(prog_name='headend plot')", extra: "plot" };
const REPORT: Module = Module { name: "headend.report.__main__", main: "app", call: "app()", extra: "report" };

impl Module {
    /// The Python that is to be asked, with a program that says what is missing where the package is not; else it calls the module.
    fn command(&self) -> Command {
        self.program(&format!("sys.exit({})", self.call))
    }

    /// The same that does something else where all is there.
    fn program(&self, then: &str) -> Command {
        let Module { name, main, extra, .. } = self;
        let program = format!(
            "
import sys
try:
    from {name} import {main}
except ModuleNotFoundError as missing:
    sys.stderr.write(f'error: {{sys.executable}} has no module {{missing.name}}. It takes the Python package headend '
                     'with its extra `{extra}`: activate the environment that has it (source .venv/bin/activate), or name its '
                     'Python in HEADEND_PYTHON\\n')
    sys.exit(2)
{then}
"
        );
        let mut command = Command::new(interpreter());
        // -P: no module of the folder that this happens to be run in, which may be anybody's.
        command.args(["-P", "-c", &program]);
        if let Ok(binary) = std::env::current_exe() {
            command.env("HEADEND_BINARY", binary);
        }
        command
    }

    /// Lets the module take this process's place, so that signals and the exit code are its own. Returns if it cannot.
    #[cfg(unix)]
    pub(crate) fn become_it(&self, words: impl IntoIterator<Item = OsString>) -> Failure {
        cannot_start(&self.command().args(words).exec())
    }
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Failure::Wrong(format!(
        "cannot start {}: {error}. Name a Python that has the package headend in HEADEND_PYTHON",
        interpreter().display()
    ))
}

/// The Python that is named, that of the environment in which this command is, that of the activated environment, or the PATH's.
fn interpreter() -> PathBuf {
    let set = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty());
    let named = || set("HEADEND_PYTHON").map(PathBuf::from);
    let activated = || set("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python"));
    named().or_else(beside).or_else(activated).unwrap_or_else(|| PathBuf::from("python3"))
}

/// The Python of the virtual environment into which this command was installed, if it was.
fn beside() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.to_owned();
    folder.join("../pyvenv.cfg").exists().then(|| folder.join("python"))
}

/// Results that are to be shown in a browser.
#[derive(Args, Debug)]
pub(crate) struct ReportRequest {
    /// Write a page for the browser with plots of the results, DIR/index.html; the results go to DIR/results unless --out says otherwise
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// What every report has, and no other folder.
const STUDY: &str = "study.json";

impl ReportRequest {
    /// The report asked for and the folder of results, both possible; before anything is run.
    pub(crate) fn folders(
        &self,
        out: Option<&Path>,
        force: bool,
    ) -> Result<(Option<ResultsFolder>, Option<Report>), Failure> {
        let Some(page) = &self.report else {
            return Ok((out.map(|path| ResultsFolder::new(path, force)).transpose()?, None));
        };
        outputs::check_folder(page)?;
        let is_empty = std::fs::read_dir(page).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty && !page.join(STUDY).is_file() {
            let text = format!("--report {}: is not empty and holds no report (no {STUDY})", page.display());
            return Err(Failure::Wrong(text));
        }
        let results = out.map_or_else(|| page.join("results"), Path::to_owned);
        let folder = ResultsFolder::new(&results, force)?;
        let tried = REPORT.program("").output().map_err(|error| cannot_start(&error))?;
        if !tried.status.success() {
            return Err(Failure::Wrong(said(&tried.stderr)));
        }
        Ok((Some(folder), Some(Report { page: page.clone(), results })))
    }
}

/// A report that is to be made of results.
#[derive(Debug)]
pub(crate) struct Report {
    page: PathBuf,
    results: PathBuf,
}

impl Report {
    /// Makes the page, and says on stderr where it is: stdout is for results.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        let words = [Path::new("--out"), &self.page, Path::new("--"), &self.results];
        let made = REPORT.command().args(words).output().map_err(|error| cannot_start(&error))?;
        if !made.status.success() {
            return Err(Failure::Failed(format!("--report {}: {}", self.page.display(), said(&made.stderr))));
        }
        let page = self.page.join("index.html");
        eprintln!("Open file://{}", page.canonicalize().unwrap_or(page).display());
        Ok(())
    }
}

/// What Python has written on stderr, as a message of this command's.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.trim().strip_prefix("error: ").unwrap_or(text.trim()).to_owned()
}
