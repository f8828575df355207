//! `headend evaluate`: the Python package does the work, and this starts it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::printing::Format;
use crate::python;

/// Measure what RFC 9743 asks of a congestion control: alone, beside others, and on paths of all sorts
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend evaluate fast --quick\n  \
    headend evaluate backfill --beside cubic,bbr3 --out out/backfill\n  \
    headend evaluate fast --set fast_alpha=12 --only bufferbloat --only beside-one\n  \
    headend evaluate --kernel bbr --runs 1\n\n\
    It takes the Python package headend with its extra `papers`: that of $HEADEND_PYTHON, of an activated environment, or \
    of python3 on the PATH.\n\
    Without --kernel the same command prints the same bytes: everything is simulated, in virtual time.\n\
    Exit codes: 0; 2 for a wrong request or without that package; 1 for a failure; 130 for Ctrl-C.")]
pub(crate) struct Arguments {
    /// The congestion control: a name that a host's `controller` takes
    #[arg(value_name = "CONTROLLER", required_unless_present = "list")]
    controller: Option<String>,

    /// Controls to measure in its place, for comparison; cubic,bbr3 unless given, with --kernel cubic,bbr
    #[arg(long, value_name = "NAME,...")]
    beside: Option<String>,

    /// A field of the evaluated hosts' `tcp` table, such as fast_alpha=12
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    settings: Vec<String>,

    /// The running kernel's control of that name, in real time between hosts in network namespaces: fewer cases, and root
    #[arg(long, conflicts_with_all = ["quick", "threads"])]
    kernel: bool,

    /// Fewer points, fewer runs, and shorter ones
    #[arg(long)]
    quick: bool,

    /// Only this case (see --list)
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,

    /// Seed of the first run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,

    /// Runs of every point, in place of the edition's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,

    /// Runs at a time; as many as cores unless given, and without a say in the results
    #[arg(long = "jobs", alias = "threads", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,

    /// Folder for a page for the browser, evaluation.json, and a card in Markdown
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Form of the output; json is evaluation.json
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// List the cases, and the sections of RFC 9743 that they are for
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    Err(python::EVALUATE.become_it(words(arguments)))
}

/// The request in the words of `python -m headend.evaluate`.
fn words(arguments: &Arguments) -> Vec<OsString> {
    let Arguments { controller, beside, settings, kernel, quick, only, seed, runs, threads, out, format, list } =
        arguments;
    let mut words: Vec<OsString> = vec!["--seed".into(), seed.to_string().into()];
    let valued = |name: &str, value: &dyn std::fmt::Display| OsString::from(format!("--{name}={value}"));
    words.extend(beside.iter().map(|value| valued("beside", value)));
    words.extend(settings.iter().map(|value| valued("set", value)));
    words.extend(only.iter().map(|value| valued("only", value)));
    words.extend(runs.iter().map(|value| valued("runs", value)));
    words.extend(threads.iter().map(|value| valued("jobs", value)));
    words.extend(out.iter().flat_map(|folder| [OsString::from("--out"), folder.into()]));
    words.extend((*format == Format::Json).then(|| "--format=json".into()));
    let flags = [(kernel, "--kernel"), (quick, "--quick"), (list, "--list")];
    words.extend(flags.into_iter().filter(|(given, _)| **given).map(|(_, flag)| flag.into()));
    words.extend(controller.iter().flat_map(|name| [OsString::from("--"), name.into()]));
    words
}
