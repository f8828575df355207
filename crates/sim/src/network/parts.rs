//! From what a scenario says of a link to the engine's parts. Every generator is named after what draws from it, so
//! that adding an unrelated link changes no draw.

use std::collections::BTreeMap;

use headend_engine::cable::docsis::{Docsis, Drawing};
use headend_engine::cable::{Cable, CableConfig};
use headend_engine::link::Link;
use headend_engine::link::compression::Compression;
use headend_engine::link::loss::{self, Bernoulli, Bit, GilbertElliott, List, Loss};
use headend_engine::link::queue::{DropTail, Site};
use headend_engine::link::service::{self, Constant, Opportunities, Processing, Service};
use headend_engine::rng::Rng;
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use headend_scenario::{Direction, DocsisChannel, HeaderCompression, LinkKind, LossSpec, RateSpec, Scenario};

/// One direction of a plain link; its losses draw under `loss_name`.
pub(super) fn plain_link(direction: &Direction, seed: u64, loss_name: &str, queue_name: &str) -> Link {
    let loss = loss(&direction.loss, seed, loss_name);
    let site = Site { rng: Rng::named(seed, queue_name), departure: header_departure(&direction.rate) };
    let queue = direction.queue.build(site);
    let mut service = service(&direction.rate);
    if direction.processing > Duration::ZERO {
        let rng = Rng::named(seed, &format!("{queue_name}/processing"));
        service = Box::new(Processing::new(service, direction.processing, rng));
    }
    let link = Link::new(queue, service, loss, direction.delay).with_header_copies(direction.header_copies);
    match direction.header_compression {
        HeaderCompression::None => link,
        HeaderCompression::Vj => link.with_compression(Compression::new(false)),
        HeaderCompression::Twice => link.with_compression(Compression::new(true)),
    }
}

/// A full packet, and the header that follows it.
const WITH_HEADER: Bytes = Bytes::new(1_552);

/// How long a link takes for a header and the data before it, as long as a full packet; where it changes, at its first rate.
fn header_departure(rate: &RateSpec) -> Duration {
    match rate {
        RateSpec::Constant(rate) => rate.time_for(WITH_HEADER),
        RateSpec::Steps(steps) => steps[0].1.time_for(WITH_HEADER),
        RateSpec::Recorded(times) => times[times.len() - 1] / times.len() as u64,
    }
}

/// What mahimahi's recordings count in.
const OPPORTUNITY: Bytes = Bytes::new(1_500);

fn service(rate: &RateSpec) -> Box<dyn Service> {
    match rate {
        RateSpec::Constant(rate) => Box::new(Constant::new(*rate)),
        RateSpec::Steps(steps) => Box::new(service::Steps::new(steps.clone())),
        RateSpec::Recorded(times) => Box::new(Opportunities::new(times.clone(), OPPORTUNITY)),
    }
}

/// A cable path.
pub(super) fn cable(spec: &headend_scenario::Cable, seed: u64, name: &str) -> Cable {
    Cable::new(CableConfig {
        down: spec.down.rate,
        up: spec.up.rate,
        lan: spec.lan,
        delay: spec.delay,
        down_loss: loss(&spec.down.loss, seed, &format!("links/{name}/down/loss")),
        up_loss: loss(&spec.up.loss, seed, &format!("links/{name}/up/loss")),
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

fn loss(spec: &LossSpec, seed: u64, name: &str) -> Option<Box<dyn Loss>> {
    let rng = || Rng::named(seed, name);
    Some(match *spec {
        LossSpec::None => return None,
        LossSpec::Bernoulli(chance) => Box::new(Bernoulli::new(chance, rng())),
        LossSpec::Bit(chance) => Box::new(Bit::new(chance, rng())),
        LossSpec::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
            Box::new(GilbertElliott::new(good_to_bad, bad_to_good, loss_good, loss_bad, rng()))
        }
        LossSpec::Steps(ref steps) => Box::new(loss::Steps::new(steps.clone(), rng())),
        LossSpec::List(ref numbers) => Box::new(List::new(numbers.clone())),
    })
}

#[cfg(test)]
mod tests {
    use headend_engine::time::Time;
    use headend_engine::units::Rate;

    use super::*;

    #[test]
    fn a_header_leaves_with_its_data_as_fast_as_the_link_is() {
        let is = |rate, micros| assert_eq!(header_departure(&rate), Duration::from_micros(micros));
        is(RateSpec::Constant(Rate::mbit(8)), 1_552);
        is(RateSpec::Constant(Rate::mbit(4)), 3_104);
        is(RateSpec::Steps(vec![(Time::ZERO, Rate::mbit(8)), (Time::from_nanos(1), Rate::mbit(80))].into()), 1_552);
        // 1500 bytes at each of three times in 6 ms.
        is(RateSpec::Recorded([1, 2, 6].map(Duration::from_millis).into()), 2_000);
    }
}
