//! Keys, by which two ends know each other.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use crate::handshake;

/// Bytes of a key.
pub(crate) const LEN: usize = 32;
/// Bytes of a proof that the sender of a datagram knows its receiver's key.
pub const PROOF: usize = 16;

/// A file with a key that cannot be read or written, and why.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct KeyError {
    /// What was to be done, in words that go before a colon.
    pub what: String,
    /// The system's answer, or what is wrong with the file.
    pub source: io::Error,
}

/// A key of X25519 that others may know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub(crate) [u8; LEN]);

/// A key that only its owner knows, or that two ends share. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub(crate) [u8; LEN]);

/// A private key and the public one that belongs to it.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) private: SecretKey,
    public: PublicKey,
}

impl Identity {
    /// Makes a new identity.
    pub fn generate() -> Identity {
        let (private, public) = handshake::key_pair();
        Identity { private: SecretKey(private), public: PublicKey(public) }
    }

    /// The identity of a private key.
    pub fn of(private: SecretKey) -> Identity {
        let public = PublicKey(handshake::public_of(&private.0));
        Identity { private, public }
    }

    /// The key under which an end makes what it alone can make again, for this purpose: it does not tell the private key.
    pub fn derived(&self, purpose: &[u8]) -> SecretKey {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.private.0), purpose);
        SecretKey(*tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
    }

    /// Reads the private key in a file that only its owner may read.
    pub fn load(path: &Path) -> Result<Identity, KeyError> {
        SecretKey::load(path).map(Identity::of)
    }

    /// Its public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Writes the private key to a new file that only its owner may read.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        let what = || format!("write {}", path.display());
        let failed = |source| KeyError { what: what(), source };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        file.write_all(format!("{}\n", STANDARD.encode(self.private.0)).as_bytes()).map_err(failed)
    }
}

impl SecretKey {
    /// A key of zeros: what two ends that share none agree on (as WireGuard does it).
    pub const NONE: SecretKey = SecretKey([0; LEN]);

    /// A tag that only who has this key can make.
    pub fn tag(&self, of: &[u8]) -> [u8; PROOF] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), of);
        *tag.as_ref().first_chunk().expect("SHA-256 is longer than a tag")
    }

    /// Returns true if `tag` is the [`tag`](SecretKey::tag) of these bytes.
    pub fn is_tag(&self, of: &[u8], tag: &[u8]) -> bool {
        subtle::ConstantTimeEq::ct_eq(&self.tag(of)[..], tag).into()
    }

    /// Reads a key from a file that only its owner may read.
    pub fn load(path: &Path) -> Result<SecretKey, KeyError> {
        let what = || format!("read {}", path.display());
        let failed = |source| KeyError { what: what(), source };
        let invalid = |why: String| failed(io::Error::new(io::ErrorKind::InvalidData, why));
        let mode = fs::metadata(path).map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            return Err(invalid(format!(
                "others than its owner may use it (mode {:o}): chmod 600 {}",
                mode & 0o777,
                path.display()
            )));
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        decode(&text).map(SecretKey).ok_or_else(|| {
            invalid(
                "expected a key of 32 bytes in base64, as `keygen` of `headend trunk` and `headend tunnel` writes it"
                    .to_owned(),
            )
        })
    }
}

impl PublicKey {
    /// Reads base64; `None` if it is no key.
    pub fn read(text: &str) -> Option<PublicKey> {
        decode(text).map(PublicKey)
    }

    /// True for the key of zeros: no private key has it, and what is agreed on with it everybody knows (RFC 7748 s6.1).
    pub fn is_zero(&self) -> bool {
        self.0 == [0; LEN]
    }

    /// The proof to the owner of this key that a datagram's sender knows it.
    pub fn proof(&self, of: &[u8]) -> [u8; PROOF] {
        let tag = hmac::sign(&self.prover(), of);
        *tag.as_ref().first_chunk().expect("SHA-256 is longer than a proof")
    }

    /// Returns true if `proof` is the [`proof`](PublicKey::proof) of these bytes.
    pub fn is_proven(&self, of: &[u8], proof: &[u8]) -> bool {
        subtle::ConstantTimeEq::ct_eq(&self.proof(of)[..], proof).into()
    }

    fn prover(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &[&b"headend trunk proof"[..], &self.0].concat())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

fn decode(text: &str) -> Option<[u8; LEN]> {
    STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_only_if_it_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let identity = Identity::generate();
        identity.save(&path).unwrap();
        assert_eq!(Identity::load(&path).unwrap().public(), identity.public());
        assert_eq!(PublicKey::read(&identity.public().to_string()), Some(identity.public()));
        assert!(identity.save(&path).is_err(), "a key that is there is not overwritten");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Identity::load(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        assert!(!format!("{identity:?}").contains(&STANDARD.encode(identity.private.0)), "a log never shows it");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "AAAA", "not base64", &STANDARD.encode([1; 33])] {
            assert_eq!(PublicKey::read(text), None, "{text}");
        }
    }
}
