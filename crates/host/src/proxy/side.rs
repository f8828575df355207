//! The TCP of one side: what its sockets are asked to be, and what the kernel made of it.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;
use headend_engine::units::Bytes;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::field::{Table, Written, fields};
use crate::personality;
use crate::socket::{self, TCP_DELACK_MAX_US, TCP_RTO_MIN_US};
use crate::sysctl;

fields! {
    /// The options that the sockets of a side are asked to have; `None` leaves one to the kernel.
    pub struct SideOptions {
        congestion_control: Option<String> = None, "",
            "the kernel's name, such as `\"cubic\"` or `\"bbr\"`";
        rto_min: Option<Duration> = None, "time",
            "the smallest retransmission time-out, 200 ms at most; from Linux 6.15";
        delayed_ack_max: Option<Duration> = None, "time",
            "an acknowledgement waits no longer, 200 ms at most; from Linux 6.15";
        quick_acks: bool = false, "true, false",
            "acknowledgements wait as little as the kernel's clock allows: two of its ticks";
        dupack_threshold: Option<u32> = None, "count",
            "duplicate acknowledgements that tell of a loss; no socket can be told: the report names the machine's \
             setting";
        initial_window: Option<u32> = None, "segments",
            "the initial window; no socket can be told: the report names the route's option";
        mss: Option<Bytes> = None, "size",
            "the largest segment";
        send_buffer: Option<Bytes> = None, "size",
            "room for data written and not acknowledged; [`headend size`](cli.md#headend-size) works out what \
             overflows no modem";
        receive_buffer: Option<Bytes> = None, "size",
            "the largest window offered";
        unsent_low_water: Option<Bytes> = None, "size",
            "the kernel takes more only while less than this waits unsent (`TCP_NOTSENT_LOWAT`)";
        user_timeout: Option<Duration> = None, "time",
            "a connection fails when data has waited so long for its acknowledgement, or for a window (RFC 5482, \
             `TCP_USER_TIMEOUT`); without it after the machine's `net.ipv4.tcp_retries2`, about a quarter of an \
             hour";
    }
    beside {
        /// The personality that it began as.
        name: Option<String>;
        /// The options of its personality that no socket can be told, and why, in words.
        unmapped: Vec<(&'static str, String)>;
    }
    begun by {
        personality = read_personality, "",
            "`\"hfc-local\"`, `\"internet\"` or a name of `headend personalities`; what else is said goes \
             before it";
    }
}

/// Options that are no socket's: a listening one does not go on to have them.
const NOT_OF_SOCKETS: [&str; 2] = ["dupack_threshold", "initial_window"];

/// Begins as the personality of this name.
fn read_personality(side: &mut SideOptions, written: Written) -> Result<(), String> {
    let name = written.value::<String>()?;
    let names = || SideOptions::names().collect::<Vec<_>>().join(", ");
    *side = SideOptions::named(&name).ok_or_else(|| format!("found {name:?}, expected one of {}", names()))?;
    Ok(())
}

/// An option, what was asked for, and what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The option, as files call it.
    pub option: &'static str,
    /// The value that was asked for.
    pub asked: String,
    /// The value that the kernel says there is, or why there is none.
    pub granted: Result<String, String>,
}

/// The shortest delays that kernels take, whose clocks have 1000, 250 and 100 ticks a second: two ticks
/// (TCP_TIMEOUT_MIN).
const QUICK_ACK_US: [libc::c_int; 3] = [2_000, 8_000, 20_000];

impl SideOptions {
    /// The paper's remedy for the side of the access network, as Linux can do it (tuning paper s6): losses are repaired
    /// soon, because the round trip is short. RACK takes the place of the small duplicate-ACK threshold; the time-out may
    /// be as short as a few round trips. What a loss does to the window is left of it, and with CUBIC it is most of it: so
    /// a controller has the window that damage does not hold down. Backfill is one that leaves others on the line their
    /// share, and BBR is in most kernels.
    pub fn hfc_local() -> SideOptions {
        let controller = ["backfill", "bbr"].into_iter().find(|name| socket::kernel_has(name)).unwrap_or("cubic");
        SideOptions {
            name: Some("hfc-local".to_owned()),
            congestion_control: Some(controller.to_owned()),
            rto_min: Some(Duration::from_millis(50)),
            quick_acks: true,
            dupack_threshold: Some(1),
            ..SideOptions::default()
        }
    }

    /// The side towards an Internet that is used to what the machine does: nothing is asked for.
    pub fn internet() -> SideOptions {
        SideOptions { name: Some("internet".to_owned()), ..SideOptions::default() }
    }

    /// The side of this name: `hfc-local`, `internet`, or a personality of the simulator.
    pub fn named(name: &str) -> Option<SideOptions> {
        match name {
            "hfc-local" => Some(SideOptions::hfc_local()),
            "internet" => Some(SideOptions::internet()),
            _ => {
                let (name, make) = Personality::ALL.iter().find(|(known, _)| *known == name)?;
                Some(SideOptions::of(name, &make()))
            }
        }
    }

    /// All names that [`SideOptions::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ["hfc-local", "internet"].into_iter().chain(Personality::ALL.iter().map(|(name, _)| *name))
    }

    fn of(name: &str, personality: &Personality) -> SideOptions {
        let (settings, unmapped) = personality::map_here(personality);
        let options = settings.socket;
        SideOptions {
            name: Some(name.to_owned()),
            congestion_control: Some(options.congestion_control),
            rto_min: options.rto_min.or(settings.metrics.rto_min),
            delayed_ack_max: options.delayed_ack_max,
            quick_acks: settings.metrics.quick_ack,
            dupack_threshold: Some(personality.dupack_threshold),
            initial_window: settings.metrics.initial_window_segments,
            mss: options.mss,
            send_buffer: options.send_buffer,
            receive_buffer: options.receive_buffer,
            unmapped: unmapped.into_iter().map(|unmapped| (unmapped.option, unmapped.why)).collect(),
            ..SideOptions::default()
        }
    }

    /// Asks a socket that neither listens nor is connected to be like this. What is refused stays as it is:
    /// [`SideOptions::grants`] says so once, at the start, and not each connection anew.
    pub(crate) fn ask(&self, socket: impl AsFd) {
        let fd = socket.as_fd();
        let tcp = SockRef::from(&fd);
        // Whatever is relayed was held back by its sender as long as that wanted.
        let _ = tcp.set_tcp_nodelay(true);
        // An urgent byte (RFC 6093) is one of the stream, in its place: else the kernel takes it out.
        let _ = tcp.set_out_of_band_inline(true);
        if let Some(name) = &self.congestion_control {
            let _ = tcp.set_tcp_congestion(name.as_bytes());
        }
        if let Some(bytes) = self.send_buffer {
            buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
        }
        if let Some(bytes) = self.receive_buffer {
            // As for `socket::SocketOptions`: four bytes of memory for one of payload, and a window of so many.
            buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes * 2);
            let _ = socket::clamp_window(fd, bytes);
        }
        for number in self.numbers() {
            let _ = socket::set(fd, libc::IPPROTO_TCP, number.option, socket::clamp(number.asked));
        }
        if self.quick_acks {
            let _ = socket::set(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
            // The kernel leaves that mode when it takes a connection for an interactive one: then this is as good.
            let _ = QUICK_ACK_US.into_iter().try_for_each(|delay| {
                match socket::set(fd, libc::IPPROTO_TCP, TCP_DELACK_MAX_US, delay) {
                    Ok(()) => Err(()),
                    Err(_) => Ok(()),
                }
            });
        }
    }

    /// Takes from `before` what sockets that listen on go on to be: what they were told can be told anew, and not taken back.
    /// Returns the names of these options.
    pub(crate) fn keep(&mut self, before: &SideOptions) -> Vec<&'static str> {
        // The two are one option of a socket.
        let has_other_delay = self.quick_acks || self.delayed_ack_max.is_some();
        let is_settled = |name| has_other_delay && matches!(name, "quick_acks" | "delayed_ack_max");
        SideOptions::FIELDS
            .iter()
            .filter(|field| {
                !NOT_OF_SOCKETS.contains(&field.name) && !is_settled(field.name) && (field.keep)(self, before)
            })
            .map(|field| field.name)
            .collect()
    }

    /// True if a socket takes CAP_NET_ADMIN to become like this.
    pub(crate) fn takes_privilege(&self) -> bool {
        let allowed = sysctl::read("net.ipv4.tcp_allowed_congestion_control").unwrap_or_default();
        let is_allowed = |name: &String| allowed.split_whitespace().any(|allowed| allowed == name);
        let exceeds = |bytes: Option<Bytes>, setting: &str| {
            let max = sysctl::read(setting).ok().and_then(|max| max.parse::<u64>().ok());
            bytes.zip(max).is_some_and(|(bytes, max)| bytes.get() > max)
        };
        self.congestion_control.as_ref().is_some_and(|name| !is_allowed(name))
            || exceeds(self.send_buffer, "net.core.wmem_max")
            || exceeds(self.receive_buffer.map(|bytes| bytes * 2), "net.core.rmem_max")
    }

    /// The options that are numbers at the level of TCP, and are read back as they were told.
    fn numbers(&self) -> impl Iterator<Item = SocketNumber> {
        let micros = |time: Duration| time.as_nanos() / 1_000;
        // None would mean the kernel's own.
        let millis = |time: Duration| time.as_nanos().div_ceil(1_000_000).max(1);
        let delay = self.delayed_ack_max.filter(|_| !self.quick_acks);
        // A tick of the slowest clock (CONFIG_HZ=100) may be added to a time.
        [
            ("rto_min", TCP_RTO_MIN_US, self.rto_min.map(micros), "us", 10_000),
            ("delayed_ack_max", TCP_DELACK_MAX_US, delay.map(micros), "us", 10_000),
            ("mss", libc::TCP_MAXSEG, self.mss.map(Bytes::get), "bytes", 0),
            ("user_timeout", libc::TCP_USER_TIMEOUT, self.user_timeout.map(millis), "ms", 0),
            ("unsent_low_water", libc::TCP_NOTSENT_LOWAT, self.unsent_low_water.map(Bytes::get), "bytes", 0),
        ]
        .into_iter()
        .filter_map(|(name, option, asked, unit, slack)| {
            Some(SocketNumber { name, option, asked: asked?, unit, slack })
        })
    }

    /// The options that the kernel grants to a fresh socket of this process, and those that routes and settings of the
    /// machine have.
    pub fn grants(&self) -> Vec<Grant> {
        match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)) {
            Ok(socket) => {
                self.ask(&socket);
                self.grants_of(&socket)
            }
            Err(error) => vec![Grant::new("sockets", "one to try", Err(error.to_string()))],
        }
    }

    /// The options that the kernel has granted to `socket`, and those that routes and settings of the machine have.
    pub(crate) fn grants_of(&self, socket: impl AsFd) -> Vec<Grant> {
        let mut grants = Vec::new();
        self.read_back(socket.as_fd(), &mut grants);
        if let Some(threshold) = self.dupack_threshold {
            let found = sysctl::read("net.ipv4.tcp_reordering").unwrap_or_default();
            let granted = match found == threshold.to_string() {
                true => Ok(format!("{found} (net.ipv4.tcp_reordering)")),
                false => Err(format!(
                    "no socket can be told; the machine has {found}: sysctl net.ipv4.tcp_reordering={threshold}. With \
                     net.ipv4.tcp_recovery = 1 losses are found by time (RACK) before"
                )),
            };
            grants.push(Grant::new("dupack_threshold", threshold, granted));
        }
        if let Some(segments) = self.initial_window {
            // RFC 6928, the kernel's TCP_INIT_CWND.
            let granted = match segments {
                10 => Ok("10, the kernel's own, where no route says otherwise".to_owned()),
                _ => Err(format!("no socket can be told; routes can: ip route change ... initcwnd {segments}")),
            };
            grants.push(Grant::new("initial_window", format!("{segments} segments"), granted));
        }
        grants.extend(self.unmapped.iter().map(|(option, why)| Grant::new(option, "as it is", Err(why.clone()))));
        grants
    }

    fn read_back(&self, fd: BorrowedFd<'_>, grants: &mut Vec<Grant>) {
        let tcp = SockRef::from(&fd);
        if let Some(asked) = &self.congestion_control {
            let found =
                tcp.tcp_congestion().map(|name| String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned());
            let granted = match found {
                Ok(found) if found == *asked => Ok(found),
                Ok(found) => Err(format!("{found} in its place; is the module tcp_{asked} loaded and allowed?")),
                Err(error) => Err(error.to_string()),
            };
            grants.push(Grant::new("congestion_control", asked, granted));
        }
        let number = |level, option| socket::read(fd, level, option).map(|value| value as u64);
        let mut compare = |option, asked: u64, unit: &str, slack: u64, found: std::io::Result<u64>| {
            let granted = match found {
                Ok(found) if found.abs_diff(asked) <= slack => Ok(format!("{found} {unit}")),
                Ok(found) => Err(format!("{found} {unit}")),
                Err(error) => Err(error.to_string()),
            };
            grants.push(Grant::new(option, format!("{asked} {unit}"), granted));
        };
        for SocketNumber { name, option, asked, unit, slack } in self.numbers() {
            compare(name, asked, unit, slack, number(libc::IPPROTO_TCP, option));
        }
        if self.quick_acks {
            let shortest = QUICK_ACK_US[0] as u64;
            compare("quick_acks", shortest, "us at most", 18_000, number(libc::IPPROTO_TCP, TCP_DELACK_MAX_US));
        }
        if let Some(bytes) = self.send_buffer {
            // The kernel has doubled it, for its own memory.
            let found = number(libc::SOL_SOCKET, libc::SO_SNDBUF).map(|found| found / 2);
            compare("send_buffer", bytes.get(), "bytes", 0, found);
        }
        if let Some(bytes) = self.receive_buffer {
            let found = number(libc::SOL_SOCKET, libc::SO_RCVBUF).map(|found| found / 4);
            compare("receive_buffer", bytes.get(), "bytes", 1, found);
        }
    }
}

/// An option of a socket that is a number at the level of TCP.
struct SocketNumber {
    name: &'static str,
    option: libc::c_int,
    asked: u64,
    unit: &'static str,
    /// The difference from what was asked for that the kernel may make of it.
    slack: u64,
}

/// Sets a buffer's size: beyond the machine's limit if this process may, else up to it.
fn buffer(fd: BorrowedFd<'_>, forced: libc::c_int, plain: libc::c_int, bytes: Bytes) {
    let size = socket::clamp(bytes.get());
    if socket::set(fd, libc::SOL_SOCKET, forced, size).is_err() {
        let _ = socket::set(fd, libc::SOL_SOCKET, plain, size);
    }
}

impl Grant {
    fn new(option: &'static str, asked: impl ToString, granted: Result<String, String>) -> Grant {
        Grant { option, asked: asked.to_string(), granted }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Grant { option, asked, granted } = self;
        match granted {
            Ok(found) => write!(f, "{option} {asked}: granted, {found}"),
            Err(why) => write!(f, "{option} {asked}: not granted, {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_read_back_as_the_kernel_has_it() {
        let side = SideOptions {
            congestion_control: Some("reno".to_owned()),
            mss: Some(Bytes::new(1_000)),
            unsent_low_water: Some(Bytes::new(65_536)),
            user_timeout: Some(Duration::from_secs(90)),
            send_buffer: Some(Bytes::new(100_000)),
            receive_buffer: Some(Bytes::new(50_000)),
            dupack_threshold: Some(77),
            ..SideOptions::default()
        };
        let grants = side.grants();
        for option in ["congestion_control", "mss", "unsent_low_water", "user_timeout", "send_buffer", "receive_buffer"]
        {
            let grant = grants.iter().find(|grant| grant.option == option).expect("each option is told of");
            assert!(grant.granted.is_ok(), "{grant}");
        }
        let threshold = grants.iter().find(|grant| grant.option == "dupack_threshold").expect("told of");
        assert!(threshold.granted.is_err(), "{threshold}");
    }

    #[test]
    fn a_congestion_control_that_is_not_there_is_said_to_be_missing() {
        let side = SideOptions { congestion_control: Some("nonesuch".to_owned()), ..SideOptions::default() };
        let grants = side.grants();
        assert!(matches!(&grants[..], [grant] if grant.granted.is_err()), "{grants:?}");
    }

    #[test]
    fn options_of_listening_sockets_stay_until_another_value_is_given() {
        let before = SideOptions {
            congestion_control: Some("reno".to_owned()),
            mss: Some(Bytes::new(700)),
            quick_acks: true,
            dupack_threshold: Some(1),
            ..SideOptions::default()
        };
        let mut now = SideOptions { mss: Some(Bytes::new(900)), ..SideOptions::default() };
        assert_eq!(now.keep(&before), ["congestion_control", "quick_acks"]);
        assert_eq!((now.mss, now.quick_acks, now.dupack_threshold), (Some(Bytes::new(900)), true, None));
        let mut other = SideOptions { delayed_ack_max: Some(Duration::from_millis(10)), ..before.clone() };
        other.quick_acks = false;
        assert!(other.keep(&before).is_empty() && !other.quick_acks);
    }

    #[test]
    fn every_name_makes_a_side() {
        for name in SideOptions::names() {
            let side = SideOptions::named(name).expect("a name that is listed is known");
            assert_eq!(side.name.as_deref(), Some(name));
        }
        assert_eq!(SideOptions::named("nonesuch"), None);
    }
}
