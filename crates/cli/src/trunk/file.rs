//! A trunk's file.

mod lines;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use headend_engine::cc::{Algorithm, backfill, bbr, bbr3, fast, reno, vegas};
use headend_engine::circuit::in_band::Losses;
use headend_engine::circuit::repair::Rules;
use headend_engine::circuit::tunnel::Schedule;
use headend_engine::circuit::turns::Class;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate, quantity};
use headend_host::proxy::config::Admin;
use headend_host::trunk::{
    Carriage, Config, DeviceConfig, EdgeClass, Fallback, Identity, Matches, PeerConfig, PublicKey, Receive, SecretKey,
    Send,
};
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::failure::Failure;
use crate::from_text::{found, from_text};
use crate::input;
use crate::visitors::AdminTable;

/// The folder of the sockets at which statuses can be asked for, unless the file says otherwise.
pub(super) const STATUS_FOLDER: &str = "/run/headend";
/// Segments that each control TCP with FAST keeps in the network's queues, unless the file says otherwise.
const FAST_ALPHA: u32 = 2;
/// The number of the first queue, unless the file says otherwise.
const QUEUE: u16 = 4_700;
/// Copies of a lost packet at most, unless the file says otherwise.
const REPAIR_TRIES: u8 = 2;
/// Time without a word after which a peer counts as gone, unless the file says otherwise.
const DEAD_AFTER: Duration = Duration::from_secs(3);

/// The contents of a trunk's file.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) config: Config,
    pub(super) identity: Identity,
    /// The socket at which its status can be asked for.
    pub(super) status: PathBuf,
    /// The listener of the page and the metrics; without it there is none.
    pub(super) admin: Option<Admin>,
    /// The reason for the carriage that it has.
    pub(super) why: String,
}

/// Reads the file of a trunk, and the keys that it names.
pub(super) fn read(path: &Path) -> Result<Read, Failure> {
    let (name, text) = input::read(path)?;
    parse(path, &text).map_err(|message| Failure::wrong_in(&name, &text, message))
}

fn parse(path: &Path, text: &str) -> Result<Read, String> {
    let name = input::name(path);
    let at_line = |line: usize, why: &str| {
        let shown = text.lines().nth(line).unwrap_or_default().trim();
        let shown = if crate::excerpt::has_secret(shown) { "(a key is in this line)" } else { shown };
        format!("{name}:{}: {shown}: {why}", line + 1)
    };
    let file: File = toml::from_str(text).map_err(|error| {
        let message = error.message().trim_end();
        match error.span() {
            Some(span) if !span.is_empty() || span.start > 0 => {
                at_line(text[..span.start.min(text.len())].matches('\n').count(), message)
            }
            _ => format!("{name}: {message}"),
        }
    })?;
    let located = |wrong: Wrong| at(path, text, &wrong);
    let read = file.read(path).map_err(located)?;
    read.config.check(&read.identity.public()).map_err(located)?;
    Ok(read)
}

/// A field of a file and what is wrong with it, in words that begin with where it is.
pub(super) fn located(path: &Path, wrong: &Wrong) -> String {
    at(path, &fs::read_to_string(path).unwrap_or_default(), wrong)
}

fn at(path: &Path, text: &str, (field, why): &Wrong) -> String {
    match lines::of(text, field) {
        Some(line) => format!("{}:{}: {field}: {why}", path.display(), line + 1),
        None => format!("{}: {field}: {why}", path.display()),
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    private_key: PathBuf,
    listen: SocketAddr,
    carriage: Option<CarriageName>,
    queue: Option<u16>,
    device: Option<String>,
    #[serde(default)]
    addresses: Vec<Address>,
    mtu: Option<u32>,
    #[serde(default)]
    clamp_mss: bool,
    #[serde(default)]
    mark_users: bool,
    fallback: Option<FallbackName>,
    at_end: Option<FallbackName>,
    dead_after: Option<Span>,
    link: Option<RateText>,
    #[serde(default)]
    classes: ClassesName,
    status: Option<PathBuf>,
    admin: Option<AdminTable>,
    #[serde(default)]
    class: Vec<ClassTable>,
    #[serde(default)]
    peer: Vec<PeerTable>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CarriageName {
    Native,
    Tunnelled,
    Sealed,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FallbackName {
    Direct,
    Block,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ClassesName {
    #[default]
    Priority,
    Weights,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassTable {
    name: String,
    #[serde(default)]
    dscp: Vec<CodePoint>,
    #[serde(default)]
    protocols: Vec<Protocol>,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default)]
    networks: Vec<Network>,
    room: Option<Size>,
    weight: Option<std::num::NonZeroU32>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: String,
    public_key: Key,
    shared_key: Option<PathBuf>,
    endpoint: Option<SocketAddr>,
    #[serde(default)]
    networks: Vec<Network>,
    controls: Option<u8>,
    vmss: Option<Size>,
    controller: Option<Controller>,
    fast_alpha: Option<u32>,
    losses: Option<LossesName>,
    repair: Option<RepairTable>,
    gmb: Option<RateText>,
    controls_max: Option<u8>,
    gmb_max: Option<RateText>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { within = \"40ms\" }")]
struct RepairTable {
    within: ShortSpan,
    tries: Option<u8>,
}

from_text!(Size, Bytes, |text| quantity::size(text).ok_or_else(|| quantity::SIZE.to_owned()));
from_text!(RateText, Rate, |text| quantity::rate(text).ok_or_else(|| quantity::RATE.to_owned()));
from_text!(Span, Duration, |text| {
    quantity::span(text)
        .filter(|span| *span >= Duration::from_millis(100))
        .ok_or_else(|| format!("{}, 100 ms at least", quantity::SPAN))
});
from_text!(ShortSpan, Duration, |text| quantity::span(text).ok_or_else(|| quantity::SPAN.to_owned()));
from_text!(Network, ipnet::IpNet, |text: &str| {
    let network = text.parse::<ipnet::IpNet>().ok().filter(|network| network.addr() == network.network());
    network.ok_or_else(|| "a network such as \"10.2.0.0/16\" or \"2001:db8::/32\"".to_owned())
});
from_text!(Address, ipnet::IpNet, |text: &str| {
    text.parse().ok().ok_or_else(|| "an address with its network's prefix, such as \"10.1.0.1/24\"".to_owned())
});
from_text!(Key, PublicKey, |text| {
    PublicKey::read(text).ok_or_else(|| "a public key, as `headend trunk keygen` prints it".to_owned())
});
from_text!(LossesName, Losses, |text: &str| match text {
    "all" => Ok(Losses::All),
    "delayed" => Ok(Losses::Delayed),
    _ => Err("\"all\" or \"delayed\"".to_owned()),
});
from_text!(Controller, Algorithm, |text| {
    let named = controller(text);
    named.ok_or_else(|| {
        format!("one of {}", Algorithm::ALL.iter().map(|known| known.name).collect::<Vec<_>>().join(", "))
    })
});
from_text!(Protocol, u8, |text: &str| {
    const NAMES: [(&str, u8); 7] =
        [("icmp", 1), ("tcp", 6), ("udp", 17), ("gre", 47), ("esp", 50), ("icmpv6", 58), ("sctp", 132)];
    let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    named
        .or_else(|| text.parse().ok())
        .ok_or_else(|| format!("a number such as \"47\", or one of {}", NAMES.map(|(name, _)| name).join(", ")))
});

/// The controller of this name, with the parameters that the simulator gives it too, but for FAST: an alpha of 20 segments of
/// 6000 bytes would be a long queue.
pub(crate) fn controller(name: &str) -> Option<Algorithm> {
    match name {
        "reno" => Some(reno::Parameters.into()),
        "cubic" => Some(Personality::linux().controller),
        "fast" => Some(fast::Parameters { alpha_packets: FAST_ALPHA, ..fast::Parameters::DEFAULT }.into()),
        "vegas" => Some(vegas::Parameters::DEFAULT.into()),
        "bbr" => Some(bbr::Parameters.into()),
        "bbr3" => Some(bbr3::Parameters.into()),
        "backfill" => Some(backfill::Parameters::DEFAULT.into()),
        _ => None,
    }
}

/// A code point of differentiated services: its number, or what RFCs call it.
#[derive(Debug)]
struct CodePoint(u8);

impl<'de> Deserialize<'de> for CodePoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u8),
            Name(String),
        }
        const EXPECTED: &str = "a code point: 0 to 63, or a name such as \"ef\", \"af41\", \"cs5\" or \"le\"";
        let either = Either::deserialize(deserializer).map_err(|_| D::Error::custom(format!("expected {EXPECTED}")))?;
        let (shown, number) = match either {
            Either::Number(number) => (number.to_string(), Some(number).filter(|number| *number < 64)),
            Either::Name(name) => (name.clone(), code_point(&name)),
        };
        number.map(CodePoint).ok_or_else(|| D::Error::custom(found(&shown, EXPECTED)))
    }
}

/// The code point of this name: RFC 2474 (class selectors), 2597 (assured), 3246 (expedited), 8622 (lower effort).
fn code_point(name: &str) -> Option<u8> {
    let digit = |at: usize, most: u8| {
        name.as_bytes().get(at).filter(|c| c.is_ascii_digit()).map(|c| c - b'0').filter(|digit| *digit <= most)
    };
    match name {
        "ef" => Some(46),
        "le" => Some(1),
        _ if name.starts_with("cs") && name.len() == 3 => digit(2, 7).map(|class| class * 8),
        _ if name.starts_with("af") && name.len() == 4 => {
            let (class, drop) = (digit(2, 4)?, digit(3, 3)?);
            (class > 0 && drop > 0).then_some(class * 8 + drop * 2)
        }
        _ => None,
    }
}

/// A field, and what is wrong with it.
type Wrong = (String, String);

impl File {
    fn read(self, path: &Path) -> Result<Read, Wrong> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = self.name.unwrap_or_else(stem);
        let identity = key_file(folder, &self.private_key)
            .and_then(|path| Identity::load(&path).map_err(|error| error.to_string()))
            .map_err(|why| ("private_key".to_owned(), why))?;
        let peers: Result<Vec<PeerConfig>, Wrong> = self.peer.into_iter().map(|peer| peer.peer(folder)).collect();
        let mut classes: Vec<EdgeClass> = self.class.into_iter().map(ClassTable::class).collect();
        if classes.last().is_none_or(|last| last.matches != Matches::default()) {
            classes.push(EdgeClass::all());
        }
        let status = self.status.map(|path| folder.join(path));
        let (carriage, why) = match self.carriage {
            Some(CarriageName::Native) => (Carriage::Native, "the file says so".to_owned()),
            Some(CarriageName::Tunnelled) => (Carriage::Tunnelled, "the file says so".to_owned()),
            Some(CarriageName::Sealed) => (Carriage::Sealed, "the file says so".to_owned()),
            None => Carriage::of_machine(),
        };
        // Interfaces have names of 15 bytes at most.
        let device = self.device.unwrap_or_else(|| format!("hd-{}", name.get(..12).unwrap_or(&name)));
        let config = Config {
            listen: self.listen,
            carriage,
            queue: self.queue.unwrap_or(QUEUE),
            device: DeviceConfig {
                name: device,
                addresses: self.addresses.into_iter().map(|address| address.0).collect(),
                mtu: self.mtu,
                clamps_mss: self.clamp_mss,
            },
            gentle: Duration::from_secs(0),
            marks_users: self.mark_users,
            fallback: fallback(self.fallback, carriage),
            at_end: fallback(self.at_end, carriage),
            dead_after: self.dead_after.map_or(DEAD_AFTER, |span| span.0),
            classes,
            schedule: match self.classes {
                ClassesName::Priority => Schedule::Priority,
                ClassesName::Weights => Schedule::RoundRobin,
            },
            link: self.link.map(|link| link.0),
            peers: peers?,
            name,
        };
        let status = status.unwrap_or_else(|| Path::new(STATUS_FOLDER).join(format!("trunk-{}.sock", config.name)));
        let admin = self.admin.map(AdminTable::admin);
        if let Some(fault) = admin.as_ref().and_then(Admin::fault) {
            return Err(("admin.clients".to_owned(), fault.to_owned()));
        }
        Ok(Read { config, identity, status, admin, why })
    }
}

/// What becomes of users' packets without the trunk: unencrypted they pass only where they pass so with it, or where the file says so.
fn fallback(said: Option<FallbackName>, carriage: Carriage) -> Fallback {
    match (said, carriage) {
        (Some(FallbackName::Direct), _) | (None, Carriage::Native | Carriage::Tunnelled) => Fallback::Direct,
        (Some(FallbackName::Block), _) | (None, _) => Fallback::Block,
    }
}

/// The file of a key. A key in its place is not repeated: who reads errors is not its owner.
fn key_file(folder: &Path, path: &Path) -> Result<PathBuf, String> {
    if path.to_str().is_some_and(crate::excerpt::has_secret) && !folder.join(path).exists() {
        let why = "this is a key itself; expected the name of a file with it, which nobody but its owner may read";
        return Err(why.to_owned());
    }
    Ok(folder.join(path))
}

impl ClassTable {
    fn class(self) -> EdgeClass {
        let default = EdgeClass::all().queue;
        EdgeClass {
            name: self.name,
            queue: Class {
                room: self.room.map_or(default.room, |room| room.0),
                weight: self.weight.map_or(default.weight, std::num::NonZeroU32::get),
            },
            matches: Matches {
                dscp: self.dscp.into_iter().map(|point| point.0).collect(),
                protocols: self.protocols.into_iter().map(|protocol| protocol.0).collect(),
                ports: self.ports,
                networks: self.networks.into_iter().map(|network| network.0).collect(),
            },
        }
    }
}

impl PeerTable {
    fn peer(self, folder: &Path) -> Result<PeerConfig, Wrong> {
        let wrong = |field: &str, why: String| (format!("peer {}: {field}", self.name), why);
        let (send, receive) = (Send::default(), Receive::default());
        let vmss = match &self.vmss {
            Some(Size(vmss)) => u32::try_from(vmss.get()).map_err(|_| wrong("vmss", format!("{vmss} is too much")))?,
            None => send.vmss,
        };
        let mut controller = self.controller.as_ref().map_or(send.controller, |controller| controller.0.clone());
        match (&mut controller, self.fast_alpha) {
            (_, None) => {}
            (_, Some(0)) => return Err(wrong("fast_alpha", "found 0, expected at least one segment".to_owned())),
            (Algorithm::Fast(parameters), Some(alpha)) => parameters.alpha_packets = alpha,
            (_, Some(_)) => {
                let why = "only controller = \"fast\" aims at it; leave it out".to_owned();
                return Err(wrong("fast_alpha", why));
            }
        }
        let shared = match &self.shared_key {
            Some(path) => key_file(folder, path)
                .and_then(|path| SecretKey::load(&path).map_err(|error| error.to_string()))
                .map_err(|why| wrong("shared_key", why))?,
            None => SecretKey::NONE,
        };
        let repair = self
            .repair
            .map(|RepairTable { within, tries }| Rules { within: within.0, tries: tries.unwrap_or(REPAIR_TRIES) });
        // What is repaired is damage: it slows the trunk only where a queue is full too.
        let losses = if repair.is_some() { Losses::Delayed } else { send.losses };
        Ok(PeerConfig {
            key: self.public_key.0,
            shared,
            endpoint: self.endpoint,
            networks: self.networks.iter().map(|network| network.0).collect(),
            send: Send {
                controls: self.controls.unwrap_or(send.controls),
                vmss,
                controller,
                guaranteed: self.gmb.map_or(send.guaranteed, |gmb| gmb.0),
                losses: self.losses.map_or(losses, |losses| losses.0),
                repair,
            },
            receive: Receive {
                controls_max: self.controls_max.unwrap_or(receive.controls_max),
                guaranteed_max: self.gmb_max.map_or(receive.guaranteed_max, |gmb| gmb.0),
                repair_within_max: repair.map_or(receive.repair_within_max, |rules| rules.within),
            },
            name: self.name,
        })
    }
}

#[cfg(test)]
mod tests;
