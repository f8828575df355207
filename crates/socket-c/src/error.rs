//! What went wrong: a number, and the words behind it, kept for the thread that made the call.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::io;

use headend_socket::{Ended, StreamError};

/// The time was up; with a timeout of 0, there is nothing now.
pub const HEADEND_TIMED_OUT: c_int = -1;
/// The connection, the stream or the endpoint has ended.
pub const HEADEND_ENDED: c_int = -2;
/// The peer has reset the stream: what was read is not the whole.
pub const HEADEND_RESET: c_int = -3;
/// The peer reads no more of the stream.
pub const HEADEND_STOPPED: c_int = -4;
/// An argument is wrong, or the system refused something.
pub const HEADEND_WRONG: c_int = -5;

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

#[derive(Default)]
struct Last {
    text: CString,
    code: u64,
}

/// A call that did not do what it was to do.
pub(crate) struct Failure {
    status: c_int,
    text: String,
    /// The peer's code, if it gave one.
    code: u64,
}

impl Failure {
    pub(crate) fn wrong(text: impl Display) -> Failure {
        Failure { status: HEADEND_WRONG, text: text.to_string(), code: 0 }
    }

    pub(crate) fn timed_out() -> Failure {
        Failure { status: HEADEND_TIMED_OUT, text: "the time was up".to_owned(), code: 0 }
    }

    pub(crate) fn ended(text: impl Display) -> Failure {
        Failure { status: HEADEND_ENDED, text: text.to_string(), code: 0 }
    }

    /// The same, with what was to be done before it.
    pub(crate) fn about(self, what: String) -> Failure {
        Failure { text: format!("{what}: {}", self.text), ..self }
    }

    fn tell(self) -> c_int {
        // No message has a zero in it: those of peers lose what follows one.
        let text = self.text.split('\0').next().unwrap_or_default();
        let text = CString::new(text).unwrap_or_default();
        LAST.with(|last| *last.borrow_mut() = Last { text, code: self.code });
        self.status
    }
}

impl From<Ended> for Failure {
    fn from(why: Ended) -> Failure {
        let code = if let Ended::Peer { code, .. } = why { code } else { 0 };
        Failure { code, ..Failure::ended(why) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let inner = error.get_ref();
        if let Some(why) = inner.and_then(|inner| inner.downcast_ref::<Ended>()) {
            return why.clone().into();
        }
        match inner.and_then(|inner| inner.downcast_ref::<StreamError>()) {
            Some(StreamError::Reset(code)) => Failure { status: HEADEND_RESET, text: error.to_string(), code: *code },
            Some(StreamError::Stopped(code)) => {
                Failure { status: HEADEND_STOPPED, text: error.to_string(), code: *code }
            }
            Some(StreamError::Ended) => Failure::ended(error),
            None => Failure::wrong(error),
        }
    }
}

/// A new object for C, or NULL.
pub(crate) fn object<T>(made: Result<T, Failure>) -> *mut T {
    match made {
        Ok(made) => Box::into_raw(Box::new(made)),
        Err(failure) => {
            failure.tell();
            std::ptr::null_mut()
        }
    }
}

/// A count for C, or one of the negative numbers.
pub(crate) fn count(done: Result<usize, Failure>) -> isize {
    match done {
        Ok(count) => count as isize,
        Err(failure) => failure.tell() as isize,
    }
}

/// 0 for C, or one of the negative numbers.
pub(crate) fn status(done: Result<(), Failure>) -> c_int {
    done.map_or_else(Failure::tell, |()| 0)
}

/// A text of C's as UTF-8.
///
/// # Safety
/// `text` is NULL or ends with a zero byte, and stays as it is for `'a`.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::wrong(format!("{what} is NULL")));
    }
    // SAFETY: the caller has said so, and it is not NULL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::wrong(format!("{what} is not UTF-8")))
}

/// An object of C's.
///
/// # Safety
/// `object` is NULL or an object that stays for `'a`.
pub(crate) unsafe fn known<'a, T>(what: &str, object: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller has said so.
    unsafe { object.as_ref() }.ok_or_else(|| Failure::wrong(format!("{what} is NULL")))
}

/// The words for this thread's last call that failed. They stay until its next one that does.
#[unsafe(no_mangle)]
pub extern "C" fn headend_error() -> *const c_char {
    LAST.with(|last| last.borrow().text.as_ptr())
}

/// The peer's code in this thread's last call that failed with HEADEND_RESET, HEADEND_STOPPED or HEADEND_ENDED; 0 if it gave none.
#[unsafe(no_mangle)]
pub extern "C" fn headend_error_code() -> u64 {
    LAST.with(|last| last.borrow().code)
}
