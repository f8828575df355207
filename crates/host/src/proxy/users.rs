//! User names and passwords that clients must present.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use ring::hmac;
use ring::rand::SystemRandom;
use subtle::{Choice, ConstantTimeEq};
use tokio::sync::Semaphore;

use super::inbound::Credentials;

/// Users and their passwords.
#[derive(Clone)]
pub struct Users {
    path: PathBuf,
    all: Arc<[User]>,
    proven: Arc<Proven>,
}

#[derive(PartialEq, Eq)]
struct User {
    name: Vec<u8>,
    secret: Secret,
}

#[derive(PartialEq, Eq)]
enum Secret {
    Plain(Vec<u8>),
    /// As `headend proxy password` writes it (RFC 9106).
    Argon2(String),
}

/// The last right password of each user, as a code under a key that nobody has but this process: a hash is meant to take long,
/// and each request for a URL brings its password.
struct Proven {
    key: hmac::Key,
    codes: Mutex<HashMap<Vec<u8>, hmac::Tag>>,
}

/// The time that whoever had a wrong password waits for the answer: guessing takes as long.
const WRONG: Duration = Duration::from_secs(1);
/// Hashes that are computed at a time: each takes 19 MiB and some tens of milliseconds of a core.
static HASHING: Semaphore = Semaphore::const_new(2);
const HASH_BEGIN: &[u8] = b"$argon2";

/// Hashes a password by Argon2id, with a salt of its own, as a file of users has it.
pub fn hash(password: &[u8]) -> io::Result<String> {
    Ok(Argon2::default().hash_password(password).map_err(|error| io::Error::other(error.to_string()))?.to_string())
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
    #[error("{}:{line}: expected user:password, the password as it is or as `headend proxy password` writes it", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line's number.
        line: usize,
    },
}

impl Users {
    /// Reads lines of `user:password`, the password as it is or as [`hash`] makes it; empty ones and those that begin with `#`
    /// say nothing.
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
            let malformed = || Unusable::Malformed { path: path.to_owned(), line: index + 1 };
            let colon = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0).ok_or_else(malformed)?;
            let (name, password) = (line[..colon].to_vec(), &line[colon + 1..]);
            let secret = if password.starts_with(HASH_BEGIN) {
                let text = String::from_utf8(password.to_vec()).map_err(|_| malformed())?;
                PasswordHash::new(&text).map_err(|_| malformed())?;
                Secret::Argon2(text)
            } else {
                Secret::Plain(password.to_vec())
            };
            all.push(User { name, secret });
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.map_err(|_| unreadable(io::Error::other("the system has no random numbers")))?;
        let proven = Arc::new(Proven { key, codes: Mutex::default() });
        Ok(Users { path: path.to_owned(), all: all.into(), proven })
    }

    /// The number of passwords in the file that whoever reads it can use.
    pub fn plain(&self) -> usize {
        self.all.iter().filter(|user| matches!(user.secret, Secret::Plain(_))).count()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if this name and this password belong together. Takes as long for a wrong user as for a wrong password, and a
    /// second more than for a right one.
    pub async fn know(&self, credentials: &Credentials) -> bool {
        let knows = self.check(credentials).await;
        if !knows {
            tokio::time::sleep(WRONG).await;
        }
        knows
    }

    async fn check(&self, credentials: &Credentials) -> bool {
        let Credentials { user, password } = credentials;
        // Everybody is compared.
        let is_plain = |known: &User| match &known.secret {
            Secret::Plain(secret) => known.name.ct_eq(user) & secret.ct_eq(password),
            Secret::Argon2(_) => Choice::from(0),
        };
        if self.all.iter().fold(Choice::from(0), |found, known| found | is_plain(known)).into() {
            return true;
        }
        let hashes = self.all.iter().filter_map(|known| match &known.secret {
            Secret::Argon2(hash) => Some((known.name == *user, hash)),
            Secret::Plain(_) => None,
        });
        // Who is not there is compared with somebody who is.
        let Some((is_user, hash)) = hashes.max_by_key(|(is_user, _)| *is_user) else { return false };
        let said = [user.as_slice(), b"\0", password].concat();
        if let Some(code) = self.codes().get(user)
            && hmac::verify(&self.proven.key, &said, code.as_ref()).is_ok()
        {
            return is_user;
        }
        let Ok(_turn) = HASHING.acquire().await else { return false };
        let (hash, password) = (hash.clone(), password.clone());
        let verify = move || {
            let hash = PasswordHash::new(&hash);
            hash.is_ok_and(|hash| Argon2::default().verify_password(&password, &hash).is_ok())
        };
        let is_right = tokio::task::spawn_blocking(verify).await.unwrap_or(false) && is_user;
        if is_right {
            self.codes().insert(user.clone(), hmac::sign(&self.proven.key, &said));
        }
        is_right
    }

    fn codes(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, hmac::Tag>> {
        self.proven.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Users {
    fn eq(&self, other: &Users) -> bool {
        self.path == other.path && self.all == other.all
    }
}

impl Eq for Users {}

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

    #[tokio::test(start_paused = true)]
    async fn a_user_is_known_with_the_password_of_its_own() {
        let users = load(&format!("# who\n\nann:one\r\nbob:t:wo\neva:{}\n", hash(b"three").unwrap()), 0o600).unwrap();
        assert_eq!(users.plain(), 2);
        for (user, password) in [("ann", "one"), ("bob", "t:wo"), ("eva", "three"), ("eva", "three")] {
            assert!(users.know(&credentials(user, password)).await, "{user}:{password}");
        }
        for (user, password) in [
            ("ann", "t:wo"),
            ("ann", ""),
            ("", ""),
            ("ann", "one\r"),
            ("eva", "one"),
            ("eva", "thre"),
            ("ann", "three"),
            ("joe", "three"),
        ] {
            let began = tokio::time::Instant::now();
            assert!(!users.know(&credentials(user, password)).await, "{user}:{password}");
            assert!(began.elapsed() >= WRONG, "guessing takes its time");
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
        assert!(matches!(load("ann:$argon2id$x\n", 0o600), Err(Unusable::Malformed { line: 1, .. })));
    }
}
