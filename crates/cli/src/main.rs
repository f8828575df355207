//! The `headend` command. Results go to stdout and messages to stderr; the exit code is 0, 2 for a wrong request, 1 for
//! a failure and 130 for an interruption.

#[cfg(target_os = "linux")]
mod cc;
#[cfg(target_os = "linux")]
mod compare;
#[cfg(target_os = "linux")]
mod conform;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod emulate;
#[cfg(unix)]
mod evaluate;
mod examples;
mod excerpt;
mod failure;
#[cfg(target_os = "linux")]
mod from_text;
mod input;
#[cfg(target_os = "linux")]
mod lab;
mod manual;
mod meta;
#[cfg(target_os = "linux")]
mod metrics;
mod outputs;
mod personalities;
#[cfg(unix)]
mod plot;
mod printing;
#[cfg(target_os = "linux")]
mod proxy;
mod python;
#[cfg(target_os = "linux")]
mod record;
mod request;
mod signals;
mod sim;
mod size;
mod summary;
#[cfg(target_os = "linux")]
mod trunk;
#[cfg(target_os = "linux")]
mod tunnel;
#[cfg(target_os = "linux")]
mod visitors;

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

/// TCP over access networks that lose packets: what a sender, a buffer or a timer gains.
#[derive(Debug, Parser)]
#[command(name = "headend", version = env!("HEADEND_VERSION"), arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Colours in messages and help
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sim(sim::Arguments),
    #[cfg(unix)]
    Evaluate(evaluate::Arguments),
    #[cfg(unix)]
    Plot(plot::Arguments),
    #[cfg(target_os = "linux")]
    Emulate(emulate::Arguments),
    #[cfg(target_os = "linux")]
    Lab(lab::Arguments),
    #[cfg(target_os = "linux")]
    Compare(compare::Arguments),
    #[cfg(target_os = "linux")]
    Conform(conform::Arguments),
    #[cfg(target_os = "linux")]
    Cc(cc::Arguments),
    #[cfg(target_os = "linux")]
    Proxy(proxy::Arguments),
    #[cfg(target_os = "linux")]
    Trunk(trunk::Arguments),
    #[cfg(target_os = "linux")]
    Record(record::Arguments),
    #[cfg(target_os = "linux")]
    Tunnel(tunnel::Arguments),
    Check(request::Arguments),
    Size(size::Arguments),
    Personalities(personalities::Arguments),
    #[cfg(target_os = "linux")]
    Doctor(doctor::Arguments),
    Examples(examples::Arguments),
    /// Print the JSON Schema of scenario files
    Schema,
    /// Print completions for a shell
    #[command(after_help = "Example:\n  headend completions bash > ~/.local/share/bash-completion/completions/headend")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    Man(manual::Arguments),
}

fn main() -> ExitCode {
    let color = asked_color(std::env::args());
    let parsed = Arguments::command().color(color).try_get_matches().and_then(|m| Arguments::from_arg_matches(&m));
    let arguments = parsed.unwrap_or_else(|error| with_useful_tips(error).exit());
    anstream::ColorChoice::write_global(match arguments.color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    });
    let outcome = match arguments.command {
        Command::Sim(arguments) => sim::run(&arguments),
        #[cfg(unix)]
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        #[cfg(unix)]
        Command::Plot(arguments) => plot::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Emulate(arguments) => emulate::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Lab(arguments) => lab::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Compare(arguments) => compare::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Conform(arguments) => conform::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Cc(arguments) => cc::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Proxy(arguments) => proxy::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Trunk(arguments) => trunk::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Record(arguments) => record::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Tunnel(arguments) => tunnel::run(&arguments),
        Command::Check(arguments) => request::check(&arguments),
        Command::Size(arguments) => size::run(&arguments),
        Command::Personalities(arguments) => personalities::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Examples(arguments) => examples::run(&arguments),
        Command::Schema => printing::print(|out| out.write_all(headend_scenario::schema::text().as_bytes())),
        Command::Completions { shell } => printing::print(|out| {
            clap_complete::generate(shell, &mut Arguments::command(), "headend", out);
            Ok(())
        }),
        Command::Man(arguments) => manual::run(&arguments, Arguments::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.shown() {
                let red = clap::builder::Styles::styled().get_error().to_owned();
                // As the parser's own; without colours where stderr is no terminal.
                anstream::eprintln!("{red}error:{red:#} {message}");
            }
            failure.code()
        }
    }
}

/// The colours that a command line asks for, known before it is parsed: its mistakes have colours as well.
fn asked_color(arguments: impl Iterator<Item = String>) -> ColorChoice {
    let before_command = arguments.take_while(|word| word != "--").collect::<Vec<_>>().join(" ");
    match before_command.split_once("--color") {
        Some((_, when)) if when.trim_start_matches(['=', ' ']).starts_with("never") => ColorChoice::Never,
        Some((_, when)) if when.trim_start_matches(['=', ' ']).starts_with("always") => ColorChoice::Always,
        _ => ColorChoice::Auto,
    }
}

/// Replaces the parser's advice for an option that it does not know and that resembles none: it would have it passed
/// after `--`, and no command here takes such values. A field's path is better passed to `--set`.
fn with_useful_tips(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument && error.get(ContextKind::SuggestedArg).is_none() {
        error.remove(ContextKind::Suggested);
        if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
            && let Some(path) = option.strip_prefix("--")
            && path.contains('.')
        {
            let tip = format!("to set a field of the scenario, use '--set {path}=VALUE'");
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        }
    }
    error
}
