//! `headend plot`: the Python package draws, and this starts it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::python;

/// Draw medians over the runs with their 95% intervals, against what was swept
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend plot out/hfc\n  \
    headend plot out/hfc --y timeouts --x links.cable.down.loss -o timeouts.pdf\n  \
    headend plot scenarios/hfc.toml --y transfer_s -o transfer.svg\n\n\
    It takes the Python package headend with its extra `plot`, found as `headend evaluate` finds it.\n\
    Exit codes: 0; 2 for a wrong request or without that package; 1 for a failure; 130 for Ctrl-C.")]
pub(crate) struct Arguments {
    /// What sim, lab (--out) or `Result.save` wrote, or a store; or a scenario, which is simulated first
    #[arg(value_name = "DIR|FILE")]
    results: PathBuf,

    /// A column of the table of flows [default: goodput_bps]
    #[arg(short, long, value_name = "COLUMN")]
    y: Option<String>,

    /// A swept field, if several are; or a column
    #[arg(short, long, value_name = "SWEPT")]
    x: Option<String>,

    /// What has a line for each value [default: all else that differs]
    #[arg(long, value_name = "SWEPT")]
    by: Option<String>,

    /// The file: .svg, .pdf or .png [default: Y.svg in DIR, or here]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { results, y, x, by, out } = arguments;
    let texts = [("--y", y), ("--x", x), ("--by", by)];
    let mut words: Vec<OsString> =
        texts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?).into())).collect();
    words.extend(out.iter().flat_map(|file| [OsString::from("--out"), file.into()]));
    words.extend([OsString::from("--"), results.into()]);
    Err(python::PLOT.become_it(words))
}
