//! `headend proxy password`

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use headend_host::proxy::users;
use rustix::termios::{self, LocalModes, OptionalActions};

use crate::failure::Failure;

/// Write a line of a file of users: the user and the hash of a password, which is read from the input
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  headend proxy password ann >> users")]
pub(super) struct Arguments {
    /// The user's name, without a colon
    user: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let user = &arguments.user;
    if user.is_empty() || user.starts_with('#') || user.contains([':', '\n', '\r']) {
        return Err(Failure::Wrong(format!(
            "USER: found {user:?}, expected a name without ':', not beginning with '#'"
        )));
    }
    let failed = |error: io::Error| Failure::Failed(format!("the password cannot be read: {error}"));
    let password = password(user).map_err(failed)?;
    if password.is_empty() {
        return Err(Failure::Wrong("the password is empty: expected one line".to_owned()));
    }
    let hash = users::hash(password.as_bytes()).map_err(failed)?;
    println!("{user}:{hash}");
    Ok(())
}

/// One line of the input, which a terminal does not show.
fn password(user: &str) -> io::Result<String> {
    let input = io::stdin();
    let shown = input.is_terminal().then(|| termios::tcgetattr(&input)).transpose()?;
    if let Some(shown) = &shown {
        let _ = write!(io::stderr(), "password of {user}: ");
        let mut hidden = shown.clone();
        hidden.local_modes -= LocalModes::ECHO;
        termios::tcsetattr(&input, OptionalActions::Now, &hidden)?;
    }
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    if let Some(shown) = &shown {
        termios::tcsetattr(&input, OptionalActions::Now, shown)?;
        eprintln!("");
    }
    read?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
