//! Headers of control TCPs on a link, compressed, sent several times, or both (thesis s4.9).

use std::num::NonZeroU32;

use super::coding::{Coding, OnLine};
use super::compression::Compression;
use crate::packet::{Class, Packet};

/// The way in which a link compresses the headers of control TCPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderCompression {
    /// Headers are not compressed.
    #[default]
    None,
    /// Headers are compressed as in RFC 1144.
    Vj,
    /// Headers are compressed as in RFC 1144, and the far end guesses what was lost.
    Twice,
}

impl HeaderCompression {
    /// The ways, each with its name in scenario files.
    pub const ALL: &'static [(&'static str, HeaderCompression)] =
        &[("none", HeaderCompression::None), ("vj", HeaderCompression::Vj), ("twice", HeaderCompression::Twice)];
}

/// The coding of headers of control TCPs while they are on the line: compressed, repeated, or both.
#[derive(Debug)]
pub struct HeaderCoding {
    compression: Option<Compression>,
    /// The number of times that each of them is on the line.
    times: NonZeroU32,
}

impl HeaderCoding {
    /// A line with this compression, on which so many copies follow each header; it is lost only if all of them are. Unlike
    /// copies that a circuit sends, these hide no drop: a queue has one of each. `None` if headers stay what they are.
    pub fn build(compression: HeaderCompression, copies: u32) -> Option<Box<dyn Coding>> {
        let compression = match compression {
            HeaderCompression::None => None,
            HeaderCompression::Vj => Some(Compression::new(false)),
            HeaderCompression::Twice => Some(Compression::new(true)),
        };
        if compression.is_none() && copies == 0 {
            return None;
        }
        Some(Box::new(HeaderCoding { compression, times: NonZeroU32::MIN.saturating_add(copies) }))
    }
}

impl Coding for HeaderCoding {
    fn send(&mut self, packet: &Packet) -> OnLine {
        let whole = OnLine::unchanged(packet);
        OnLine {
            len: self.compression.as_mut().map_or(whole.len, |compression| compression.send(packet)),
            times: if packet.class == Class::Header { self.times } else { whole.times },
        }
    }

    fn lost(&mut self, packet: &Packet) {
        if let Some(compression) = &mut self.compression {
            compression.lost(packet);
        }
    }

    fn restores(&mut self, packet: &Packet) -> bool {
        self.compression.as_mut().is_none_or(|compression| compression.restores(packet))
    }
}
