//! A hash that tells mistakes apart, not forgeries: 128-bit FNV-1a (draft-eastlake-fnv).

use std::fmt::{self, Write};
use std::io;

/// A hash that grows with what is written to it, as text or as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprint(u128);

impl Fingerprint {
    /// The hash of nothing.
    pub(crate) fn new() -> Fingerprint {
        Fingerprint(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// The hash of a text that is written and not kept.
    pub(crate) fn of(text: fmt::Arguments<'_>) -> String {
        let mut hash = Fingerprint::new();
        hash.write_fmt(text).expect("hashing never fails");
        hash.hex()
    }

    /// The hash as 32 hexadecimal digits.
    pub(crate) fn hex(&self) -> String {
        format!("{:032x}", self.0)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

impl io::Write for Fingerprint {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
