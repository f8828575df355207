//! Sealed datagrams between two ends that know each other's keys: what trunks and sockets have in common.
//!
//! | where | what |
//! |---|---|
//! | `keys` | who is who: private and public keys, in files and as text |
//! | `handshake` | Noise, which yields a key for each direction |
//! | `cookie` | a proof that somebody was seen at its address |
//! | `cipher` | what is sealed and opened, each message once |
//! | `replay` | the messages that came before |
//! | `outbox` | datagrams that leave together |
//!
//! There are no clocks and no sockets here, and no layout of datagrams: who uses this puts its own header before what is sealed.
#![cfg(unix)]

mod cipher;
mod cookie;
mod handshake;
mod keys;
mod outbox;
mod replay;

pub use cipher::{Cipher, Opened, TAG};
pub use cookie::{COOKIE, Cookies, take_cookie};
pub use handshake::{Asked, Initiation, Keys, NOISE_1, NOISE_2};
pub use keys::{Identity, KeyError, PROOF, PublicKey, SecretKey};
pub use outbox::{Outbox, Train, Way};
