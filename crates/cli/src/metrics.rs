//! Counts and levels for Prometheus, as OpenMetrics or in its older text.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::fs;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// The forms in which metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Prometheus' own text, version 0.0.4: what whoever asks for nothing else can read.
    Plain,
    OpenMetrics,
}

impl Form {
    /// The form that a request's Accept field prefers (RFC 9110 s12.5.1); of two that it likes equally, the newer.
    pub(crate) fn preferred(accept: &str) -> Form {
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

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Form::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A metric's name without prefix and unit, what it means, its unit, and its values.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: Option<Unit>,
    pub(crate) values: Values,
}

/// Names of labels, and what they say.
pub(crate) type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub(crate) enum Values {
    Counter(u64),
    Gauge(f64),
    Counters(Vec<(Labels, u64)>),
    Gauges(Vec<(Labels, f64)>),
}

#[derive(Debug)]
struct Metrics(Vec<Metric>);

/// Metrics of a daemon under its prefix, and those of its process.
pub(crate) fn text(form: Form, prefix: &str, own: Vec<Metric>, started: SystemTime) -> Result<String, Error> {
    let mut registry = Registry::default();
    let registered = registry.sub_registry_with_prefix(prefix);
    registered.register("build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    registered.register_collector(Box::new(Metrics(own)));
    registry.sub_registry_with_prefix("process").register_collector(Box::new(Metrics(of_process(started))));
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

/// The metrics of the process, under the names that exporters of all kinds use.
fn of_process(started: SystemTime) -> Vec<Metric> {
    let gauge = |name, help, unit, value: f64| Metric { name, help, unit, values: Values::Gauge(value) };
    let mut metrics =
        vec![gauge("start_time", "When it started, since 1970", Some(Unit::Seconds), unix_seconds(started))];
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

/// Seconds since 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        for Metric { name, help, unit, values } in &self.0 {
            let kind = match values {
                Values::Counter(_) | Values::Counters(_) => MetricType::Counter,
                Values::Gauge(_) | Values::Gauges(_) => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            match values {
                Values::Counter(value) => ConstCounter::new(*value).encode(metric)?,
                Values::Gauge(value) => ConstGauge::new(*value).encode(metric)?,
                Values::Counters(values) => {
                    for (labels, value) in values {
                        ConstCounter::new(*value).encode(metric.encode_family(labels)?)?;
                    }
                }
                Values::Gauges(values) => {
                    for (labels, value) in values {
                        ConstGauge::new(*value).encode(metric.encode_family(labels)?)?;
                    }
                }
            }
        }
        Ok(())
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
