//! A TCP segment's header as values; the payload is a length (RFC 9293 s3.1).

/// A TCP segment without its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Next byte expected; valid if `flags.ack`.
    pub ack: u32,
    /// Payload bytes.
    pub len: u32,
    /// Receive window as on the wire, before scaling (RFC 7323 s2).
    pub window: u16,
    /// Control bits.
    pub flags: Flags,
    /// Options.
    pub options: Options,
}

/// The control bits that the engine uses (RFC 9293 s3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Synchronise sequence numbers.
    pub syn: bool,
    /// True if `ack` is valid.
    pub ack: bool,
    /// No more data from the sender.
    pub fin: bool,
    /// True if the connection is to be reset.
    pub rst: bool,
    /// Push.
    pub psh: bool,
    /// The bits for explicit congestion notification.
    pub ecn: EcnFlags,
}

/// The control bits for explicit congestion notification (RFC 3168 s6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnFlags(u8);

impl EcnFlags {
    /// None of them.
    pub const NONE: EcnFlags = EcnFlags(0);
    /// ECN echo: a packet of the other direction came with a mark.
    pub const ECE: EcnFlags = EcnFlags(1);
    /// Congestion window reduced: the sender has answered the echo.
    pub const CWR: EcnFlags = EcnFlags(2);
    /// Both: in a SYN, the wish to use ECN (RFC 3168 s6.1.1).
    pub const BOTH: EcnFlags = EcnFlags(3);

    /// True if all of these bits are set.
    pub const fn has(self, bits: EcnFlags) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// These bits and those.
    #[must_use]
    pub const fn with(self, bits: EcnFlags) -> EcnFlags {
        EcnFlags(self.0 | bits.0)
    }
}

impl Flags {
    /// True for a segment of an open connection that neither ends nor resets it.
    pub const fn is_plain(self) -> bool {
        self.ack && !self.syn && !self.fin && !self.rst
    }
}

/// The options that the engine uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size, on SYN (RFC 9293 s3.7.1).
    pub mss: Option<u16>,
    /// Window scale shift, on SYN (RFC 7323 s2).
    pub window_scale: Option<u8>,
    /// SACK-permitted, on SYN (RFC 2018 s2).
    pub sack_permitted: bool,
    /// Timestamp value and echo reply (RFC 7323 s3).
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks (RFC 2018 s3), the first possibly a D-SACK (RFC 2883).
    pub sack: SackBlocks,
}

/// Up to four SACK blocks, each `[left, right)` in sequence numbers.
///
/// The first empty one ends them: a count beside them would cost every packet four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
}

impl SackBlocks {
    /// Adds a block; ignored once there are four, and if it is empty, because it says nothing.
    pub fn push(&mut self, left: u32, right: u32) {
        let count = self.as_slice().len();
        if left != right
            && let Some(slot) = self.blocks.get_mut(count)
        {
            *slot = (left, right);
        }
    }

    /// The blocks, in the order in which they were added.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        let end = self.blocks.iter().position(|(left, right)| left == right);
        &self.blocks[..end.unwrap_or(self.blocks.len())]
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks[0].0 == self.blocks[0].1
    }
}

impl Segment {
    /// Sequence numbers that the segment takes: its payload, plus one each for SYN and FIN.
    pub fn seq_len(&self) -> u32 {
        self.len + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }
}

impl Options {
    /// Bytes of options in the header, padded to a multiple of four.
    pub fn wire_len(&self) -> u32 {
        let mut len = 0;
        len += if self.mss.is_some() { 4 } else { 0 };
        len += if self.window_scale.is_some() { 3 } else { 0 };
        len += if self.sack_permitted { 2 } else { 0 };
        len += if self.timestamps.is_some() { 10 } else { 0 };
        len += if self.sack.is_empty() { 0 } else { 2 + 8 * self.sack.as_slice().len() as u32 };
        len.next_multiple_of(4)
    }
}
