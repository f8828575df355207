//! Tests of what the RFCs ask of a TCP, a sentence a test. `docs/reference/conformance.md` lists them by RFC and section.

mod bench;

mod close;
mod ecn;
mod open;
mod options;
mod receive;
mod send;
mod spurious;
mod timers;
mod window;
