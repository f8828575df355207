//! A changed file, which a running trunk takes over.

use std::path::{Path, PathBuf};

use headend_host::proxy::config::Admin;
use headend_host::trunk::{Handle, NotTaken};
use serde_json::{Value, json};

use super::{file, status};
use crate::failure::Failure;
use crate::printing;

/// The means of a running trunk to read its file again.
#[derive(Clone, Debug)]
pub(super) struct Reloader {
    /// Its file, as it was named at the start.
    pub(super) path: PathBuf,
    pub(super) status: PathBuf,
    pub(super) admin: Option<Admin>,
    pub(super) handle: Handle,
}

impl Reloader {
    /// Reads the file again. Returns lines for the operator.
    pub(super) fn reload(&self) -> Result<Vec<String>, Failure> {
        let path = &self.path;
        let wrong = |field: &str, why: String| goes_on(Failure::Wrong(file::located(path, &(field.to_owned(), why))));
        let read = file::read(path).map_err(goes_on)?;
        let fixed = "this cannot change while the trunk runs. Restart it instead".to_owned();
        if read.status != self.status {
            return Err(wrong("status", fixed));
        }
        if read.admin != self.admin {
            return Err(wrong("admin", fixed));
        }
        let said = self.handle.reload(read.config, read.identity.public()).map_err(|error| match error {
            NotTaken::Field((field, why)) => wrong(&field, why),
            error @ NotTaken::System(_) => goes_on(Failure::Failed(error.to_string())),
            error @ (NotTaken::Broken(_) | NotTaken::Ended) => Failure::Failed(error.to_string()),
        })?;
        Ok(if said.is_empty() { vec!["nothing about peers or classes has changed".to_owned()] } else { said })
    }

    /// Reads it again because somebody asks for it, who names the file that is meant, and answers that.
    pub(super) fn answer(&self, named: &str) -> Value {
        let is_ours = self.path.canonicalize().is_ok_and(|path| path == Path::new(named));
        let outcome = match is_ours {
            true => self.reload(),
            false => Err(Failure::Wrong(format!("the trunk that answers there runs with {}", self.path.display()))),
        };
        match outcome {
            Ok(said) => {
                said.iter().for_each(|line| eprintln!("reload: {line}"));
                json!({ "said": said })
            }
            Err(failure) => {
                let why = failure.message().unwrap_or_default();
                eprintln!("reload: {why}");
                json!({ "refused": why, "wrong": matches!(failure, Failure::Wrong(_)) })
            }
        }
    }
}

/// The failure, which has changed nothing.
fn goes_on(failure: Failure) -> Failure {
    let add = |why: String| format!("{why}; the trunk goes on as before");
    match failure {
        Failure::Wrong(why) => Failure::Wrong(add(why)),
        Failure::Failed(why) => Failure::Failed(add(why)),
        other => other,
    }
}

/// Has the trunk that runs with this file read it again.
pub(super) fn ask(path: &Path) -> Result<(), Failure> {
    let read = file::read(path)?;
    let named = path.canonicalize().map_err(|error| Failure::io(path, error))?;
    let answer = status::request(&read.status, &format!("reload {}", named.display()))?;
    if let Some(why) = answer["refused"].as_str() {
        let why = why.to_owned();
        return Err(if answer["wrong"] == true { Failure::Wrong(why) } else { Failure::Failed(why) });
    }
    let said = answer["said"].as_array().cloned().unwrap_or_default();
    printing::print(|out| said.iter().filter_map(Value::as_str).try_for_each(|line| writeln!(out, "{line}")))
}
