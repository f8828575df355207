//! TCP without payload and without I/O: segments in, segments out, time as an argument.

pub mod personality;
pub mod segment;
