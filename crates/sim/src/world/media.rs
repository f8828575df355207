//! What became of the frames of a flow.

use headend_engine::circuit::unreliable::Socket;
use headend_engine::tcp::counters::SenderCounters;
use headend_engine::time::{Duration, Time};

use super::{Instance, Kind, World};
use crate::host::{Carriage, Media, MediaSink, MediaSource, Role, Stream};
use headend_scenario::results::{FlowRow, MediaRow};

impl World {
    fn media_end(&self, at: headend_engine::packet::Endpoint) -> &Media {
        match self.host(usize::from(at.node)).stream(at) {
            Some(Stream::Media(media)) => media,
            _ => unreachable!("a flow of frames has its ends here"),
        }
    }

    fn media_source(&self, instance: &Instance) -> &MediaSource {
        match &self.media_end(instance.sender).role {
            Role::Source(source) => source,
            Role::Sink(_) => unreachable!("who sends is a source"),
        }
    }

    pub(super) fn media_sink(&self, instance: &Instance) -> &MediaSink {
        match &self.media_end(instance.receiver).role {
            Role::Sink(sink) => sink,
            Role::Source(_) => unreachable!("who receives is a sink"),
        }
    }

    /// The flow as any other.
    pub(super) fn media_flow_row(&self, instance: &Instance, end: Time) -> FlowRow {
        let (source, sink) = (self.media_source(instance), self.media_sink(instance));
        let delivered = source.ledger.borrow().delivered().get();
        let counters = tcp_counters(source);
        FlowRow {
            flow: instance.flow.clone(),
            instance: u64::from(instance.instance),
            bytes: delivered,
            start_ns: instance.start.as_nanos(),
            active_ns: end.since(instance.start).as_nanos(),
            delivered_bytes: delivered,
            wire_bytes: sink.bytes.get(),
            timeouts: counters.timeouts,
            fast_retransmits: counters.fast_retransmits,
            segments_sent: counters.segments,
            retransmits: counters.retransmits,
            fault: if failed(source) { "the control connection failed" } else { "" }.into(),
            ..FlowRow::default()
        }
    }

    /// Its frames.
    pub(super) fn media_row(&self, instance: &Instance, end: Time) -> Option<MediaRow> {
        if instance.kind != Kind::Media {
            return None;
        }
        let source = self.media_source(instance);
        let account = source.ledger.borrow().account();
        let ended =
            [account.on_time, account.late, account.broken, account.skipped, account.withdrawn, account.replaced];
        assert_eq!(
            account.captured,
            ended.iter().sum::<u64>() + account.pending,
            "flow {} {}: every frame ended in one way, or is under way",
            instance.flow,
            instance.instance
        );
        if let Carriage::Circuit(socket, _) = &source.carriage {
            check_circuit(instance, socket);
        }
        let delays = &account.delays;
        let total: Duration = delays.iter().fold(Duration::ZERO, |sum, delay| sum + *delay);
        let count = delays.len() as u64;
        // The smallest that is not below 95 per cent of all.
        let p95 = (!delays.is_empty()).then(|| delays[(delays.len() * 95).div_ceil(100) - 1]);
        Some(MediaRow {
            flow: instance.flow.as_str().into(),
            instance: u64::from(instance.instance),
            active_ns: end.since(instance.start).as_nanos(),
            frames: account.captured,
            on_time: account.on_time,
            late: account.late,
            broken: account.broken,
            skipped: account.skipped,
            withdrawn: account.withdrawn,
            replaced: account.replaced,
            cut: account.cut,
            pending: account.pending,
            stale_sent: account.stale_sent,
            on_time_bytes: account.on_time_bytes,
            rate_changes: source.encoder.changes(),
            delay_mean_ns: total.as_nanos().checked_div(count),
            delay_p95_ns: p95.map(Duration::as_nanos),
            delay_max_ns: delays.last().map(|delay| delay.as_nanos()),
        })
    }
}

fn tcp_counters(source: &MediaSource) -> SenderCounters {
    match &source.carriage {
        Carriage::Datagrams(_) => SenderCounters::default(),
        Carriage::Circuit(socket, _) => {
            socket.circuit().connections().map(|tcp| tcp.counters()).next().unwrap_or_default()
        }
        Carriage::Stream(stream) => stream.connection().counters(),
    }
}

fn failed(source: &MediaSource) -> bool {
    match &source.carriage {
        Carriage::Datagrams(_) => false,
        Carriage::Circuit(socket, _) => socket.circuit().connections().any(|tcp| tcp.fault().is_some()),
        Carriage::Stream(stream) => stream.connection().fault().is_some(),
    }
}

/// Checks that the circuit sent a header for each VMSS, and the socket that it knows where its frames are.
fn check_circuit(instance: &Instance, socket: &Socket) {
    let (circuit, frames) = (socket.circuit(), socket.counters());
    let counters = circuit.counters();
    let (flow, number) = (&instance.flow, instance.instance);
    assert_eq!(
        counters.controlled_bytes,
        counters.headers * circuit.vmss().get() + circuit.unpaid().get(),
        "flow {flow} {number}: a header for each VMSS of data, but for what is not yet a whole one"
    );
    assert_eq!(
        frames.taken,
        frames.left + frames.withdrawn + frames.replaced + socket.waiting().count() as u64,
        "flow {flow} {number}: every frame that was taken has left, was taken back or waits"
    );
}
