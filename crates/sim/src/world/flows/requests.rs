//! Connections one after another: a client that asks again and again.

use headend_engine::rng::Rng;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use super::connection::{Joint, answer, conserve_bytes};
use super::{Instance, Running, Site};
use crate::host::{Again, Past};
use crate::world::World;
use headend_scenario::Requests;
use headend_scenario::results::FlowRow;

#[derive(Debug)]
struct Asking;

pub(super) fn build(site: &mut Site<'_>, requests: &Requests) -> Instance {
    let Requests { request, sizes, pause, answer: takes } = requests;
    let joint = Joint::new(site, None);
    // Each client begins at another of the sizes, so that not all ask for the same at once.
    let turn = site.instance as usize % sizes.len();
    let plans = answer(*request, Bytes::ZERO, false, sizes[turn]);
    let start = joint.start;
    let name = format!("flows/{}/{}", site.flow.name, site.instance);
    let at = joint.put(site, plans, |rng, is_client, personality, clock_phase| {
        Some(Box::new(Again {
            is_client,
            personality: personality.clone(),
            clock_phase,
            rng: Rng::named(rng.bits(), &name),
            request: *request,
            sizes: sizes.clone(),
            turn,
            pause: *pause,
            answer: *takes,
            past: Vec::new(),
        }))
    });
    site.instance(start, at, Box::new(Asking))
}

impl Running for Asking {
    /// A row for each connection, the one under way included.
    fn rows(&self, world: &World, instance: &Instance, end: Time) -> Vec<FlowRow> {
        let (server, client) = (world.end(instance.sender), world.end(instance.receiver));
        // One may have begun anew when the other has not.
        if server.past().len() == client.past().len() {
            conserve_bytes(instance, server, client, None);
        }
        let served = server.past();
        let row = |number: usize, past: &Past| {
            let counters = served.get(number).map(|served| served.counters).unwrap_or_default();
            let since_start = |at: Time| at.since(past.start).as_nanos();
            FlowRow {
                flow: instance.flow.clone(),
                instance: u64::from(instance.instance),
                bytes: past.size.get(),
                start_ns: past.start.as_nanos(),
                transfer_ns: past.all_read.map(since_start),
                acked_ns: served.get(number).and_then(|served| served.all_acked).map(since_start),
                active_ns: since_start(past.all_read.or(past.failed).unwrap_or(end)),
                delivered_bytes: past.read.min(past.size).get(),
                wire_bytes: past.wire.get(),
                timeouts: counters.timeouts,
                fast_retransmits: counters.fast_retransmits,
                segments_sent: counters.segments,
                retransmits: counters.retransmits,
                fault: if past.failed.is_some() { "failed" } else { "" }.into(),
                ..FlowRow::default()
            }
        };
        let mut rows: Vec<FlowRow> = client.past().iter().enumerate().map(|(number, past)| row(number, past)).collect();
        if client.start() < end {
            let now = Past {
                size: client.asked_for().unwrap_or_default(),
                start: client.start(),
                read: client.record.read,
                wire: client.record.wire,
                all_read: client.record.all_read,
                all_acked: client.record.all_acked,
                failed: None,
                counters: client.connection().counters(),
            };
            rows.push(row(usize::MAX, &now));
        }
        rows
    }

    fn arrived_bytes(&self, world: &World, instance: &Instance) -> u64 {
        let end = world.end(instance.receiver);
        (end.record.wire + end.past().iter().map(|past| past.wire).sum()).get()
    }

    fn has_series(&self) -> bool {
        true
    }
}
