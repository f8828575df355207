//! The state that FAST keeps of a connection, as the kernel's program tells it.

use std::net::SocketAddr;

use headend_engine::time::Duration;
use headend_engine::units::Bytes;

/// A connection that FAST controls, or a socket that listens for some.
#[derive(Clone, Debug, PartialEq)]
pub struct FastConnection {
    /// The name under which FAST was chosen.
    pub name: String,
    /// The near end.
    pub local: SocketAddr,
    /// The far end; of a listening socket nobody's.
    pub remote: SocketAddr,
    /// A socket that hands its controller on to what connects.
    pub is_listening: bool,
    /// The congestion window, in segments.
    pub cwnd_segments: u32,
    /// The slow-start threshold, in segments; `None` before slow start has ended.
    pub ssthresh_segments: Option<u32>,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// d: the shortest round trip so far; `None` before the first.
    pub base_rtt: Option<Duration>,
    /// D: the average round trip, as FAST takes it.
    pub mean_rtt: Option<Duration>,
    /// Packets of its own that it aims to have in queues.
    pub alpha_packets: u32,
}

impl FastConnection {
    /// D - d: what its packets wait in queues.
    pub fn queueing_delay(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.mean_rtt?.as_nanos().saturating_sub(self.base_rtt?.as_nanos())))
    }

    /// Its own packets in queues, in thousandths of one: w (D - d) / D.
    pub fn queued_millipackets(&self) -> Option<u64> {
        let (mean, delay) = (self.mean_rtt?.as_nanos(), self.queueing_delay()?.as_nanos());
        let queued = u128::from(self.cwnd_segments) * 1_000 * u128::from(delay) / u128::from(mean.max(1));
        u64::try_from(queued).ok()
    }
}

#[cfg(any(feature = "bpf", test))]
impl FastConnection {
    /// Bytes of a record: `struct connection` of `bpf/fast_connections.bpf.c`.
    pub(super) const RECORD_LEN: usize = 88;

    /// Reads a record.
    pub(super) fn read(record: &[u8; FastConnection::RECORD_LEN]) -> FastConnection {
        use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
        let u16_at = |at: usize| u16::from_ne_bytes([record[at], record[at + 1]]);
        let u32_at = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let is_v4 = i32::from(u16_at(52)) == libc::AF_INET;
        let address = |at: usize| -> IpAddr {
            let bytes: [u8; 16] = record[at..at + 16].try_into().expect("sixteen bytes");
            if is_v4 {
                Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
            } else {
                // A socket of both families says an IPv4 address in the other's form.
                Ipv6Addr::from(bytes).to_canonical()
            }
        };
        let name: Vec<u8> = record[..16].iter().copied().take_while(|c| *c != 0).collect();
        let (base_us, average, ssthresh) = (u64_at(72), u64_at(80), u32_at(68));
        FastConnection {
            name: String::from_utf8_lossy(&name).into_owned(),
            local: SocketAddr::new(address(16), u16_at(48)),
            remote: SocketAddr::new(address(32), u16::from_be(u16_at(50))),
            is_listening: record[54] != 0,
            cwnd_segments: u32_at(56),
            mss: Bytes::new(u64::from(u32_at(60))),
            alpha_packets: u32_at(64),
            ssthresh_segments: (ssthresh < 0x7fff_ffff).then_some(ssthresh),
            base_rtt: (base_us > 0).then(|| Duration::from_micros(base_us)),
            // In 256ths of a microsecond.
            mean_rtt: (average > 0).then(|| Duration::from_nanos(average * 1_000 / 256)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn record() -> [u8; FastConnection::RECORD_LEN] {
        let mut bytes = [0; FastConnection::RECORD_LEN];
        bytes[..4].copy_from_slice(b"fast");
        bytes[16..20].copy_from_slice(&[10, 0, 0, 1]);
        bytes[32..36].copy_from_slice(&[10, 0, 0, 2]);
        bytes[48..50].copy_from_slice(&443_u16.to_ne_bytes());
        bytes[50..52].copy_from_slice(&50_000_u16.to_be_bytes());
        bytes[52..54].copy_from_slice(&2_u16.to_ne_bytes());
        for (at, value) in [(56, 86_u32), (60, 1_448), (64, 20), (68, 0x7fff_ffff)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(72, 40_000_u64), (80, 50_000 * 256)] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_record_is_read_with_its_units() {
        let connection = FastConnection::read(&record());
        assert_eq!(connection.name, "fast");
        assert_eq!(
            (connection.local.to_string(), connection.remote.to_string()),
            ("10.0.0.1:443".into(), "10.0.0.2:50000".into())
        );
        assert_eq!((connection.cwnd_segments, connection.ssthresh_segments), (86, None));
        assert_eq!(connection.queueing_delay(), Some(Duration::from_millis(10)));
        // A fifth of the round trip is queue, and so is a fifth of the window.
        assert_eq!(connection.queued_millipackets(), Some(17_200));
    }

    #[test]
    fn before_the_first_round_trip_nothing_is_said_of_queues() {
        let mut bytes = record();
        bytes[72..].fill(0);
        let connection = FastConnection::read(&bytes);
        assert_eq!(
            (connection.base_rtt, connection.queueing_delay(), connection.queued_millipackets()),
            (None, None, None)
        );
    }

    #[test]
    fn an_ipv4_address_on_a_socket_of_both_families_is_shown_as_one() {
        let mut bytes = record();
        bytes[52..54].copy_from_slice(&10_u16.to_ne_bytes());
        bytes[16..32].copy_from_slice(&Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets());
        assert_eq!(FastConnection::read(&bytes).local.to_string(), "192.0.2.1:443");
    }
}
