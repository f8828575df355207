//! Sockets whose congestion control does not take damage for congestion.
//!
//! Two ends that know each other's public keys have a *connection*; a connection has *streams*, each of them ordered bytes both
//! ways. On a line that loses packets a connection is as fast as the line leaves it; beside other traffic in a queue it
//! takes no more than a TCP with CUBIC would.
//!
//! # How it works
//!
//! What is sent and how much may be sent are two things here, as in the decoupling thesis. *How much* is the business of a circuit
//! with [in-band control](headend_engine::circuit::in_band): each datagram has a number, the receiving end tells ranges of
//! numbers that came, and a controller of the engine, [`Backfill`](headend_engine::cc::backfill) unless told otherwise, is told
//! what became of them. *What* is the business of streams: a lost datagram is never sent again; the pieces of streams
//! that were in it go into later ones, before anything new. So a number is never ambiguous, every one of them is a sample of the
//! path, and a stream that misses a piece holds up no other.
//!
//! A datagram is sealed (AES-256-GCM under keys of a Noise hand-shake, `headend_datagram`, as the trunk's are) and names its
//! connection by an id that the receiver chose, so that a client may change its address: the server challenges the new one,
//! and sends it nothing else before the answer. A hand-shake costs a server no memory before the client has shown, with a
//! token, that it hears at its address and, by Noise, that its key is in the list. Both ends bound what the other may send ahead of what
//! is read, of each stream and of all; windows grow with the path while an endpoint's budget lasts. A number is
//! left out now and then: who acknowledges it lies, and is cut off.
//!
//! # Where to look
//!
//! | where | what |
//! |---|---|
//! | `endpoint` | [`Endpoint`], [`Connection`], [`Stream`]: for applications, on Tokio |
//! | `machine` | [`Machine`]: all of an endpoint without clock and sockets; hand-shakes, ids, timers |
//! | `connection` | one connection: frames in, datagrams out; the path, the end |
//! | `streams` | streams; `flow` control, turns (`leaving`), their two halves `sending` and `receiving` |
//! | `unreliable` | frames that are worth something whole and in time, or nothing; the two ends `sending` and `receiving` |
//! | `wire` `frame` | datagrams and frames as bytes |
//! | `token` `ranges` | addresses that have heard us; sets of places in a stream |
#![cfg(target_os = "linux")]

mod config;
mod connection;
mod endpoint;
pub mod frame;
mod machine;
mod ranges;
mod streams;
mod token;
mod unreliable;
pub mod wire;

pub use config::Config;
pub use connection::{Ended, Snapshot};
pub use endpoint::{Connection, Endpoint, Stream};
pub use headend_datagram::{Identity, KeyError, PublicKey};
pub use machine::{Allow, Event, Handle, Machine, Strays};
pub use streams::{StreamError, StreamEvent, StreamId};
pub use unreliable::{Fate, FrameEvent, Occupancy, Refused, Ticket};
