//! The `headend` command. Results go to stdout and messages to stderr; the exit code is 0, 2 for a wrong request, 1 for
//! a failure and 130 for an interruption.

mod failure;
#[cfg(target_os = "linux")]
mod lab;
mod outputs;
mod personalities;
mod request;
mod sim;
mod size;
mod summary;
mod text;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// TCP over access networks that lose packets: what a sender, a buffer or a timer gains.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sim(sim::Arguments),
    #[cfg(target_os = "linux")]
    Lab(lab::Arguments),
    Check(request::Arguments),
    Size(size::Arguments),
    Personalities(personalities::Arguments),
    /// Print the JSON Schema of scenario files
    Schema,
    /// Print completions for a shell
    #[command(after_help = "Example:\n  headend completions bash > ~/.local/share/bash-completion/completions/headend")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::Sim(arguments) => sim::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Check(arguments) => request::check(&arguments),
        Command::Size(arguments) => size::run(&arguments),
        Command::Personalities(arguments) => personalities::run(&arguments),
        Command::Schema => outputs::print(|out| out.write_all(headend_sim::scenario::schema::text().as_bytes())),
        Command::Completions { shell } => outputs::print(|out| {
            clap_complete::generate(shell, &mut Arguments::command(), "headend", out);
            Ok(())
        }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                eprintln!("{message}");
            }
            failure.code()
        }
    }
}
