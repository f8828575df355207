//! `headend-socket` for C: keys, endpoints, connections and streams behind pointers, with calls that wait.
//!
//! `include/headend_socket.h` is made of these sources by `HEADEND_BLESS=1 cargo test -p headend-socket-c`, and a test holds it to
//! them. An endpoint has a thread of its own, on which it reads, sends and keeps its timers; every other call works on the thread
//! that makes it, and parks that thread while it waits. So calls may come from any thread; what one may not do is free an
//! object while another uses it.
//!
//! The crate may be unsafe because pointers of C are what it is for. What a caller must keep to is the same everywhere, and said
//! once, at the top of the header: `headend_*` pointers are those that these functions gave and are not freed yet, texts end
//! with a zero byte, and buffers are as long as is said.
#![cfg(target_os = "linux")]

pub mod endpoint;
pub mod error;
pub mod key;
pub mod stream;
mod wait;
