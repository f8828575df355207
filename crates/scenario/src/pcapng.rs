//! Captures that Wireshark reads: pcapng (draft-ietf-opsawg-pcapng) with IPv4 and TCP headers made from what the engine
//! knows. Payload is zeros, and only its first `snap_len` bytes are stored; the original length is right. Or with real
//! bytes, where somebody has them.

use headend_engine::packet::{Body, Endpoint, Packet};
use headend_engine::tcp::segment::{Options, Segment};
use headend_engine::time::Time;

/// LINKTYPE_RAW: a packet begins with its IP header (tcpdump.org/linktypes).
const LINKTYPE_RAW: u16 = 101;
/// Times are in units of 10^-9 s (draft-ietf-opsawg-pcapng s4.2, if_tsresol).
const NANOSECONDS: u8 = 9;

const IPV4_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
/// RFC 791: total length is 16 bits.
const TOTAL_MAX: usize = u16::MAX as usize;

/// A capture at one place: a growing pcapng file in memory.
#[derive(Clone, Debug)]
pub struct Capture {
    bytes: Vec<u8>,
    /// Longest stored part of a packet.
    snap_len: usize,
    scratch: Vec<u8>,
}

impl Capture {
    /// An empty capture at the interface called `name`, of which each packet's first `snap_len` bytes are stored.
    pub fn new(name: &str, snap_len: u32) -> Capture {
        let mut capture = Capture { bytes: Vec::new(), snap_len: snap_len as usize, scratch: Vec::new() };
        capture.section_header();
        capture.interface(name);
        capture
    }

    /// Adds a packet that passed at `time`. Packets that are not TCP have no headers to show and are left out.
    pub fn record(&mut self, time: Time, packet: &Packet) {
        let Body::Tcp(segment) = &packet.body else { return };
        let mut frame = std::mem::take(&mut self.scratch);
        frame.clear();
        let original = emit(&mut frame, packet, segment);
        frame.resize(original.min(self.snap_len), 0);
        self.packet_block(time.as_nanos(), &frame, original);
        self.scratch = frame;
    }

    /// Adds an IP packet that passed at `nanos`, of which these are the bytes.
    pub fn record_bytes(&mut self, nanos: u64, packet: &[u8]) {
        self.packet_block(nanos, &packet[..packet.len().min(self.snap_len)], packet.len());
    }

    /// Bytes that [`take_bytes`](Capture::take_bytes) would return.
    pub fn bytes_held(&self) -> usize {
        self.bytes.len()
    }

    /// What was added since the last call, to be written on.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// s4.3, Enhanced Packet Block.
    fn packet_block(&mut self, nanos: u64, stored: &[u8], original: usize) {
        self.block(6, |out| {
            u32s(out, &[0, (nanos >> 32) as u32, nanos as u32, stored.len() as u32, original as u32]);
            padded(out, stored);
        });
    }

    /// The file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// s4.1: byte-order magic, version 1.0, a length that is not known.
    fn section_header(&mut self) {
        self.block(0x0a0d_0d0a, |out| {
            u32s(out, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
            option(out, 4, concat!("headend ", env!("CARGO_PKG_VERSION")).as_bytes());
            u32s(out, &[0]);
        });
    }

    /// s4.2: the one interface.
    fn interface(&mut self, name: &str) {
        let snap_len = self.snap_len as u32;
        self.block(1, |out| {
            u32s(out, &[u32::from(LINKTYPE_RAW), snap_len]);
            option(out, 2, name.as_bytes());
            option(out, 9, &[NANOSECONDS]);
            u32s(out, &[0]);
        });
    }

    /// s3.1: type, length, body, length.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        u32s(&mut self.bytes, &[kind, 0]);
        body(&mut self.bytes);
        let len = (self.bytes.len() + 4 - start) as u32;
        u32s(&mut self.bytes, &[len]);
        self.bytes[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    }
}

fn u32s(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn padded(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// s3.5. Blocks begin at multiples of four bytes, so padding the file pads the option.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    padded(out, value);
}

/// Appends the headers of `packet` and returns the length of the whole packet.
fn emit(out: &mut Vec<u8>, packet: &Packet, segment: &Segment) -> usize {
    let options = options(&segment.options);
    let tcp_len = TCP_HEADER + options.len();
    // An offloaded segment could be longer than IPv4 can say; RFC 791's field then holds its maximum.
    let total = (IPV4_HEADER + tcp_len + segment.len as usize).min(TOTAL_MAX);

    let start = out.len();
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&(total as u16).to_be_bytes());
    out.extend_from_slice(&(packet.id as u16).to_be_bytes());
    out.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]); // don't fragment, TTL 64, TCP
    out.extend_from_slice(&address(packet.src));
    out.extend_from_slice(&address(packet.dst));
    let sum = checksum(0, &out[start..]);
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());

    let tcp = out.len();
    out.extend_from_slice(&packet.src.port.to_be_bytes());
    out.extend_from_slice(&packet.dst.port.to_be_bytes());
    out.extend_from_slice(&segment.seq.to_be_bytes());
    out.extend_from_slice(&(if segment.flags.ack { segment.ack } else { 0 }).to_be_bytes());
    let flags = &segment.flags;
    let bits = u8::from(flags.fin)
        | u8::from(flags.syn) << 1
        | u8::from(flags.rst) << 2
        | u8::from(flags.psh) << 3
        | u8::from(flags.ack) << 4;
    out.extend_from_slice(&[(tcp_len as u8 / 4) << 4, bits]);
    out.extend_from_slice(&segment.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]); // checksum, urgent pointer
    out.extend_from_slice(&options);
    // RFC 9293 s3.1: the pseudo-header; zeros of payload add nothing.
    let mut pseudo = 6 + (total - IPV4_HEADER) as u32;
    for half in address(packet.src).chunks(2).chain(address(packet.dst).chunks(2)) {
        pseudo += u32::from(half[0]) << 8 | u32::from(half[1]);
    }
    let sum = checksum(pseudo, &out[tcp..]);
    out[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
    total
}

/// Node n of a network has the address 10.x.y.1 where n = 256 x + y.
fn address(end: Endpoint) -> [u8; 4] {
    let [high, low] = end.node.to_be_bytes();
    [10, high, low, 1]
}

/// The options as Linux lays them out, padded to a multiple of four bytes.
fn options(options: &Options) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    if let Some(mss) = options.mss {
        out.extend_from_slice(&[2, 4]);
        out.extend_from_slice(&mss.to_be_bytes());
    }
    if options.sack_permitted {
        out.extend_from_slice(&[4, 2]);
    }
    if let Some((value, echo)) = options.timestamps {
        out.extend_from_slice(&[8, 10]);
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&echo.to_be_bytes());
    }
    if let Some(shift) = options.window_scale {
        out.extend_from_slice(&[3, 3, shift]);
    }
    let blocks = options.sack.as_slice();
    if !blocks.is_empty() {
        out.extend_from_slice(&[5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            out.extend_from_slice(&left.to_be_bytes());
            out.extend_from_slice(&right.to_be_bytes());
        }
    }
    // RFC 9293 s3.1: no-operation.
    out.resize(out.len().next_multiple_of(4), 1);
    out
}

/// RFC 1071.
fn checksum(mut sum: u32, bytes: &[u8]) -> u16 {
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tshark;
