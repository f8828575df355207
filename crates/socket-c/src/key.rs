//! Private keys, and the texts of public ones.

use std::ffi::{c_char, c_int};
use std::path::Path;

use headend_socket::{Identity, KeyError, PublicKey};

use crate::error::{Failure, known, object, status, text};

/// Bytes of a public key's text with the zero behind it.
pub const HEADEND_PUBLIC_KEY_SIZE: usize = 45;

/// A private key, and with it the public one.
pub struct Key(pub(crate) Identity);

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Failure {
        Failure::wrong(error)
    }
}

/// Reads a public key.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn public(what: &str, key: *const c_char) -> Result<PublicKey, Failure> {
    // SAFETY: the caller has said so.
    let key = unsafe { text(what, key) }?;
    PublicKey::read(key).ok_or_else(|| {
        Failure::wrong(format!(
            "{what}: {key:?} is no public key: expected 44 letters, as `headend tunnel keygen` prints it"
        ))
    })
}

/// Writes a public key's text.
///
/// # Safety
/// `to` has room for [`HEADEND_PUBLIC_KEY_SIZE`] bytes.
pub(crate) unsafe fn write_public(key: &PublicKey, to: *mut c_char) {
    let letters = key.to_string();
    assert!(letters.len() + 1 == HEADEND_PUBLIC_KEY_SIZE, "a public key has 44 letters");
    // SAFETY: there is room for the letters and the zero behind them.
    unsafe {
        std::ptr::copy_nonoverlapping(letters.as_ptr(), to.cast(), letters.len());
        *to.add(letters.len()) = 0;
    }
}

/// Makes a new key. Free it with headend_key_free.
#[unsafe(no_mangle)]
pub extern "C" fn headend_key_generate() -> *mut Key {
    object(Ok(Key(Identity::generate())))
}

/// Reads a private key from a file that only its owner may read, as `headend tunnel keygen` writes it. NULL if that fails.
///
/// # Safety
/// `path` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_key_load(path: *const c_char) -> *mut Key {
    // SAFETY: the caller has said so.
    let path = unsafe { text("path", path) };
    object(path.and_then(|path| Ok(Key(Identity::load(Path::new(path))?))))
}

/// Writes a private key to a new file that only its owner may read.
///
/// # Safety
/// `key` is a key, and `path` a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_key_save(key: *const Key, path: *const c_char) -> c_int {
    // SAFETY: the caller has said so.
    let (key, path) = unsafe { (known("key", key), text("path", path)) };
    status(key.and_then(|key| Ok(key.0.save(Path::new(path?))?)))
}

/// Writes the public key that belongs to a private one: HEADEND_PUBLIC_KEY_SIZE bytes, the last of them zero. An empty text if the
/// private one is NULL.
///
/// # Safety
/// `key` is NULL or a key, and `public_key` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_key_public(key: *const Key, public_key: *mut c_char) {
    // SAFETY: the caller has said so.
    unsafe {
        match known("key", key) {
            Ok(key) => write_public(&key.0.public(), public_key),
            Err(_) => *public_key = 0,
        }
    }
}

/// Frees a key; endpoints that were made with it go on. NULL is none.
///
/// # Safety
/// `key` is NULL or a key, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_key_free(key: *mut Key) {
    if !key.is_null() {
        // SAFETY: it came from `object`, and the caller gives it back.
        drop(unsafe { Box::from_raw(key) });
    }
}
