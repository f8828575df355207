//! Builds the engine's parts from what a scenario says of its links. Every generator is named after what draws from it,
//! so that adding an unrelated link changes no draw.

use std::collections::BTreeMap;

use headend_engine::cable::docsis::{Docsis, Drawing};
use headend_engine::cable::{Cable, CableConfig};
use headend_engine::link::delay::DelayModel;
use headend_engine::link::express::Express;
use headend_engine::link::headers::{HeaderCoding, HeaderCompression};
use headend_engine::link::queue::{Discipline, DropTail, Site};
use headend_engine::link::service::{Processing, RateModel, Service};
use headend_engine::link::{Link, Varying};
use headend_engine::rng::Rng;
use headend_engine::time::Duration;

use headend_scenario::{Direction, DocsisChannel, LinkKind, Scenario};

/// One direction of a plain link; its losses draw under `loss_name`.
pub(super) fn plain_link(direction: &Direction, seed: u64, loss_name: &str, queue_name: &str) -> Link {
    let loss = direction.loss.build(Rng::named(seed, loss_name));
    let site = Site { rng: Rng::named(seed, queue_name), rate: &direction.rate };
    let queue = direction.queue.build(site);
    let service = service(direction, seed, queue_name);
    let coding = HeaderCoding::build(direction.header_compression, direction.header_copies);
    let delay = varying(direction, seed, queue_name);
    Link::new(queue, service, loss, direction.delay.shortest())
        .with_coding(coding)
        .with_detour(direction.detour)
        .with_delay(delay)
}

/// The delay of a direction of a plain link, if it changes.
pub(super) fn varying(direction: &Direction, seed: u64, name: &str) -> Option<Varying> {
    let delay = direction.delay.build(Rng::named(seed, &format!("{name}/delay")))?;
    Some(Varying { delay, overtakes: direction.delay.overtakes() })
}

/// One direction of a plain link as arithmetic, if it is of the kind that needs no more: a constant rate, a queue that drops
/// at its tail, propagation, and nothing that changes packets or their way.
pub(super) fn express(direction: &Direction, seed: u64, loss_name: &str) -> Option<Express> {
    let (RateModel::Constant(constant), Discipline::DropTail(queue)) = (&direction.rate, &direction.queue) else {
        return None;
    };
    let is_plain = direction.processing == Duration::ZERO
        && direction.header_compression == HeaderCompression::None
        && direction.header_copies == 0
        && direction.header_repeats == 0
        && direction.detour.is_none();
    let DelayModel::Constant(delay) = &direction.delay else { return None };
    if !is_plain {
        return None;
    }
    let loss = direction.loss.build(Rng::named(seed, loss_name));
    Express::new(constant.rate, queue.buffer, loss, delay.delay)
}

/// The service of a direction of a plain link.
pub(super) fn service(direction: &Direction, seed: u64, name: &str) -> Box<dyn Service> {
    let service = direction.rate.build();
    if direction.processing == Duration::ZERO {
        return service;
    }
    let rng = Rng::named(seed, &format!("{name}/processing"));
    Box::new(Processing::new(service, direction.processing, rng))
}

/// A cable path.
pub(super) fn cable(spec: &headend_scenario::Cable, seed: u64, name: &str) -> Cable {
    let rng = |channel: &str| Rng::named(seed, &format!("links/{name}/{channel}/loss"));
    Cable::new(CableConfig {
        down: spec.down.rate,
        up: spec.up.rate,
        lan: spec.lan,
        delay: spec.delay,
        down_loss: spec.down.loss.build(rng("down")),
        up_loss: spec.up.loss.build(rng("up")),
        modem_buffer: spec.modem_buffer,
        down_queue: DropTail::new(spec.down.queue),
        up_queue: DropTail::new(spec.up.queue),
    })
}

/// The DOCSIS channels, each by the index of the link that brings it, with the modems on it in the order of the links.
pub(super) fn docsis(scenario: &Scenario, seed: u64, record_discards: bool) -> BTreeMap<usize, Docsis> {
    let mut modems: BTreeMap<usize, Vec<Drawing>> = BTreeMap::new();
    for (number, link) in scenario.links.iter().enumerate() {
        let LinkKind::Docsis(spec) = &link.kind else { continue };
        let owner = match spec.channel {
            DocsisChannel::Own(_) => number,
            DocsisChannel::Of(owner) => owner,
        };
        let rng = Rng::named(seed, &format!("links/{}/backoff", link.name));
        modems.entry(owner).or_default().push((spec.modem.clone(), rng));
    }
    let channel = |owner: usize| match &scenario.links[owner].kind {
        LinkKind::Docsis(spec) => match &spec.channel {
            DocsisChannel::Own(channel) => channel.clone(),
            DocsisChannel::Of(_) => unreachable!("who shares a channel does so with its owner"),
        },
        _ => unreachable!("who shares a channel does so with a modem"),
    };
    let made = modems.into_iter().map(|(owner, modems)| {
        let mut docsis = Docsis::new(channel(owner), modems).expect("the channel was checked when it was read");
        if record_discards {
            docsis.record_discards();
        }
        (owner, docsis)
    });
    made.collect()
}
