//! Linux: what headend needs of the system it runs on.
//!
//! The engine's links run here against the clock, between network namespaces or interfaces. Everything that is Linux
//! alone is in this crate, and so is all `unsafe` code but that for pointers of C in `socket-c`: each block says why it is sound. On other systems there is
//! nothing in it.
#![cfg(target_os = "linux")]

mod arrivals;
pub mod backfill;
#[cfg(feature = "bpf")]
mod bpf;
pub mod clock;
pub mod device;
mod error;
pub mod fast;
pub mod handover;
mod iptables;
#[cfg(feature = "bpf")]
mod mount_namespace;
mod netlink;
pub mod netns;
mod nfqueue;
pub mod offload;
pub mod packet;
pub mod personality;
pub mod privilege;
pub mod process;
pub mod proxy;
pub mod reactor;
pub mod route;
pub mod service;
pub mod socket;
pub mod sysctl;
pub mod trunk;
pub mod tun;
pub mod user_namespace;

pub use error::Error;
pub use netlink::Netlink;
