//! Captures that Wireshark reads: pcapng (draft-ietf-opsawg-pcapng) with the IPv4 and TCP headers that the engine's
//! codec makes. Payload is zeros, and only its first `snap_len` bytes are stored; the original length is right. Or with real
//! bytes, where somebody has them.

use std::net::Ipv4Addr;

use headend_engine::codec::ipv4::Ipv4Header;
use headend_engine::codec::protocol;
use headend_engine::codec::tcp::TcpHeader;
use headend_engine::packet::{Body, Endpoint, Packet};
use headend_engine::tcp::segment::Segment;
use headend_engine::time::Time;

/// LINKTYPE_RAW: a packet begins with its IP header (tcpdump.org/linktypes).
const LINKTYPE_RAW: u16 = 101;
/// Times are in units of 10^-9 s (draft-ietf-opsawg-pcapng s4.2, if_tsresol).
const NANOSECONDS: u8 = 9;

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

    /// Takes the bytes that were added since the last call, to be written on.
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
    let tcp = TcpHeader { src_port: packet.src.port, dst_port: packet.dst.port, segment: *segment };
    let headers = Ipv4Header::LEN + tcp.wire_len();
    // An offloaded segment could be longer than IPv4 can say; RFC 791's field then holds its maximum.
    let payload_len = tcp.wire_len() + segment.len as usize;
    let ip = Ipv4Header {
        traffic_class: packet.ecn.bits(),
        id: packet.id as u16,
        ..Ipv4Header::new(address(packet.src), address(packet.dst), protocol::TCP, payload_len)
    };
    let start = out.len();
    out.resize(start + headers, 0);
    // Zeros of payload add nothing to the checksum.
    ip.encode(&mut out[start..])
        .and_then(|ip_len| tcp.encode(ip.pseudo_header(), &mut out[start + ip_len..]))
        .expect("the engine sends no more options than a header holds");
    Ipv4Header::LEN + usize::from(ip.payload_len)
}

/// Node n of a network has the address 10.x.y.1 where n = 256 x + y.
fn address(end: Endpoint) -> Ipv4Addr {
    let [high, low] = end.node.to_be_bytes();
    Ipv4Addr::new(10, high, low, 1)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tshark;
