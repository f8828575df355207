//! Modems that contend for request opportunities, and what theory says of them.
#![allow(dead_code, unreachable_pub, reason = "each test and bench uses its part")]

use headend_engine::cable::docsis::{Channel, ChannelDirection, Docsis, Modem, UpstreamCounters};
use headend_engine::node::{Node, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::rng::Rng;
use headend_engine::time::{Duration, Time};

/// The setting of request opportunities and windows.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub modems: usize,
    /// Opportunities in each MAP; a power of two, so that windows are whole MAPs or part of one.
    pub opportunities: u64,
    pub backoff_start: u32,
    pub backoff_end: u32,
}

/// Mean rates of events in an opportunity.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Share of opportunities in which one modem was heard.
    pub heard: f64,
    /// Share in which several asked.
    pub collisions: f64,
    /// Share of requests that were lost.
    pub lost: f64,
}

pub fn packet(id: u64) -> Packet {
    let end = Endpoint::default();
    Packet { id, src: end, dst: end, len: 40, class: Class::default(), ecn: Ecn::NotEct, body: Body::Opaque }
}

/// A channel with nothing but so many opportunities in each MAP, and modems that ask anew for each packet.
pub fn network(setting: Setting, seed: u64) -> Docsis {
    let channel = Channel {
        opportunities: setting.opportunities,
        fill: false,
        backoff_start: setting.backoff_start,
        backoff_end: setting.backoff_end,
        ..Channel::usual()
    };
    let modem = Modem { piggyback: false, concatenation: false, ..Modem::unlimited() };
    let drawing = |number| (modem.clone(), Rng::named(seed, &format!("modem {number}")));
    Docsis::new(channel, (0..setting.modems).map(drawing).collect()).expect("a channel of the standard")
}

/// Runs modems that always have something to send: what there was between two times.
pub fn saturated(setting: Setting, seed: u64, from: Time, until: Time) -> UpstreamCounters {
    let mut docsis = network(setting, seed);
    let (mut now, mut before) = (Time::ZERO, None);
    let mut top_up = Time::ZERO;
    loop {
        if now >= top_up {
            // What was sent, and what was given up after 16 lost requests. Nobody gets through eight of them meanwhile.
            for modem in 0..setting.modems {
                for id in docsis.backlog(modem, ChannelDirection::Up).0..8 {
                    docsis.receive(now, Docsis::subscriber_port(modem), &packet(id));
                }
            }
            top_up = now + Duration::from_millis(20);
        }
        match docsis.poll(now) {
            Step::Send(..) => {}
            Step::Wait(Some(wake)) => {
                if wake > from && before.is_none() {
                    before = Some(docsis.counters().clone());
                }
                if wake > until {
                    return since(docsis.counters(), &before.expect("the run began before it ends"));
                }
                now = wake.min(top_up);
            }
            Step::Wait(None) => unreachable!("there is always something to send"),
        }
    }
}

/// Runs modems to which packets come at random, `per_opportunity` to all of them together.
pub fn at_random(setting: Setting, per_opportunity: f64, seed: u64, until: Time) -> UpstreamCounters {
    let mut docsis = network(setting, seed);
    let mut rng = Rng::named(seed, "arrivals");
    let opportunities_per_ns = setting.opportunities as f64 / 2e6;
    let mut gap = || {
        let uniform = (rng.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        ((-(1.0 - uniform).ln() / (per_opportunity * opportunities_per_ns)) as u64).max(1)
    };
    let mut arrival = gap();
    let mut now = Time::ZERO;
    let mut chooser = Rng::named(seed, "which modem");
    loop {
        match docsis.poll(now) {
            Step::Send(..) => {}
            Step::Wait(wake) => {
                let next = wake.map_or(arrival, |wake| wake.as_nanos().min(arrival));
                now = Time::from_nanos(next);
                if now > until {
                    return docsis.counters().clone();
                }
                if next == arrival {
                    let modem = chooser.below(setting.modems as u64) as usize;
                    docsis.receive(now, Docsis::subscriber_port(modem), &packet(next));
                    arrival += gap();
                }
            }
        }
    }
}

fn since(now: &UpstreamCounters, before: &UpstreamCounters) -> UpstreamCounters {
    UpstreamCounters {
        opportunities: now.opportunities - before.opportunities,
        heard: now.heard - before.heard,
        collisions: now.collisions - before.collisions,
        collided: now.collided - before.collided,
        ..UpstreamCounters::default()
    }
}

impl Rates {
    pub fn of(counters: &UpstreamCounters, opportunities: f64) -> Rates {
        let UpstreamCounters { heard, collisions, collided, .. } = *counters;
        let (heard, collisions, collided) = (heard as f64, collisions as f64, collided as f64);
        Rates {
            heard: heard / opportunities,
            collisions: collisions / opportunities,
            lost: collided / (heard + collided),
        }
    }

    /// The rates of saturated modems by back-off theory. Each asks in an opportunity with the same chance, whatever the others
    /// do (the assumption of G. Bianchi's model of 802.11, 2000); a request is lost with the chance that another asks as well;
    /// and the mean number of opportunities from request to request follows from the windows and from the MAPs in which a modem
    /// cannot ask. Solved for the chance at which both agree.
    pub fn saturated(setting: Setting) -> Rates {
        let others = setting.modems as i32 - 1;
        let (mut low, mut high) = (0.0_f64, 1.0_f64);
        for _ in 0..200 {
            let chance = f64::midpoint(low, high);
            let lost = 1.0 - (1.0 - chance).powi(others);
            if asks(setting, lost) > chance { low = chance } else { high = chance }
        }
        let chance = low;
        let heard = f64::from(others + 1) * chance * (1.0 - chance).powi(others);
        let silent = (1.0 - chance).powi(others + 1);
        Rates { heard, collisions: 1.0 - heard - silent, lost: 1.0 - (1.0 - chance).powi(others) }
    }

    /// Slotted ALOHA with so many new packets in an opportunity: S = G e^-G with the smaller G, requests in all (Abramson
    /// 1970, Roberts 1975).
    pub fn aloha(per_opportunity: f64) -> Rates {
        let mut requests = per_opportunity;
        for _ in 0..10_000 {
            requests = per_opportunity * f64::exp(requests);
        }
        let silent = f64::exp(-requests);
        let heard = requests * silent;
        Rates { heard, collisions: 1.0 - heard - silent, lost: 1.0 - silent }
    }

    /// The distance of `self` from `other`, as a share of it: throughput, and lost requests.
    pub fn off(&self, other: &Rates) -> [f64; 2] {
        [(self.heard / other.heard - 1.0).abs(), (self.lost / other.lost - 1.0).abs()]
    }
}

/// The chance that a modem asks in an opportunity, if a request is lost with chance `lost`.
///
/// A modem chooses from the start of a MAP's opportunities, since that is where it may ask next: after a request is lost,
/// the MAP after the next; after it was heard, three MAPs later, one behind its burst. (Look-ahead 4 ms, MAPs of 2 ms.)
fn asks(setting: Setting, lost: f64) -> f64 {
    let each = setting.opportunities as f64;
    let rest = (each - 1.0) / 2.0;
    let (after_lost, after_heard) = (rest + each, rest + 3.0 * each);
    let (mut requests, mut opportunities, mut reached) = (0.0, 0.0, 1.0);
    for tries in 0..=16 {
        let window = f64::from(1_u32 << (setting.backoff_start + tries).min(setting.backoff_end));
        requests += reached;
        let asked = f64::midpoint(window, 1.0);
        opportunities += reached * (asked + lost * after_lost + (1.0 - lost) * after_heard);
        reached *= lost;
    }
    requests / opportunities
}
