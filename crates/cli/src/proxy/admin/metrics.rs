//! Counts and levels for Prometheus, as OpenMetrics or in its older text: docs/howto/operate-proxy.md lists them.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use headend_engine::relay::Side;
use headend_host::proxy::books::Books;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::sampler::{SIDES, Sampler, unix_seconds};
use super::{Facts, State};

/// The forms in which metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Prometheus' own text, version 0.0.4: what whoever asks for nothing else can read.
    Plain,
    OpenMetrics,
}

impl Form {
    /// The form that a request's Accept field prefers (RFC 9110 s12.5.1); of two that it likes equally, the newer.
    pub(super) fn preferred(accept: &str) -> Form {
        let weight = |range: &str| -> f32 {
            let mut best = 0.0_f32;
            for offer in accept.split(',') {
                let mut parts = offer.split(';').map(str::trim);
                if parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(range)) {
                    let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
                    best = best.max(q.map_or(1.0, |q| q.parse().unwrap_or(0.0)));
                }
            }
            best
        };
        let (newer, plain) = (weight("application/openmetrics-text"), weight("text/plain"));
        if newer > 0.0 && newer >= plain { Form::OpenMetrics } else { Form::Plain }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Form::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A metric's name without prefix and unit, what it means, its unit, and its values.
struct Metric {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    Counter(u64),
    Counters([u64; 2]),
    Gauge(f64),
    /// A median and a ninety-fifth percentile of each side.
    Quantiles([[Option<f64>; 2]; 2]),
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?}", self.name, self.values)
    }
}

#[derive(Debug)]
struct Metrics(Vec<Metric>);

/// All metrics, of now.
pub(super) fn text(form: Form, books: &Books, facts: &Facts, sampler: &Sampler) -> Result<String, Error> {
    let mut registry = Registry::default();
    let own = registry.sub_registry_with_prefix("headend_proxy");
    own.register("build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    own.register_collector(Box::new(Metrics(of_proxy(books, facts, sampler))));
    registry.sub_registry_with_prefix("process").register_collector(Box::new(Metrics(of_process(books))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(match form {
        Form::OpenMetrics => text,
        Form::Plain => plain(&text),
    })
}

/// OpenMetrics text as version 0.0.4, which has neither units nor an end, calls a metric what its values are called, and has
/// no kind for information: a gauge of 1 is what others take for it.
fn plain(text: &str) -> String {
    let kinds: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        let told = line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>());
        let (key, name, rest) = match told.as_deref() {
            None => {
                plain.extend([line, "\n"]);
                continue;
            }
            Some([key @ ("HELP" | "TYPE"), name, rest]) => (*key, *name, *rest),
            Some(_) => continue,
        };
        let (suffix, kind) = match kinds.get(name) {
            Some(&"counter") => ("_total", "counter"),
            Some(&"info") => ("_info", "gauge"),
            Some(kind) => ("", *kind),
            None => ("", "untyped"),
        };
        let rest = if key == "TYPE" { kind } else { rest };
        plain.extend(["# ", key, " ", name, suffix, " ", rest, "\n"]);
    }
    plain
}

fn of_proxy(books: &Books, facts: &Facts, sampler: &Sampler) -> Vec<Metric> {
    let metric = |name, help, unit, values| Metric { name, help, unit, values };
    let counter = |name, help, value: u64| metric(name, help, None, Values::Counter(value));
    let gauge = |name, help, unit, value: u64| metric(name, help, unit, Values::Gauge(value as f64));
    let sides = |name, help, unit, values| metric(name, help, unit, Values::Counters(values));
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
            Values::Quantiles([0, 1].map(|side: usize| [p50[side], p95[side]])),
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

/// The metrics of the process, under the names that exporters of all kinds use.
fn of_process(books: &Books) -> Vec<Metric> {
    let gauge = |name, help, unit, value: f64| Metric { name, help, unit, values: Values::Gauge(value) };
    let mut metrics =
        vec![gauge("start_time", "When it started, since 1970", Some(Unit::Seconds), unix_seconds(books.started))];
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        // The one that lists them is among them.
        metrics.push(gauge("open_fds", "Open descriptors", None, entries.count().saturating_sub(1) as f64));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    metrics.extend(limit.map(|limit| gauge("max_fds", "Descriptors that may be open", None, limit as f64)));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    metrics.extend(
        resident.map(|kib: u32| {
            gauge("resident_memory", "Memory of the process", Some(Unit::Bytes), f64::from(kib) * 1024.0)
        }),
    );
    metrics
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        for Metric { name, help, unit, values } in &self.0 {
            let kind = match values {
                Values::Counter(_) | Values::Counters(_) => MetricType::Counter,
                Values::Gauge(_) | Values::Quantiles(_) => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            match values {
                Values::Counter(value) => ConstCounter::new(*value).encode(metric)?,
                Values::Gauge(value) => ConstGauge::new(*value).encode(metric)?,
                Values::Counters(values) => {
                    for side in SIDES {
                        let labels = [("side", name_of(side))];
                        ConstCounter::new(values[side as usize]).encode(metric.encode_family(&labels)?)?;
                    }
                }
                Values::Quantiles(values) => {
                    for side in SIDES {
                        for (value, quantile) in values[side as usize].iter().zip(["0.5", "0.95"]) {
                            let labels = [("side", name_of(side)), ("quantile", quantile)];
                            if let Some(value) = value {
                                ConstGauge::new(*value).encode(metric.encode_family(&labels)?)?;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn name_of(side: Side) -> &'static str {
    match side {
        Side::Local => "local",
        Side::Remote => "remote",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_can_read_openmetrics_gets_it_and_all_others_the_older_text() {
        // As Prometheus asks, from version 2.5 on and before.
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
                          q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            (prometheus, Form::OpenMetrics),
            ("application/openmetrics-text", Form::OpenMetrics),
            ("text/plain, application/OpenMetrics-Text;q=1", Form::OpenMetrics),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Form::Plain),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.1", Form::Plain),
            ("application/openmetrics-text;q=0", Form::Plain),
            ("*/*", Form::Plain),
            ("", Form::Plain),
        ] {
            assert_eq!(Form::preferred(accept), expected, "{accept}");
        }
    }

    #[test]
    fn the_older_text_calls_a_metric_what_its_values_are_called() {
        let text = "# HELP a_read_bytes Bytes read.\n# TYPE a_read_bytes counter\n# UNIT a_read_bytes bytes\n\
                    a_read_bytes_total{side=\"local\"} 7\n# HELP a_build Version.\n# TYPE a_build info\n\
                    a_build_info{version=\"1\"} 1\n# HELP a_open Open.\n# TYPE a_open gauge\na_open 2.0\n# EOF\n";
        let expected = "# HELP a_read_bytes_total Bytes read.\n# TYPE a_read_bytes_total counter\n\
                        a_read_bytes_total{side=\"local\"} 7\n# HELP a_build_info Version.\n# TYPE a_build_info gauge\n\
                        a_build_info{version=\"1\"} 1\n# HELP a_open Open.\n# TYPE a_open gauge\na_open 2.0\n";
        assert_eq!(plain(text), expected);
    }
}
