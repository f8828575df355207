//! User names and passwords that clients must present.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use subtle::{Choice, ConstantTimeEq};

use super::inbound::Credentials;

/// Users and their passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Users {
    path: PathBuf,
    all: Arc<[Credentials]>,
}

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be read.
    #[error("{}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Others can read it.
    #[error("{}: others can read the passwords in it; expected mode 600 or 640, found {mode:o}", .path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A line is none of `user:password`.
    #[error("{}:{line}: expected user:password", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line's number.
        line: usize,
    },
}

impl Users {
    /// Reads lines of `user:password`; empty ones and those that begin with `#` say nothing.
    pub fn load(path: &Path) -> Result<Users, Unusable> {
        let unreadable = |source| Unusable::Unreadable { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(unreadable)?;
        // Of the file that is open, not of whatever has the name by now.
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(Unusable::Exposed { path: path.to_owned(), mode });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let mut all = Vec::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let colon = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0);
            let colon = colon.ok_or_else(|| Unusable::Malformed { path: path.to_owned(), line: index + 1 })?;
            all.push(Credentials { user: line[..colon].to_vec(), password: line[colon + 1..].to_vec() });
        }
        Ok(Users { path: path.to_owned(), all: all.into() })
    }

    /// True if this name and this password belong together. Takes as long for a wrong user as for a wrong password:
    /// everyone is compared.
    pub fn know(&self, credentials: &Credentials) -> bool {
        let is =
            |known: &Credentials| known.user.ct_eq(&credentials.user) & known.password.ct_eq(&credentials.password);
        self.all.iter().fold(Choice::from(0), |found, known| found | is(known)).into()
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users {{ path: {:?}, .. }}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn load(text: &str, mode: u32) -> Result<Users, Unusable> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        Users::load(file.path())
    }

    fn credentials(user: &str, password: &str) -> Credentials {
        Credentials { user: user.into(), password: password.into() }
    }

    #[test]
    fn a_user_is_known_with_the_password_of_its_own() {
        let users = load("# who\n\nann:one\r\nbob:t:wo\n", 0o600).unwrap();
        assert!(users.know(&credentials("ann", "one")) && users.know(&credentials("bob", "t:wo")));
        for (user, password) in [("ann", "t:wo"), ("ann", ""), ("", ""), ("eve", "one"), ("ann", "one\r")] {
            assert!(!users.know(&credentials(user, password)), "{user}:{password}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        assert!(matches!(load("ann:one", 0o644), Err(Unusable::Exposed { mode: 0o644, .. })));
        assert!(load("ann:one", 0o640).is_ok());
    }

    #[test]
    fn a_line_without_a_password_is_told_with_its_number() {
        assert!(matches!(load("ann:one\nbob\n", 0o600), Err(Unusable::Malformed { line: 2, .. })));
        assert!(matches!(load(":one\n", 0o600), Err(Unusable::Malformed { line: 1, .. })));
    }
}
