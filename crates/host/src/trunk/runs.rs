//! Packets that came by the trunk, joined again: those of a flow that follow each other go to the device as one.
//!
//! That is what the kernel does with packets of a card (GRO). Within a flow the order stays, also of those that cannot be joined.

use std::io::IoSlice;
use std::ops::Range;

use super::bundle::{CWR, GSO_TCP_V4, GSO_TCP_V6, GSO_UDP, NEEDS_CHECKSUM};
use super::layout::{HEADERS_MAX, Layout, TCP_FLAGS, TCP_SEQ, u32_at};
use crate::offload::HEADER_BYTES as OFFLOAD_HEADER;

/// Segments of TCP with other flags than these are not joined.
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
/// Packets that are joined at most, and their bytes.
const PIECES_MAX: usize = 128;
const BYTES_MAX: usize = 65_535;
/// Flows that are looked through for the one that a packet belongs to, the latest first.
const LOOKED_AT: usize = 64;

/// The place of a packet's bytes: the buffer that they came in, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) buffer: usize,
    pub(super) bytes: Range<usize>,
}

/// Packets on their way to the device.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// In the order in which they are written. Those from `used` on are of before, and are used again.
    runs: Vec<Run>,
    used: usize,
    /// True if datagrams of UDP are joined too.
    with_udp: bool,
}

#[derive(Debug)]
struct Run {
    /// The headers of the first packet; empty if it is a packet that is written as it is.
    head: [u8; HEADERS_MAX],
    layout: Option<Layout>,
    /// True if its checksum is left open.
    is_open: bool,
    /// True if nothing more may join.
    is_closed: bool,
    /// Payload of each packet but the last, and of all.
    size: usize,
    len: usize,
    next_seq: u32,
    /// The first packet whole, then payloads alone.
    pieces: Vec<Place>,
}

impl Runs {
    pub(super) fn new(with_udp: bool) -> Runs {
        Runs { with_udp, ..Runs::default() }
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Takes a packet that is at `place`. Its checksum is left open if `is_open`: then it must be one of TCP or UDP, and
    /// otherwise nothing is taken and the result is false.
    pub(super) fn push(&mut self, packet: &[u8], place: Place, is_open: bool) -> bool {
        let layout = Layout::read(packet);
        if is_open && layout.is_none() {
            return false;
        }
        let found = layout.and_then(|layout| self.find(packet, layout));
        let joins = layout.filter(|layout| is_open && self.may_join(packet, *layout));
        if let Some(at) = found {
            let run = &mut self.runs[at];
            if let Some(layout) = joins.filter(|layout| run.takes(packet, *layout)) {
                run.join(packet, layout, place);
                return true;
            }
            // What comes later stays behind this one.
            run.is_closed = true;
        }
        self.begin(packet, layout, joins.is_some(), is_open, place);
        true
    }

    /// Shows what is to be written for each packet or joined packets, in order, and forgets them.
    /// `buffer` gives the buffer of a number.
    pub(super) fn write<'a>(&mut self, buffer: impl Fn(usize) -> &'a Vec<u8>, mut write: impl FnMut(&[IoSlice<'_>])) {
        for run in &mut self.runs[..self.used] {
            let bytes = |place: &Place| &buffer(place.buffer)[place.bytes.clone()];
            let mut header = [0; OFFLOAD_HEADER];
            match run.layout.filter(|_| run.pieces.len() > 1) {
                Some(layout) => {
                    let head = &mut run.head[..layout.payload];
                    layout.set_len(head, layout.payload + run.len);
                    run.describe(layout, &mut header);
                    let first = &bytes(&run.pieces[0])[layout.payload..];
                    let mut slices = Vec::with_capacity(2 + run.pieces.len());
                    slices.extend([
                        IoSlice::new(&header),
                        IoSlice::new(&run.head[..layout.payload]),
                        IoSlice::new(first),
                    ]);
                    slices.extend(run.pieces[1..].iter().map(|place| IoSlice::new(bytes(place))));
                    write(&slices);
                }
                None => {
                    if let (Some(layout), true) = (run.layout, run.is_open) {
                        run.describe(layout, &mut header);
                    }
                    write(&[IoSlice::new(&header), IoSlice::new(bytes(&run.pieces[0]))]);
                }
            }
            run.pieces.clear();
        }
        self.used = 0;
    }

    /// The latest run of the packet's flow, if that may still grow.
    fn find(&self, packet: &[u8], layout: Layout) -> Option<usize> {
        let runs = self.runs[..self.used].iter().enumerate().rev().take(LOOKED_AT);
        let is_same = |run: &Run| {
            let of_kind = |layout: Layout| (layout.is_tcp, layout.is_ipv6, layout.transport);
            run.layout.is_some_and(|other| of_kind(other) == of_kind(layout))
                && flow(&run.head, layout) == flow(packet, layout)
        };
        runs.into_iter().find(|(_, run)| is_same(run)).map(|(at, _)| at)
    }

    /// True if the packet is one that can be joined with others at all.
    fn may_join(&self, packet: &[u8], layout: Layout) -> bool {
        let has_payload = packet.len() > layout.payload && layout.payload <= HEADERS_MAX;
        // Options of IPv4 are not looked at.
        let is_plain = layout.is_ipv6 || layout.transport == 20;
        let is_data = match layout.is_tcp {
            true => packet[layout.transport + TCP_FLAGS] & !(PSH | CWR) == ACK,
            false => self.with_udp,
        };
        has_payload && is_plain && is_data
    }

    fn begin(&mut self, packet: &[u8], layout: Option<Layout>, joins: bool, is_open: bool, place: Place) {
        if self.used == self.runs.len() {
            self.runs.push(Run::new());
        }
        let run = &mut self.runs[self.used];
        self.used += 1;
        let len = packet.len().min(HEADERS_MAX);
        run.head[..len].copy_from_slice(&packet[..len]);
        (run.layout, run.is_open, run.is_closed) = (layout, is_open, !joins);
        let payload = layout.map_or(0, |layout| packet.len() - layout.payload);
        (run.size, run.len) = (payload, payload);
        if let Some(layout) = layout.filter(|layout| layout.is_tcp) {
            run.next_seq = u32_at(packet, layout.transport + TCP_SEQ).unwrap_or_default().wrapping_add(payload as u32);
            run.is_closed |= packet[layout.transport + TCP_FLAGS] & PSH != 0;
        }
        run.pieces.clear();
        run.pieces.push(place);
    }
}

impl Run {
    fn new() -> Run {
        Run {
            head: [0; HEADERS_MAX],
            layout: None,
            is_open: false,
            is_closed: true,
            size: 0,
            len: 0,
            next_seq: 0,
            pieces: Vec::new(),
        }
    }

    /// True if the packet, of the same flow, goes on where this ends and says nothing else.
    fn takes(&self, packet: &[u8], layout: Layout) -> bool {
        let payload = packet.len() - layout.payload;
        let fits = !self.is_closed
            && self.is_open
            && self.pieces.len() < PIECES_MAX
            && payload <= self.size
            && layout.payload + self.len + payload <= BYTES_MAX
            && self.layout == Some(layout);
        if !fits || !is_same_ip(&self.head, packet, layout) {
            return false;
        }
        if !layout.is_tcp {
            return true;
        }
        let (ours, theirs) = (&self.head[layout.transport..layout.payload], &packet[layout.transport..layout.payload]);
        // Acknowledgement, length of the header, window, urgent pointer and options; not the flags, nor the checksum.
        u32_at(packet, layout.transport + TCP_SEQ) == Some(self.next_seq)
            && ours[8..13] == theirs[8..13]
            && ours[14..16] == theirs[14..16]
            && ours[18..] == theirs[18..]
            && theirs[TCP_FLAGS] & CWR == 0
    }

    fn join(&mut self, packet: &[u8], layout: Layout, place: Place) {
        let payload = packet.len() - layout.payload;
        self.is_closed = payload < self.size;
        if layout.is_tcp {
            let push = packet[layout.transport + TCP_FLAGS] & PSH;
            self.head[layout.transport + TCP_FLAGS] |= push;
            self.is_closed |= push != 0;
            self.next_seq = self.next_seq.wrapping_add(payload as u32);
        }
        self.len += payload;
        self.pieces.push(Place { buffer: place.buffer, bytes: place.bytes.end - payload..place.bytes.end });
    }

    /// Writes the device's header: the checksum to complete and, if there are several packets, their size.
    fn describe(&self, layout: Layout, header: &mut [u8; OFFLOAD_HEADER]) {
        let mut number = |at: usize, number: usize| header[at..at + 2].copy_from_slice(&(number as u16).to_ne_bytes());
        number(6, layout.transport);
        number(8, layout.checksum_offset());
        if self.pieces.len() > 1 {
            number(2, layout.payload);
            number(4, self.size);
            let has_cwr = layout.is_tcp && self.head[layout.transport + TCP_FLAGS] & CWR != 0;
            let kind = match (layout.is_tcp, layout.is_ipv6) {
                (true, false) => GSO_TCP_V4,
                (true, true) => GSO_TCP_V6,
                (false, _) => GSO_UDP,
            };
            header[1] = kind | if has_cwr { 0x80 } else { 0 };
        }
        header[0] = NEEDS_CHECKSUM;
    }
}

/// The addresses and ports of a packet.
fn flow(packet: &[u8], layout: Layout) -> (&[u8], &[u8]) {
    let addresses = if layout.is_ipv6 { 8..40 } else { 12..20 };
    (&packet[addresses], &packet[layout.transport..layout.transport + 4])
}

/// True if two headers of IP differ in their lengths, numbers and checksums at most.
fn is_same_ip(ours: &[u8], theirs: &[u8], layout: Layout) -> bool {
    if layout.is_ipv6 {
        return ours[..4] == theirs[..4] && ours[6..40] == theirs[6..40];
    }
    // Only where numbers mean nothing, for packets that are never cut, may they be changed (RFC 6864 s4.1).
    let is_atomic = theirs[6] & 0x40 != 0;
    is_atomic && ours[..2] == theirs[..2] && ours[6..10] == theirs[6..10] && ours[12..20] == theirs[12..20]
}

#[cfg(test)]
mod tests;
