//! A command that is run again and again while schedules are: one that has the proxy read its file again, or take its own place.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The command, and how it does.
#[derive(Debug)]
pub(super) struct Disturbance {
    command: String,
    every: Duration,
    running: Option<Child>,
    next: Instant,
    failure: Option<String>,
}

impl Disturbance {
    pub(super) fn new(command: &str, every: Duration) -> Disturbance {
        Disturbance { command: command.to_owned(), every, running: None, next: Instant::now(), failure: None }
    }

    /// Starts the command if it is time, and looks whether the last one has done its work.
    pub(super) fn go_on(&mut self) {
        if let Some(child) = &mut self.running {
            match child.try_wait() {
                Ok(None) => return,
                Ok(Some(status)) if status.success() => {}
                Ok(Some(status)) => self.fail(&status),
                Err(error) => self.fail(&error),
            }
            self.running = None;
            self.next = Instant::now() + self.every;
        }
        if Instant::now() < self.next || self.failure.is_some() {
            return;
        }
        let started: io::Result<Child> =
            Command::new("sh").args(["-c", &self.command]).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        match started {
            Ok(child) => self.running = Some(child),
            Err(error) => self.fail(&error),
        }
    }

    /// Waits for the last one, and says what went wrong with any.
    pub(super) fn finish(mut self) -> Option<String> {
        if let Some(mut child) = self.running.take() {
            match child.wait() {
                Ok(status) if status.success() => {}
                Ok(status) => self.fail(&status),
                Err(error) => self.fail(&error),
            }
        }
        self.failure
    }

    fn fail(&mut self, why: &dyn std::fmt::Display) {
        self.failure.get_or_insert_with(|| format!("{}: {why}", self.command));
    }
}
