//! `headend man`: manual pages, from the same words as `--help`.

use std::path::PathBuf;

use clap::{Args, Command};

use crate::failure::Failure;
use crate::outputs;

/// Write the manual pages, one for each subcommand
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  headend man --out ~/.local/share/man/man1 && man headend-sim")]
pub(crate) struct Arguments {
    /// The folder to write headend.1, headend-sim.1, ... to; what is there under these names is replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, command: Command) -> Result<(), Failure> {
    let folder = &arguments.out;
    outputs::make_folder(folder)?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), folder).map_err(|error| Failure::io(folder, error))
}
