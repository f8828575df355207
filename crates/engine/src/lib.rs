//! Every behaviour of headend: TCP, congestion control, links, the cable path.
//!
//! The engine counts bytes and never holds them; time and chance are arguments. Nothing here reads a clock,
//! opens a socket, starts a thread or uses `unsafe`; the lints of this crate forbid it. A driver owns the clock:
//! `headend-sim` jumps from event to event.
#![forbid(unsafe_code)]

pub mod cable;
pub mod cc;
pub mod circuit;
pub mod codec;
pub mod graph;
pub mod link;
pub mod node;
pub mod packet;
pub mod part;
pub mod relay;
pub mod rng;
mod room;
pub mod tcp;
pub mod time;
pub mod units;
mod wakes;
