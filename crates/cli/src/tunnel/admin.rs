//! The status and the metrics of a tunnel's end, for whoever operates it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use headend_host::proxy::access::Networks;
use headend_host::proxy::config::Admin;
use headend_host::service::{News, Supervisor};
use headend_socket::{Connection, Endpoint, PublicKey, Snapshot, Strays};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use prometheus_client::registry::Unit;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Common;
use crate::failure::Failure;
use crate::metrics::{self, Metric, Values};
use crate::visitors::{self, respond, say};

/// What an end has done, and its connections.
#[derive(Default)]
pub(super) struct Books {
    lines: Mutex<Lines>,
    /// Streams that a program or a client asked for.
    pub(super) streams: AtomicU64,
    /// Those of them whose destination was not reached.
    pub(super) failures: AtomicU64,
}

#[derive(Default)]
struct Lines {
    begun: u64,
    live: BTreeMap<u64, Connection>,
}

/// A connection's place in the books, for as long as it lives.
pub(super) struct Entry {
    books: Arc<Books>,
    number: u64,
}

impl Books {
    /// Enters a connection. Whoever holds the entry holds the connection open.
    pub(super) fn enter(self: &Arc<Books>, connection: &Connection) -> Entry {
        let mut lines = self.lines();
        lines.begun += 1;
        let number = lines.begun;
        lines.live.insert(number, connection.clone());
        Entry { books: self.clone(), number }
    }

    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let gone = self.books.lines().live.remove(&self.number);
        // Its last clone may close it, which takes another lock.
        drop(gone);
    }
}

/// What there is to see.
struct Seen {
    connections: Vec<(PublicKey, SocketAddr, Snapshot)>,
    begun: u64,
    streams: u64,
    failures: u64,
    strays: Strays,
}

struct Desk {
    admin: Admin,
    endpoint: Endpoint,
    books: Arc<Books>,
    /// A client without a connection is not well; a server waits for clients.
    is_client: bool,
    started: SystemTime,
}

/// Opens the place at which an end is looked at, if there is to be one.
pub(super) async fn listen(common: &Common) -> Result<Option<(TcpListener, Admin)>, Failure> {
    let Some(address) = common.admin else { return Ok(None) };
    if !address.ip().to_canonical().is_loopback() && common.admin_clients.is_empty() {
        return Err(Failure::Wrong(format!(
            "--admin {address}: beyond the loopback --admin-clients says who may look, such as --admin-clients 10.0.0.0/8"
        )));
    }
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Failure::Failed(format!("--admin {address}: {error}")))?;
    let clients = Networks::new(common.admin_clients.clone());
    Ok(Some((listener, Admin { address, clients, names: Vec::new() })))
}

/// Answers whoever looks, until the process ends.
pub(super) fn answer(opened: Option<(TcpListener, Admin)>, endpoint: &Endpoint, books: &Arc<Books>, is_client: bool) {
    let Some((listener, admin)) = opened else { return };
    let at = listener.local_addr().unwrap_or(admin.address);
    eprintln!("/status, /metrics and /healthz over HTTP at {at}");
    let (endpoint, books, started) = (endpoint.clone(), books.clone(), SystemTime::now());
    let desk = Arc::new(Desk { admin, endpoint, books, is_client, started });
    tokio::spawn(visitors::serve(listener, desk, std::future::pending()));
}

/// Tells systemd that this end serves, and from then on that it lives.
pub(super) fn tell_supervisor(status: &str) -> Result<(), Failure> {
    let Some(supervisor) = Supervisor::from_environment()? else { return Ok(()) };
    supervisor.tell(News::Ready(status));
    if let Some(within) = supervisor.watchdog {
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(within / 3).await;
                supervisor.tell(News::Alive);
            }
        });
    }
    Ok(())
}

impl Desk {
    fn look(&self) -> Seen {
        let lines = self.books.lines();
        Seen {
            connections: lines.live.values().filter_map(Connection::look).collect(),
            begun: lines.begun,
            streams: self.books.streams.load(Ordering::Relaxed),
            failures: self.books.failures.load(Ordering::Relaxed),
            strays: self.endpoint.strays(),
        }
    }
}

impl visitors::Desk for Desk {
    fn admin(&self) -> Option<Admin> {
        Some(self.admin.clone())
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/healthz" if self.is_client && self.look().connections.is_empty() => {
                say(StatusCode::SERVICE_UNAVAILABLE, "not connected to the server\n")
            }
            "/healthz" => say(StatusCode::OK, if self.is_client { "connected\n" } else { "serving\n" }),
            "/status" => respond(StatusCode::OK, "application/json", as_json(&self.look()).to_string()),
            "/metrics" => visitors::metrics(request, |form| {
                metrics::text(form, "headend_tunnel", as_metrics(&self.look()), self.started)
            }),
            _ => say(StatusCode::NOT_FOUND, "there are /status, /metrics and /healthz\n"),
        }
    }
}

fn as_json(seen: &Seen) -> Value {
    let connection = |(key, address, at): &(PublicKey, SocketAddr, Snapshot)| {
        json!({
            "peer": key.to_string(), "address": address.to_string(), "streams": at.streams,
            "rtt_ns": at.rtt.map(|rtt| rtt.as_nanos()), "window_bytes": at.window.get(),
            "in_flight_bytes": at.in_flight.get(), "datagram_bytes": at.datagram, "sent": at.sent,
            "delivered": at.delivered, "lost": at.lost, "reductions": at.reductions, "probes": at.probes,
            "moves": at.moves,
        })
    };
    let strays: serde_json::Map<String, Value> =
        strays(&seen.strays).into_iter().map(|(kind, count)| (kind.to_owned(), count.into())).collect();
    json!({
        "connections": seen.connections.iter().map(connection).collect::<Vec<_>>(),
        "connections_begun": seen.begun, "streams_begun": seen.streams, "streams_failed": seen.failures,
        "strays": strays,
    })
}

fn strays(strays: &Strays) -> [(&'static str, u64); 5] {
    [
        ("strangers", strays.strangers),
        ("forged", strays.forged),
        ("retries", strays.retries),
        ("refused", strays.refused),
        ("unknown_keys", strays.unknown_keys),
    ]
}

fn as_metrics(seen: &Seen) -> Vec<Metric> {
    let metric = |name, help, unit, values| Metric { name, help, unit, values };
    let labels =
        |key: &PublicKey, address: &SocketAddr| vec![("peer", key.to_string()), ("address", address.to_string())];
    let gauges = |name, help, unit, which: fn(&Snapshot) -> Option<f64>| {
        let values = seen.connections.iter().filter_map(|(key, from, at)| Some((labels(key, from), which(at)?)));
        metric(name, help, unit, Values::Gauges(values.collect()))
    };
    let counters = |name, help, which: fn(&Snapshot) -> u64| {
        let values = seen.connections.iter().map(|(key, from, at)| (labels(key, from), which(at)));
        metric(name, help, None, Values::Counters(values.collect()))
    };
    let no_use = strays(&seen.strays).map(|(kind, count)| (vec![("kind", kind.to_owned())], count));
    vec![
        metric("open", "Connections that stand", None, Values::Gauge(seen.connections.len() as f64)),
        metric("connections", "Connections that were begun", None, Values::Counter(seen.begun)),
        metric("streams", "Streams that were asked for", None, Values::Counter(seen.streams)),
        metric("failures", "Streams whose destination was not reached", None, Values::Counter(seen.failures)),
        metric("strays", "Datagrams that were no use, by kind", None, Values::Counters(no_use.into())),
        gauges("rtt", "The smoothed round trip", Some(Unit::Seconds), |at| Some(at.rtt?.as_secs_f64())),
        gauges("window", "What may be under way", Some(Unit::Bytes), |at| Some(at.window.get() as f64)),
        gauges("in_flight", "What is under way", Some(Unit::Bytes), |at| Some(at.in_flight.get() as f64)),
        counters("sent", "Numbered datagrams that left on a connection", |at| at.sent),
        counters("delivered", "Those of them that came", |at| at.delivered),
        counters("reductions", "Times that the window shrank", |at| at.reductions),
        counters("moves", "Times that the peer's path changed", |at| at.moves),
    ]
}

#[cfg(test)]
mod tests {
    use headend_socket::Identity;

    use super::*;
    use crate::metrics::Form;

    #[test]
    fn status_and_metrics_are_of_each_connection() {
        let key = Identity::generate().public();
        let at = Snapshot { sent: 7, streams: 2, ..Snapshot::default() };
        let strays = Strays { unknown_keys: 3, ..Strays::default() };
        let connections = vec![(key, SocketAddr::from(([192, 0, 2, 1], 5)), at)];
        let seen = Seen { connections, begun: 4, streams: 9, failures: 1, strays };
        let told = as_json(&seen);
        assert_eq!(told["connections"][0]["peer"], key.to_string());
        assert_eq!((&told["connections"][0]["rtt_ns"], &told["strays"]["unknown_keys"]), (&Value::Null, &3.into()));
        let text = metrics::text(Form::Plain, "headend_tunnel", as_metrics(&seen), SystemTime::UNIX_EPOCH).unwrap();
        for line in [
            "headend_tunnel_open 1.0".to_owned(),
            "headend_tunnel_streams_total 9".to_owned(),
            "headend_tunnel_strays_total{kind=\"unknown_keys\"} 3".to_owned(),
            format!("headend_tunnel_sent_total{{peer=\"{key}\",address=\"192.0.2.1:5\"}} 7"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("headend_tunnel_rtt_seconds{"), "no round trip is known yet: {text}");
    }
}
