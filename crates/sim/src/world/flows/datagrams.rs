//! Streams of datagrams.

use headend_engine::time::Time;

use super::{Instance, Running, Site};
use crate::host::{Sink, Source, Stream};
use crate::world::World;
use headend_scenario::Datagrams;
use headend_scenario::results::FlowRow;

#[derive(Debug)]
struct Streaming;

pub(super) fn build(site: &mut Site<'_>, datagrams: &Datagrams) -> Instance {
    let Datagrams { rate, packet, on, off } = *datagrams;
    let start = site.start(&mut site.rng(site.seed));
    let at = site.nodes().map(|node| site.host(node).next_stream());
    let source = Source::new(at[1], site.way.out[0], start, rate, packet).pulsed(on, off);
    site.add_streams([Stream::Source(source), Stream::Sink(Sink::default())]);
    site.instance(start, at, Box::new(Streaming))
}

impl Running for Streaming {
    fn rows(&self, world: &World, instance: &Instance, end: Time) -> Vec<FlowRow> {
        let sent = match world.host(usize::from(instance.sender.node)).stream(instance.sender) {
            Some(Stream::Source(source)) => source.sent(),
            _ => unreachable!("who sends is a source"),
        };
        let sink = sink(world, instance);
        assert!(sink.packets <= sent, "flow {} {}: no datagram came from nowhere", instance.flow, instance.instance);
        vec![FlowRow {
            flow: instance.flow.clone(),
            instance: u64::from(instance.instance),
            bytes: sink.payload().get(),
            start_ns: instance.start.as_nanos(),
            active_ns: end.since(instance.start).as_nanos(),
            delivered_bytes: sink.payload().get(),
            wire_bytes: sink.bytes.get(),
            segments_sent: sent,
            ..FlowRow::default()
        }]
    }

    fn arrived_bytes(&self, world: &World, instance: &Instance) -> u64 {
        sink(world, instance).bytes.get()
    }
}

/// The receiving end of a stream of datagrams.
fn sink<'w>(world: &'w World, instance: &Instance) -> &'w Sink {
    let at = instance.receiver;
    match world.host(usize::from(at.node)).stream(at) {
        Some(Stream::Sink(sink)) => sink,
        _ => unreachable!("who receives is a sink"),
    }
}
