//! Codings of a link's line, on which packets are not what they are before and after.

use std::fmt::Debug;
use std::num::NonZeroU32;

use crate::packet::Packet;
use crate::units::Bytes;

/// Both ends of a line on which packets are not what they are outside. Queue and counters know them as they are outside.
pub trait Coding: Debug + Send {
    /// The service of a packet begins: what it takes on the line.
    fn send(&mut self, packet: &Packet) -> OnLine;

    /// The medium lost the packet whose service began last, every time that it was there.
    fn lost(&mut self, packet: &Packet);

    /// The first packet on the line arrives: whether the far end can make out what it was.
    fn restores(&mut self, packet: &Packet) -> bool;
}

/// The form of a packet on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnLine {
    /// The packet's length on the line.
    pub len: Bytes,
    /// The number of times that it is there, one after the other; it is lost only if the medium loses it each time.
    pub times: NonZeroU32,
}

impl OnLine {
    /// A packet that is on the line as it is outside.
    pub fn unchanged(packet: &Packet) -> OnLine {
        OnLine { len: packet.len(), times: NonZeroU32::MIN }
    }
}
