//! Personalities on the kernel's TCP: the settings that make it so, and the options that it cannot have.

use headend_engine::cc::backfill::Guard;
use headend_engine::cc::hystart::HyStart;
use headend_engine::cc::{Algorithm, cubic, vegas};
use headend_engine::tcp::personality::{
    DelayedAck, EcnPolicy, EraRules, Headers, Personality, Recovery, RtoPolicy, WindowUpdate,
};
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use crate::fast;
use crate::route::Metrics;
use crate::socket::{self, SocketOptions, TCP_DELACK_MAX_US, TCP_RTO_MAX_MS, TCP_RTO_MIN_US};
use crate::sysctl::{self, KernelSetting};

/// The settings of a host whose TCP is to do what a personality says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Settings of the host's namespace.
    pub sysctls: Vec<KernelSetting>,
    /// Metrics of its routes: they hold for programs that set nothing themselves.
    pub metrics: Metrics,
    /// Options of each socket of a program that asks for them.
    pub socket: SocketOptions,
    /// The largest packet of its device that segments need.
    pub mtu: u32,
}

/// An option that the kernel has no setting for, and does otherwise than the personality says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmapped {
    /// The option, as scenario files call it.
    pub option: &'static str,
    /// Why not, and what the kernel does instead.
    pub why: String,
}

/// The range in which the kernel takes `TCP_RTO_MIN_US`; above, a route must say it.
const SOCKET_RTO_MIN_MAX: Duration = Duration::from_millis(200);
/// The range of `TCP_RTO_MAX_MS`.
const RTO_MAX: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(120)];
/// The range of `TCP_MAXSEG`.
const MSS: [Bytes; 2] = [Bytes::new(88), Bytes::new(32_767)];
/// The longest that the kernel delays an acknowledgement.
const DELAYED_ACK_MAX: Duration = Duration::from_millis(200);
/// IPv4 and TCP headers without options.
const HEADERS: u64 = 40;
/// Congestion controls that every kernel has and everybody may use, or can load without being told.
const BUILT_IN: [&str; 2] = ["reno", "cubic"];
/// The name under which FAST is installed unless another is given.
const FAST: &str = "fast";

/// Settings for `personality`, and all of it that they do not express. Of congestion controls it takes the kernel to have
/// those that are compiled in or loaded as modules.
pub fn map(personality: &Personality) -> (Settings, Vec<Unmapped>) {
    map_with(personality, Err("the kernel has no FAST"))
}

/// The same as [`map`], with FAST in the kernel under a name, or the reason why it is not.
fn map_with(personality: &Personality, fast: Result<&str, &str>) -> (Settings, Vec<Unmapped>) {
    let mut mapping = Mapping {
        settings: Settings {
            sysctls: vec![
                // A connection shall not start where the last one to the same host ended.
                KernelSetting::new("net.ipv4.tcp_no_metrics_save", 1),
                KernelSetting::new("net.ipv4.tcp_mtu_probing", 0),
                // Small segments wait for nothing but what `nagle` says.
                KernelSetting::new("net.ipv4.tcp_autocorking", 0),
                // Segments that are sent again are those that were sent.
                KernelSetting::new("net.ipv4.tcp_retrans_collapse", 0),
            ],
            metrics: Metrics::default(),
            socket: SocketOptions::new(personality.controller.name()),
            mtu: 1_500,
        },
        unmapped: Vec::new(),
    };
    mapping.all(personality, fast);
    (mapping.settings, mapping.unmapped)
}

/// The same as [`map`], for the kernel that is running: an option that it is too old for is expressed another way, or
/// not at all. For FAST it takes what is installed, preferably with the personality's parameters.
pub fn map_here(personality: &Personality) -> (Settings, Vec<Unmapped>) {
    let Algorithm::Fast(parameters) = personality.controller else {
        return map_here_with(personality, Err(""));
    };
    match installed_fast(parameters) {
        Ok((name, note)) => {
            let (settings, mut unmapped) = map_here_with(personality, Ok(&name));
            unmapped.extend(note.map(|why| Unmapped { option: "fast_alpha", why }));
            (settings, unmapped)
        }
        Err(why) => map_here_with(personality, Err(&why)),
    }
}

/// The same as [`map_here`], with FAST as it is installed under `name`, with the personality's parameters.
pub fn map_here_as(personality: &Personality, name: &str) -> (Settings, Vec<Unmapped>) {
    map_here_with(personality, Ok(name))
}

/// The installed FAST that suits `parameters` best, and how it differs; or why there is none.
fn installed_fast(parameters: fast::Parameters) -> Result<(String, Option<String>), String> {
    // Whoever may not read it can still use it.
    let installed = fast::installed().unwrap_or_default();
    let same = installed.iter().find(|one| one.parameters == parameters);
    if let Some(one) = same.or(installed.iter().find(|one| one.name == FAST)).or(installed.first()) {
        let fast::Parameters { gamma_percent, update_rounds, check_seconds, .. } = one.parameters;
        let alpha = one.parameters.alpha();
        let note = (one.parameters != parameters).then(|| {
            let name = &one.name;
            format!(
                "FAST is installed as {name} with alpha {alpha}, gamma {gamma_percent}%, {update_rounds} \
                 rounds and a check every {check_seconds} s (headend cc set --name {name} alpha={})",
                parameters.alpha()
            )
        });
        return Ok((one.name.clone(), note));
    }
    if socket::kernel_has(FAST) {
        return Ok((FAST.to_owned(), Some("what FAST aims at is what it was installed with".to_owned())));
    }
    let lacking = || format!("FAST is not installed (headend cc install fast --alpha {})", parameters.alpha());
    Err(fast::missing().unwrap_or_else(lacking))
}

fn map_here_with(personality: &Personality, fast: Result<&str, &str>) -> (Settings, Vec<Unmapped>) {
    let (settings, mut unmapped) = map_with(personality, fast);
    let (settings, lacking) = within(settings, &sysctl::exists, &socket::knows);
    unmapped.extend(lacking);
    (settings, unmapped)
}

/// `settings` without those that a kernel has not that has only the named settings and TCP socket options of which it
/// `has_setting` and `has_option`.
fn within(
    mut settings: Settings,
    has_setting: &dyn Fn(&str) -> bool,
    has_option: &dyn Fn(i32) -> bool,
) -> (Settings, Vec<Unmapped>) {
    const RTO_MIN_SETTING: &str = "net.ipv4.tcp_rto_min_us";
    const RTO_MAX_SETTING: &str = "net.ipv4.tcp_rto_max_ms";
    let mut unmapped = Vec::new();
    // Routes have always had one, and it goes before the other two. From Linux 6.7 on it also shortens delayed ACKs, so what
    // is as ever (TCP_RTO_MIN) is not said.
    if settings.socket.rto_min.is_some() && !(has_setting(RTO_MIN_SETTING) && has_option(TCP_RTO_MIN_US)) {
        settings.metrics.rto_min = settings.socket.rto_min.take().filter(|min| *min != SOCKET_RTO_MIN_MAX);
        settings.sysctls.retain(|setting| setting.name != RTO_MIN_SETTING);
    }
    // Where these cannot be set they are what they always were (TCP_RTO_MAX, TCP_DELACK_MAX in the kernel's sources).
    if !has_option(TCP_RTO_MAX_MS) && settings.socket.rto_max.take().is_some_and(|max| max != RTO_MAX[1]) {
        let why = "the largest time-out is 120 s, as this kernel has no TCP_RTO_MAX_MS".to_owned();
        unmapped.push(Unmapped { option: "rto_max", why });
    }
    if !has_option(TCP_DELACK_MAX_US)
        && settings.socket.delayed_ack_max.take().is_some_and(|max| max != DELAYED_ACK_MAX)
    {
        let why = "an acknowledgement waits up to 200 ms, as this kernel has no TCP_DELACK_MAX_US".to_owned();
        unmapped.push(Unmapped { option: "delayed_ack_timeout", why });
    }
    settings.sysctls.retain(|setting| {
        let is_there = has_setting(setting.name);
        // Sockets and routes say these two as well, or have just said why not.
        if !is_there && ![RTO_MIN_SETTING, RTO_MAX_SETTING].contains(&setting.name) {
            let why = format!("it stays as it is, as this kernel has no such setting, nor {:?} for it", setting.value);
            unmapped.push(Unmapped { option: setting.name, why });
        }
        is_there
    });
    (settings, unmapped)
}

struct Mapping {
    settings: Settings,
    unmapped: Vec<Unmapped>,
}

impl Mapping {
    fn sysctl(&mut self, name: &'static str, value: impl ToString) {
        self.settings.sysctls.push(KernelSetting::new(name, value));
    }

    /// Notes an option that is not what the kernel does.
    fn note(&mut self, differs: bool, option: &'static str, why: impl Into<String>) {
        if differs {
            self.unmapped.push(Unmapped { option, why: why.into() });
        }
    }

    /// Goes through every option: a new one does not compile until it is dealt with here.
    fn all(&mut self, personality: &Personality, fast_here: Result<&str, &str>) {
        let Personality {
            mss,
            headers,
            initial_window_segments: _,
            initial_ssthresh_segments,
            abc_limit_segments,
            send_buffer,
            receive_buffer,
            window_scaling,
            timestamps,
            sack,
            ecn,
            dupack_threshold,
            limited_transmit,
            recovery,
            ref controller,
            window_in_segments,
            frto,
            undo_spurious,
            ref rto,
            ref delayed_ack,
            window_update,
            idle_restart,
            nagle,
            ref era,
        } = *personality;
        self.segments(mss, headers);
        let segments = personality.initial_window().get() / mss.get().max(1);
        self.settings.metrics.initial_window_segments = Some(u32::try_from(segments).unwrap_or(u32::MAX).max(1));
        let why = "slow start goes on until a loss or, with cubic, until HyStart ends it";
        self.note(initial_ssthresh_segments.is_some(), "initial_ssthresh_segments", why);
        let why = "an ACK in slow start adds all that it acknowledges";
        self.note(abc_limit_segments.is_some(), "abc_limit_segments", why);
        self.settings.socket.send_buffer = Some(send_buffer);
        self.settings.socket.receive_buffer = Some(receive_buffer);
        for (name, value) in [
            ("net.ipv4.tcp_window_scaling", window_scaling),
            ("net.ipv4.tcp_timestamps", timestamps),
            ("net.ipv4.tcp_sack", sack),
            ("net.ipv4.tcp_dsack", sack),
            ("net.ipv4.tcp_slow_start_after_idle", idle_restart),
        ] {
            self.sysctl(name, u8::from(value));
        }
        // Linux, Documentation/networking/ip-sysctl.rst.
        let ecn = match ecn {
            EcnPolicy::Off => 0,
            EcnPolicy::Request => 1,
            EcnPolicy::Accept => 2,
        };
        self.sysctl("net.ipv4.tcp_ecn", ecn);
        self.sysctl("net.ipv4.tcp_reordering", dupack_threshold.max(1));
        let why = "the first two duplicate ACKs always let a new segment out (RFC 3042)";
        self.note(!limited_transmit, "limited_transmit", why);
        self.recovery(recovery, sack);
        self.sysctl("net.ipv4.tcp_frto", if frto { 2 } else { 0 });
        let why = "a reduction that was a mistake is taken back";
        self.note(recovery == Recovery::RackTlp && !undo_spurious, "undo_spurious", why);
        self.note(!window_in_segments, "window_in_segments", "windows are counted in segments");
        self.controller(controller, fast_here);
        self.rto(rto);
        self.delayed_ack(delayed_ack);
        let why = "a window that opens is told of once it has doubled";
        self.note(window_update != WindowUpdate::Doubled, "window_update", why);
        self.settings.socket.no_delay = !nagle;
        let why = "recovery follows RFC 6582 and halves what is in flight";
        self.note(recovery.follows_era() && *era != EraRules::RFC, "era", why);
    }

    fn controller(&mut self, wanted: &Algorithm, fast: Result<&str, &str>) {
        let taken = match (wanted, fast) {
            (Algorithm::Fast(_), Ok(installed)) => installed,
            // What it aims at, the fields `fast_`, has nowhere to go either.
            (Algorithm::Fast(_), Err(why)) => {
                self.note(true, "controller", format!("cubic controls the window: {why}"));
                "cubic"
            }
            _ if BUILT_IN.contains(&wanted.name()) || socket::kernel_has(wanted.name()) => {
                self.parameters(wanted);
                wanted.name()
            }
            (Algorithm::Backfill(_), _) => {
                let why = "backfill is not installed (headend cc install backfill): cubic controls the window";
                self.note(true, "controller", why);
                "cubic"
            }
            _ => {
                let module = format!("tcp_{}", wanted.name());
                let why = format!("the module {module} is not loaded (modprobe {module}): cubic controls the window");
                self.note(true, "controller", why);
                "cubic"
            }
        };
        taken.clone_into(&mut self.settings.socket.congestion_control);
        // By the route and not as the namespace's default, which may only be an algorithm that everybody is allowed.
        self.settings.metrics.congestion_control = Some(taken.to_owned());
    }

    /// Notes the parameters that the kernel's algorithm of the same name has otherwise.
    fn parameters(&mut self, wanted: &Algorithm) {
        match wanted {
            Algorithm::Cubic(cubic::Parameters { hystart }) => {
                let why = "cubic ends slow start by classic HyStart, on the whole machine or not at all";
                self.note(*hystart != HyStart::Classic, "hystart", why);
            }
            Algorithm::Backfill(parameters) => {
                let why = "the kernel's has all its guards";
                self.note(parameters.without != Guard::None, "backfill_without", why);
            }
            Algorithm::Vegas(parameters) => {
                let why = "alpha, beta and gamma are those of the module tcp_vegas, by default 2, 4 and 1";
                self.note(*parameters != vegas::Parameters::DEFAULT, "vegas_alpha", why);
            }
            _ => {
                for (field, _) in wanted.values().iter() {
                    self.note(true, field, format!("it is what the kernel's own {} has", wanted.name()));
                }
            }
        }
    }

    fn segments(&mut self, mss: Bytes, headers: Headers) {
        let taken = mss.clamp(MSS[0], MSS[1]);
        self.note(taken != mss, "mss", format!("a segment has from {} to {}: {taken}", MSS[0], MSS[1]));
        self.settings.socket.mss = Some(taken);
        self.settings.metrics.advertised_mss = Some(taken.get() as u32);
        self.settings.mtu = (taken.get() + HEADERS) as u32;
        let why = "packets have their headers, and links carry them";
        self.note(headers == Headers::Uncounted, "headers", why);
    }

    fn recovery(&mut self, recovery: Recovery, sack: bool) {
        let has_rack = recovery == Recovery::RackTlp;
        self.sysctl("net.ipv4.tcp_recovery", u8::from(has_rack));
        // 3: tail-loss probes.
        self.sysctl("net.ipv4.tcp_early_retrans", if has_rack { 3 } else { 0 });
        let instead = match recovery {
            Recovery::Tahoe => Some("there is no Tahoe: fast retransmit is followed by fast recovery, as in NewReno"),
            Recovery::Reno => Some("there is no Reno: fast recovery lasts until all that was sent is acknowledged"),
            Recovery::NewReno if sack => {
                Some("with selective acknowledgements losses are repaired from their scoreboard")
            }
            _ if recovery.needs_sack() && !sack => {
                Some("without selective acknowledgements losses are repaired as in NewReno")
            }
            Recovery::NewReno | Recovery::Sack | Recovery::RackTlp => None,
            _ => Some("losses are repaired from a scoreboard, as with sack, and every TCP controls congestion itself"),
        };
        self.note(instead.is_some(), "recovery", instead.unwrap_or_default());
    }

    fn rto(&mut self, rto: &RtoPolicy) {
        let RtoPolicy { tick, heartbeat, initial, min, min_on_variance, max, backoff_max } = *rto;
        if min <= SOCKET_RTO_MIN_MAX {
            self.settings.socket.rto_min = Some(min);
            self.sysctl("net.ipv4.tcp_rto_min_us", (min.as_nanos() / 1_000).max(1));
        } else {
            self.settings.metrics.rto_min = Some(min);
        }
        let taken = max.clamp(RTO_MAX[0], RTO_MAX[1]);
        self.note(taken != max, "rto_max", format!("the largest time-out is from 1 s to 120 s: {taken}"));
        self.settings.socket.rto_max = Some(taken);
        self.sysctl("net.ipv4.tcp_rto_max_ms", taken.as_nanos() / 1_000_000);
        let coarse = Duration::from_millis(4);
        self.note(tick > coarse, "rto_tick", "round trips are measured in microseconds");
        self.note(heartbeat, "rto_heartbeat", "timers end when they are due, within the kernel's tick");
        let why = "the first time-out is 1 s, or 3 s if the SYN was sent again";
        self.note(initial != Duration::from_secs(1), "rto_initial", why);
        let why = "the minimum bounds the variance term: RTO = SRTT + max(minimum, 4 RTTVAR)";
        self.note(!min_on_variance, "rto_min_on_variance", why);
        // 2^15 is more than any 120 s allow.
        self.note(backoff_max < 1 << 7, "rto_backoff_max", "time-outs double up to the largest one");
    }

    fn delayed_ack(&mut self, delayed_ack: &DelayedAck) {
        let DelayedAck {
            segments,
            quick_segments,
            timeout,
            timeout_max,
            heartbeat,
            gap_fill_at_once,
            out_of_order_at_once,
        } = *delayed_ack;
        self.settings.metrics.quick_ack = segments == 1;
        self.note(segments > 2, "delayed_ack", "every second full segment is acknowledged at once");
        if segments > 1 {
            let wanted = timeout.max(timeout_max);
            let taken = wanted.min(DELAYED_ACK_MAX);
            self.note(taken != wanted, "delayed_ack_timeout", "an acknowledgement waits 200 ms at most");
            self.settings.socket.delayed_ack_max = Some(taken);
            self.note(heartbeat, "delayed_ack_heartbeat", "each delay has a timer of its own");
            let why = "the first 17 segments are acknowledged one by one";
            self.note(quick_segments != 17, "quick_acks", why);
        }
        let why = "a segment that fills a gap is acknowledged at once";
        self.note(!gap_fill_at_once, "delayed_ack_gap_fill_at_once", why);
        let why = "a segment out of order is acknowledged at once";
        self.note(!out_of_order_at_once, "delayed_ack_out_of_order_at_once", why);
    }
}

#[cfg(test)]
mod tests {
    use headend_engine::cc::bbr;

    use super::*;

    fn value<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
        settings.sysctls.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
    }

    #[test]
    fn the_linux_of_today_maps_without_remainder() {
        let (settings, unmapped) = map(&Personality::linux());
        assert_eq!(unmapped, []);
        assert_eq!(settings.metrics.initial_window_segments, Some(10));
        assert_eq!(settings.socket.rto_min, Some(Duration::from_millis(200)));
        assert_eq!(value(&settings, "net.ipv4.tcp_recovery"), Some("1"));
        assert_eq!(settings.metrics.congestion_control.as_deref(), Some("cubic"));
        assert_eq!(settings.mtu, 1_500);
    }

    #[test]
    fn options_of_1996_that_the_kernel_cannot_have_are_reported() {
        let (settings, unmapped) = map(&Personality::bsd_reno_1996());
        let options: Vec<&str> = unmapped.iter().map(|unmapped| unmapped.option).collect();
        for expected in ["recovery", "era", "rto_tick", "rto_initial", "limited_transmit", "abc_limit_segments"] {
            assert!(options.contains(&expected), "{expected} is not among {options:?}");
        }
        assert_eq!(settings.metrics.initial_window_segments, Some(1));
        assert_eq!(settings.metrics.rto_min, Some(Duration::from_secs(1)), "a socket cannot be told more than 200 ms");
        assert_eq!(value(&settings, "net.ipv4.tcp_sack"), Some("0"));
    }

    #[test]
    fn a_kernel_that_has_everything_changes_nothing_of_a_mapping() {
        let (settings, _) = map(&Personality::bsd_reno_1996());
        assert_eq!(within(settings.clone(), &|_| true, &|_| true), (settings, vec![]));
    }

    #[test]
    fn on_an_older_kernel_the_smallest_time_out_is_said_by_routes() {
        let mut personality = Personality::linux();
        let is_old = |name: &str| !name.starts_with("net.ipv4.tcp_rto_");
        let (settings, unmapped) = within(map(&personality).0, &is_old, &|_| false);
        assert_eq!(unmapped, []);
        assert_eq!(settings.metrics.rto_min, None, "200 ms, as ever");
        let SocketOptions { rto_min, rto_max, delayed_ack_max, .. } = settings.socket;
        assert_eq!((rto_min, rto_max, delayed_ack_max), (None, None, None));
        assert_eq!(value(&settings, "net.ipv4.tcp_rto_min_us"), None);
        assert_eq!(value(&settings, "net.ipv4.tcp_sack"), Some("1"), "what it has is set");
        personality.rto.min = Duration::from_millis(50);
        let (settings, unmapped) = within(map(&personality).0, &is_old, &|_| false);
        assert_eq!((settings.metrics.rto_min, unmapped), (Some(Duration::from_millis(50)), vec![]));
    }

    #[test]
    fn an_option_that_an_older_kernel_lacks_is_reported() {
        let mut personality = Personality::linux();
        personality.rto.max = Duration::from_secs(64);
        personality.delayed_ack.timeout = Duration::from_millis(20);
        personality.delayed_ack.timeout_max = Duration::from_millis(20);
        let (_, unmapped) = within(map(&personality).0, &|name| name != "net.ipv4.tcp_recovery", &|_| false);
        let options: Vec<&str> = unmapped.iter().map(|unmapped| unmapped.option).collect();
        assert_eq!(options, ["rto_max", "delayed_ack_timeout", "net.ipv4.tcp_recovery"]);
    }

    #[test]
    fn a_controller_that_the_kernel_lacks_is_replaced_and_reported() {
        let all: [Algorithm; 3] =
            [fast::Parameters::DEFAULT.into(), vegas::Parameters::DEFAULT.into(), bbr::Parameters.into()];
        for controller in all.into_iter().filter(|wanted| !socket::kernel_has(wanted.name())) {
            let (settings, unmapped) = map(&Personality { controller, ..Personality::linux() });
            assert_eq!(settings.metrics.congestion_control.as_deref(), Some("cubic"));
            assert_eq!(settings.socket.congestion_control, "cubic");
            assert!(matches!(&unmapped[..], [one] if one.option == "controller"), "{unmapped:?}");
        }
    }

    #[test]
    fn fast_in_the_kernel_is_chosen_by_the_name_that_it_has_there() {
        let fast = Personality { controller: fast::Parameters::DEFAULT.into(), ..Personality::linux() };
        let (settings, unmapped) = map_here_as(&fast, "fast_7");
        assert_eq!(settings.socket.congestion_control, "fast_7");
        assert_eq!(settings.metrics.congestion_control.as_deref(), Some("fast_7"));
        assert!(unmapped.iter().all(|one| one.option != "controller"), "{unmapped:?}");
    }

    #[test]
    fn every_acknowledgement_at_once_is_an_option_of_the_route() {
        let mut personality = Personality::linux();
        personality.delayed_ack.segments = 1;
        let (settings, unmapped) = map(&personality);
        assert!(settings.metrics.quick_ack && unmapped.is_empty());
        assert_eq!(settings.socket.delayed_ack_max, None);
    }

    #[test]
    fn a_segment_size_beyond_the_kernel_s_is_brought_within_it_and_said() {
        let (settings, unmapped) = map(&Personality { mss: Bytes::new(50), ..Personality::linux() });
        assert_eq!(settings.socket.mss, Some(Bytes::new(88)));
        assert_eq!(unmapped.len(), 1);
        assert!(unmapped[0].option == "mss" && unmapped[0].why.contains("88"), "{unmapped:?}");
    }
}
