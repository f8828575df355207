//! The tool finds the faults of small faulty proxies, and none in a proxy that has none.
//!
//! Schedules pause, and wait for what a proxy may do or not do: that is what is tested. No test sleeps by itself, and none
//! asserts how long anything took.
#![cfg(target_os = "linux")]

mod faulty;
mod messages;
mod streams;
