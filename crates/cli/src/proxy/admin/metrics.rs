//! Counts and levels of a proxy for Prometheus: docs/howto/operate-proxy.md lists them.

use std::fmt::Error;
use std::sync::atomic::Ordering::Relaxed;

use headend_engine::relay::Side;
use headend_host::proxy::books::Books;
use prometheus_client::registry::Unit;

use super::sampler::{SIDES, Sampler};
use super::{Facts, State};
use crate::metrics::{self, Form, Labels, Metric, Values};

/// All metrics, of now.
pub(super) fn text(form: Form, books: &Books, facts: &Facts, sampler: &Sampler) -> Result<String, Error> {
    metrics::text(form, "headend_proxy", of_proxy(books, facts, sampler), books.started)
}

fn of_proxy(books: &Books, facts: &Facts, sampler: &Sampler) -> Vec<Metric> {
    let metric = |name, help, unit, values| Metric { name, help, unit, values };
    let counter = |name, help, value: u64| metric(name, help, None, Values::Counter(value));
    let gauge = |name, help, unit, value: u64| metric(name, help, unit, Values::Gauge(value as f64));
    let sides = |name, help, unit, values: [u64; 2]| {
        let labelled = SIDES.map(|side| (vec![("side", name_of(side).to_owned())], values[side as usize]));
        metric(name, help, unit, Values::Counters(labelled.into()))
    };
    let bytes = || Some(Unit::Bytes);
    let tcp = |which: fn(&headend_host::proxy::books::SegmentCounts) -> u64| {
        [0, 1].map(|side: usize| which(&books.tcp[side]))
    };
    let (p50, p95) = sampler.latest().map(|sample| (sample.rtt_p50_s, sample.rtt_p95_s)).unwrap_or_default();
    vec![
        gauge(
            "serving",
            "1 while new connections are taken, 0 while the open ones may end or a thread hangs",
            None,
            u64::from(facts.state == State::Serving),
        ),
        gauge("connections_open", "Connections of clients that are open", None, books.open() as u64),
        gauge("connections_limit", "Connections that may be open", None, facts.config.limits.connections as u64),
        counter("connections_accepted", "Connections of clients accepted", books.accepted.load(Relaxed)),
        counter("connections_joined", "Connections that reached a server", books.joined.load(Relaxed)),
        counter("connections_over_share", "Refused: their client had enough", books.over_share.load(Relaxed)),
        counter("requests_over_rate", "Refused: their client or user made enough", books.over_rate.load(Relaxed)),
        counter("delayed", "Waits for a client's or a user's rate", books.delayed.load(Relaxed)),
        counter("connections_over_limit", "Refused: no place was free", books.over_limit.load(Relaxed)),
        counter("connections_evicted", "Idle ones ended for others", books.evicted.load(Relaxed)),
        counter("requests", "Requests for whole URLs", books.requests.load(Relaxed)),
        counter("requests_reused", "Of those, over a connection that was kept", books.reused.load(Relaxed)),
        counter(
            "connections_refused",
            "Connections refused, or ended before a server was reached",
            books.refused.load(Relaxed),
        ),
        counter(
            "connections_failed",
            "Joined connections that ended by a reset, a time-out or an abort",
            books.failed.load(Relaxed),
        ),
        sides(
            "read",
            "Bytes read, by the side that they came from",
            bytes(),
            [0, 1].map(|side: usize| books.read[side].load(Relaxed)),
        ),
        sides(
            "written",
            "Bytes written, by the side that took them",
            bytes(),
            [0, 1].map(|side: usize| books.written[side].load(Relaxed)),
        ),
        sides(
            "tcp_segments",
            "Segments with data sent, retransmissions among them",
            None,
            tcp(|tcp| tcp.segments.load(Relaxed)),
        ),
        sides("tcp_retransmits", "Segments sent again", None, tcp(|tcp| tcp.retransmits.load(Relaxed))),
        sides("tcp_timeouts", "Retransmission time-outs", None, tcp(|tcp| tcp.timeouts.load(Relaxed))),
        metric(
            "tcp_rtt",
            "Smoothed round trips of the open connections",
            Some(Unit::Seconds),
            Values::Gauges(quantiles([0, 1].map(|side: usize| [p50[side], p95[side]]))),
        ),
        gauge("memory", "Memory in which data waits", bytes(), books.memory.taken()),
        gauge("memory_limit", "Memory in which data may wait", bytes(), books.memory.bound()),
        gauge(
            "socket_memory",
            "Memory of the kernel's that TCP has on the whole machine",
            bytes(),
            books.sockets.taken(),
        ),
        gauge(
            "socket_memory_limit",
            "What it may have before the proxy's socket buffers are cut",
            bytes(),
            books.sockets.bound(),
        ),
        gauge(
            "socket_buffer_limit",
            "What each socket buffer of the proxy is cut to; 0 while the kernel sizes them",
            bytes(),
            books.buffer_bound.load(Relaxed),
        ),
        gauge("spool", "Data that waits in files", bytes(), books.spool.taken()),
        gauge("spool_limit", "Data that may wait in files", bytes(), books.spool.bound()),
        counter(
            "spool_refusals",
            "Writes to the spool that the disk refused, each tried again",
            books.spool_refusals.load(Relaxed),
        ),
    ]
}

/// A median and a ninety-fifth percentile of each side, as far as there are any.
fn quantiles(values: [[Option<f64>; 2]; 2]) -> Vec<(Labels, f64)> {
    let of_side = |side: Side| {
        values[side as usize].iter().zip(["0.5", "0.95"]).filter_map(move |(value, quantile)| {
            Some((vec![("side", name_of(side).to_owned()), ("quantile", quantile.to_owned())], (*value)?))
        })
    };
    SIDES.into_iter().flat_map(|side| of_side(side).collect::<Vec<_>>()).collect()
}

fn name_of(side: Side) -> &'static str {
    match side {
        Side::Local => "local",
        Side::Remote => "remote",
    }
}
