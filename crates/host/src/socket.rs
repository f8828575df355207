//! The options of a TCP socket, and what the kernel tells of its connection.

mod memory;

use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::{During, Error};

pub use memory::Memory;

// Options newer than the C library's headers (linux/tcp.h).
pub(crate) const TCP_RTO_MAX_MS: libc::c_int = 44;
pub(crate) const TCP_RTO_MIN_US: libc::c_int = 45;
pub(crate) const TCP_DELACK_MAX_US: libc::c_int = 46;
/// asm-generic/socket.h: which buffers have a size that was asked for, and grow no more by themselves; and its bits
/// (linux/socket.h).
pub(crate) const SO_BUF_LOCK: libc::c_int = 72;
pub(crate) const SEND_BUFFER_LOCK: libc::c_int = 1;
pub(crate) const RECEIVE_BUFFER_LOCK: libc::c_int = 2;
/// asm-generic/sockios.h
const SIOCATMARK: libc::Ioctl = 0x8905;

/// Options that a socket is given before it connects or listens. Accepted connections have them from their listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Congestion control, by its name in the kernel. Always told: a machine's own choice, bbr for instance, would be
    /// measured otherwise.
    pub congestion_control: String,
    /// `TCP_MAXSEG`: the largest segment offered and sent, in bytes; options come off it.
    pub mss: Option<Bytes>,
    /// `TCP_NODELAY`: send small segments at once.
    pub no_delay: bool,
    /// Room for data written and not yet acknowledged.
    pub send_buffer: Option<Bytes>,
    /// The largest window ever offered.
    pub receive_buffer: Option<Bytes>,
    /// `TCP_RTO_MIN_US`: the smallest retransmission time-out, at most 200 ms. The kernel rounds it to its clock's ticks.
    pub rto_min: Option<Duration>,
    /// `TCP_RTO_MAX_MS`: the largest, from 1 s to 120 s.
    pub rto_max: Option<Duration>,
    /// `TCP_DELACK_MAX_US`: an acknowledgement is held back for no longer.
    pub delayed_ack_max: Option<Duration>,
}

impl SocketOptions {
    /// Options that set the congestion control and leave everything else to the kernel.
    pub fn new(congestion_control: &str) -> SocketOptions {
        SocketOptions {
            congestion_control: congestion_control.to_owned(),
            mss: None,
            no_delay: false,
            send_buffer: None,
            receive_buffer: None,
            rto_min: None,
            rto_max: None,
            delayed_ack_max: None,
        }
    }

    /// Tells them to `socket`. Buffers beyond the machine's limits take CAP_NET_ADMIN.
    pub fn apply(&self, socket: impl AsFd) -> Result<(), Error> {
        let fd = socket.as_fd();
        let tcp = SockRef::from(&fd);
        let name = &self.congestion_control;
        tcp.set_tcp_congestion(name.as_bytes()).during(|| format!("set congestion control {name}"))?;
        tcp.set_tcp_nodelay(self.no_delay).during(|| "set TCP_NODELAY")?;
        if let Some(mss) = self.mss {
            let bytes = u32::try_from(mss.get()).unwrap_or(u32::MAX);
            tcp.set_tcp_mss(bytes).during(|| format!("set TCP_MAXSEG to {mss}"))?;
        }
        if let Some(bytes) = self.send_buffer {
            // The kernel counts its own memory, doubles what it is told for it, and spends about as much on a segment
            // as the segment holds.
            let size = clamp(bytes.get());
            set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, size).during(|| format!("set a send buffer of {bytes}"))?;
        }
        if let Some(bytes) = self.receive_buffer {
            self.receive(fd, bytes)?;
        }
        let micros = |time: Duration| clamp(time.as_nanos() / 1_000);
        let times = [
            (self.rto_min.map(micros), TCP_RTO_MIN_US, "TCP_RTO_MIN_US"),
            (self.rto_max.map(|max| micros(max) / 1_000), TCP_RTO_MAX_MS, "TCP_RTO_MAX_MS"),
            (self.delayed_ack_max.map(micros), TCP_DELACK_MAX_US, "TCP_DELACK_MAX_US"),
        ];
        for (value, option, name) in times {
            if let Some(value) = value {
                set(fd, libc::IPPROTO_TCP, option, value).during(|| format!("set {name} to {value}"))?;
            }
        }
        Ok(())
    }

    /// Room for `window` bytes of payload and their bookkeeping, and a window that offers no more.
    fn receive(&self, fd: BorrowedFd<'_>, window: Bytes) -> Result<(), Error> {
        let what = || format!("set a receive buffer of {window}");
        // Doubled by the kernel: four bytes of memory for a byte of payload, so that small segments cannot fill it.
        set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, clamp(2 * window.get())).during(what)?;
        clamp_window(fd, window).during(what)
    }
}

/// Limits the window that `socket` offers. The kernel sets a limit of its own when it has seen how much memory a segment
/// takes: after the first data this is to be said again.
pub fn clamp_window(socket: impl AsFd, window: Bytes) -> io::Result<()> {
    set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, clamp(window.get()))
}

/// True if the kernel has a TCP option, by its number. If no socket can be made the answer is yes: using it tells the
/// reason.
pub(crate) fn knows(option: libc::c_int) -> bool {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)) else { return true };
    !matches!(read(&socket, libc::IPPROTO_TCP, option), Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT))
}

/// True if the kernel says that it has the congestion control: compiled in, or its module loaded.
pub fn kernel_has(name: &str) -> bool {
    kernel_names().iter().any(|known| known == name)
}

/// The congestion controls that the kernel says it has.
pub fn kernel_names() -> Vec<String> {
    let offered = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    offered.split_whitespace().map(str::to_owned).collect()
}

pub(crate) fn clamp(value: u64) -> libc::c_int {
    libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX / 2)
}

/// Sets an option that is a number.
pub(crate) fn set(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let fd = socket.as_fd();
    let length = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `value`, which outlives the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is a number.
pub(crate) fn read(socket: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<libc::c_int> {
    let fd = socket.as_fd();
    let mut value: libc::c_int = 0;
    let mut length = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`; both outlive the call.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// True if the next byte to be read is an urgent one: reading stops before it, whatever has come after (SIOCATMARK, tcp(7)).
pub(crate) fn is_at_urgent(socket: impl AsFd) -> bool {
    let mut is_at: libc::c_int = 0;
    // SAFETY: the kernel writes a number into `is_at`, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCATMARK, &raw mut is_at) };
    result == 0 && is_at != 0
}

/// State of a connection's loss recovery (`tcpi_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryPhase {
    /// The sender misses nothing.
    Open,
    /// Acknowledgements hint at a loss.
    Disorder,
    /// The window shrinks for another reason than a loss.
    Reduced,
    /// Fast recovery.
    Recovery,
    /// The sender has had a retransmission time-out.
    Loss,
}

/// The kernel's figures of a connection, `TCP_INFO`. Fields that older kernels do not know are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The phase of loss recovery.
    pub phase: RecoveryPhase,
    /// The retransmission time-out.
    pub rto: Duration,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// The congestion window, in segments.
    pub cwnd_segments: u32,
    /// The slow-start threshold, in segments; `None` before the first congestion.
    pub ssthresh_segments: Option<u32>,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// Segments sent and not acknowledged.
    pub unacked_segments: u32,
    /// Segments in flight that have been selectively acknowledged.
    pub sacked_segments: u32,
    /// Segments in flight that are taken for lost.
    pub lost_segments: u32,
    /// Sent again and not acknowledged.
    pub retransmitted_segments: u32,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// Stream bytes acknowledged; the SYN counts as one.
    pub acked: Option<Bytes>,
    /// Bytes of data sent, retransmissions included.
    pub sent: Option<Bytes>,
    /// Bytes of data sent again.
    pub resent: Option<Bytes>,
    /// Segments with data sent, retransmissions included.
    pub data_segments: Option<u32>,
    /// The rate at which data was delivered last, as the kernel measures it for its congestion controls.
    pub delivery_rate: Option<Rate>,
    /// Segments that the peer reported to have received twice (RFC 2883).
    pub duplicates: Option<u32>,
    /// Smallest round-trip time of the last minutes.
    pub rtt_min: Option<Duration>,
    /// The time for which the peer's window, not the congestion window, limited the sender.
    pub window_limited: Option<Duration>,
    /// The time for which the send buffer limited it.
    pub buffer_limited: Option<Duration>,
    /// Retransmission time-outs.
    pub timeouts: Option<u16>,
}

impl Info {
    /// Asks for `socket`.
    pub fn of(socket: impl AsFd) -> io::Result<Info> {
        // As long as that of Linux 6.7, whose last field this reads. An older kernel fills less, and says so.
        let mut bytes = [0_u8; 248];
        let mut length = bytes.len() as libc::socklen_t;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the kernel writes at most `length` bytes into `bytes` and stores in `length` how many; both outlive
        // the call.
        let result = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut length)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Info::read(&bytes[..(length as usize).min(bytes.len())])
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("TCP_INFO has {length} bytes")))
    }

    /// Reads `struct tcp_info` (linux/tcp.h), whose fields never move. `None` if those are missing that every Linux with
    /// namespaces has.
    fn read(bytes: &[u8]) -> Option<Info> {
        let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let micros = |at: usize| Some(Duration::from_micros(u64::from(u32_at(at)?)));
        let long_micros = |at: usize| u64_at(at).map(Duration::from_micros);
        let ssthresh = u32_at(76)?;
        Some(Info {
            phase: match bytes.get(1)? {
                0 => RecoveryPhase::Open,
                1 => RecoveryPhase::Disorder,
                2 => RecoveryPhase::Reduced,
                3 => RecoveryPhase::Recovery,
                _ => RecoveryPhase::Loss,
            },
            rto: micros(8)?,
            mss: Bytes::new(u64::from(u32_at(16)?)),
            unacked_segments: u32_at(24)?,
            sacked_segments: u32_at(28)?,
            lost_segments: u32_at(32)?,
            retransmitted_segments: u32_at(36)?,
            srtt: micros(68)?,
            // TCP_INFINITE_SSTHRESH.
            ssthresh_segments: (ssthresh < 0x7fff_ffff).then_some(ssthresh),
            cwnd_segments: u32_at(80)?,
            retransmits: u32_at(100)?,
            acked: u64_at(120).map(Bytes::new),
            // All ones before the first sample.
            rtt_min: micros(148).filter(|_| u32_at(148) != Some(u32::MAX)),
            data_segments: u32_at(156),
            delivery_rate: u64_at(160).map(|bytes| Rate::bit(bytes.saturating_mul(8))),
            window_limited: long_micros(176),
            buffer_limited: long_micros(184),
            sent: u64_at(200).map(Bytes::new),
            resent: u64_at(208).map(Bytes::new),
            duplicates: u32_at(216),
            timeouts: u16_at(240),
        })
    }

    /// Bytes in flight: sent, and neither acknowledged in any way nor taken for lost (RFC 6675's pipe, in segments).
    pub fn in_flight(&self) -> Bytes {
        let out = (self.unacked_segments + self.retransmitted_segments)
            .saturating_sub(self.sacked_segments + self.lost_segments);
        self.mss * u64::from(out)
    }

    /// The congestion window.
    pub fn cwnd(&self) -> Bytes {
        self.mss * u64::from(self.cwnd_segments)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_has_the_congestion_control_it_was_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for name in ["reno", "cubic"] {
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            SocketOptions::new(name).apply(&socket).unwrap();
            let told = SockRef::from(&socket).tcp_congestion().unwrap();
            assert_eq!(String::from_utf8_lossy(&told).trim_end_matches('\0'), name);
        }
    }

    #[test]
    fn an_option_that_no_kernel_has_is_not_known() {
        assert!(knows(libc::TCP_MAXSEG));
        assert!(!knows(9_999));
    }

    #[test]
    fn the_kernel_tells_what_a_connection_has_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 3_000]).unwrap();
        receiver.read_exact(&mut [0; 3_000]).unwrap();
        let info = Info::of(&sender).unwrap();
        assert_eq!(info.sent, Some(Bytes::new(3_000)), "{info:?}");
        assert_eq!((info.resent, info.timeouts), (Some(Bytes::ZERO), Some(0)), "{info:?}");
        assert!(info.cwnd_segments >= 2 && info.mss > Bytes::ZERO && info.srtt > Duration::ZERO, "{info:?}");
        assert_eq!(info.ssthresh_segments, None, "nothing was lost on the loopback: {info:?}");
    }

    #[test]
    fn an_older_kernel_s_shorter_answer_leaves_out_what_it_does_not_know() {
        let bytes = [0; 104];
        let info = Info::read(&bytes).expect("all that Linux 2.6.24 has");
        assert_eq!((info.acked, info.sent, info.timeouts, info.rtt_min), (None, None, None, None));
        assert_eq!(info.delivery_rate, None);
        assert_eq!(Info::read(&bytes[..103]), None, "the last field is cut off");
    }

    #[test]
    fn segments_in_flight_are_neither_acknowledged_nor_lost() {
        let mut bytes = [0_u8; 248];
        for (at, value) in [(16, 1_000_u32), (24, 10), (28, 3), (32, 2), (36, 1)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        assert_eq!(Info::read(&bytes).unwrap().in_flight(), Bytes::new(6_000));
    }
}
