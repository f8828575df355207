//! The page, the status and the metrics of a trunk, for whoever operates it.

use std::net::TcpListener;
use std::thread;
use std::time::SystemTime;

use headend_host::proxy::config::Admin;
use headend_host::trunk::{ClassStatus, Handle, PeerStatus, Status};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use prometheus_client::registry::Unit;

use super::status;
use crate::failure::Failure;
use crate::metrics::{self, Form, Labels, Metric, Values};
use crate::visitors::{self, respond, say};

/// The files of the page: path, type, content. What it looks like is the proxy's page's.
const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../proxy/admin/page/page.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../proxy/admin/page/icon.svg")),
];

/// The means of answering.
struct Desk {
    name: String,
    admin: Admin,
    handle: Handle,
    started: SystemTime,
}

/// Opens the place at which it is looked at.
pub(super) fn listen(admin: &Admin) -> Result<TcpListener, Failure> {
    let opened = TcpListener::bind(admin.address).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    opened.map_err(|error| Failure::Failed(format!("admin.listen: {}: {error}", admin.address)))
}

/// Answers whoever looks, on a thread of its own.
pub(super) fn answer(socket: TcpListener, admin: Admin, name: String, handle: Handle) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("nobody can look at the trunk: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let desk = std::sync::Arc::new(Desk { name, admin, handle, started: SystemTime::now() });
    let serve = move || {
        runtime.block_on(async {
            match tokio::net::TcpListener::from_std(socket) {
                Ok(socket) => visitors::serve(socket, desk, std::future::pending()).await,
                Err(error) => eprintln!("nobody can look at the trunk: {error}"),
            }
        });
    };
    thread::Builder::new().name("admin".to_owned()).spawn(serve).map(drop).map_err(failed)
}

impl visitors::Desk for Desk {
    fn admin(&self) -> Option<Admin> {
        Some(self.admin.clone())
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        match path {
            "/healthz" => match health(&self.handle.status()) {
                None => say(StatusCode::OK, "carrying\n"),
                Some(why) => say(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
            },
            "/status" => {
                let text = status::as_json(&self.name, &self.handle.status()).to_string();
                respond(StatusCode::OK, "application/json", text)
            }
            "/metrics" => visitors::metrics(request, |form| text(form, &self.handle.status(), self.started)),
            _ => match FILES.iter().find(|(name, ..)| *name == path) {
                Some((_, kind, content)) => respond(StatusCode::OK, kind, *content),
                None => say(StatusCode::NOT_FOUND, "there are /, /status, /metrics and /healthz\n"),
            },
        }
    }
}

/// The reason why users' packets do not all pass under control.
fn health(status: &Status) -> Option<String> {
    let ill: Vec<String> = status
        .peers
        .iter()
        .filter(|peer| peer.state != "carrying")
        .map(|peer| format!("{}: {}", peer.name, peer.state))
        .collect();
    (!ill.is_empty()).then(|| ill.join(", "))
}

fn text(form: Form, status: &Status, started: SystemTime) -> Result<String, std::fmt::Error> {
    metrics::text(form, "headend_trunk", of_trunk(status), started)
}

/// All metrics, of now.
fn of_trunk(status: &Status) -> Vec<Metric> {
    let metric = |name, help, unit, values| Metric { name, help, unit, values };
    let counter = |name, help, value| metric(name, help, None, Values::Counter(value));
    let of_peer = |peer: &PeerStatus| vec![("peer", peer.name.clone())];
    let counters = |name, help, unit, which: fn(&PeerStatus) -> Option<u64>| {
        let values = status.peers.iter().filter_map(|peer| Some((of_peer(peer), which(peer)?)));
        metric(name, help, unit, Values::Counters(values.collect()))
    };
    let gauges = |name, help, unit, which: fn(&PeerStatus) -> Option<f64>| {
        let values = status.peers.iter().filter_map(|peer| Some((of_peer(peer), which(peer)?)));
        metric(name, help, unit, Values::Gauges(values.collect()))
    };
    let by_class = |which: fn(&ClassStatus) -> u64| -> Vec<(Labels, u64)> {
        let of = |peer: &PeerStatus| {
            let labels = |class: &ClassStatus| vec![("peer", peer.name.clone()), ("class", class.name.clone())];
            peer.classes.iter().map(|class| (labels(class), which(class))).collect::<Vec<_>>()
        };
        status.peers.iter().flat_map(of).collect()
    };
    let levels = by_class(|class| class.counters.waiting_bytes).into_iter();
    let bytes = || Some(Unit::Bytes);
    let seconds = || Some(Unit::Seconds);
    vec![
        gauges("carrying", "1 while packets to the peer pass under control", None, |peer| {
            Some(f64::from(u8::from(peer.state == "carrying")))
        }),
        gauges("window", "The windows of the circuit together", bytes(), |peer| {
            Some(peer.to.as_ref()?.window.get() as f64)
        }),
        gauges("mtu", "The longest packet of users that passes to the peer, in sealed carriage", bytes(), |peer| {
            peer.mtu.map(|(mtu, _)| f64::from(mtu))
        }),
        gauges("rtt", "The smoothed round trip", seconds(), |peer| Some(peer.to.as_ref()?.srtt?.as_secs_f64())),
        gauges("queueing", "Of that, what is beyond the circuit's shortest", seconds(), |peer| {
            Some(peer.to.as_ref()?.queueing?.as_secs_f64())
        }),
        counters("controlled", "Users' bytes sent under control by this circuit", bytes(), |peer| {
            Some(peer.to.as_ref()?.controlled_bytes)
        }),
        counters("guaranteed", "Users' bytes sent at the guaranteed rate by this circuit", bytes(), |peer| {
            Some(peer.to.as_ref()?.guaranteed_bytes)
        }),
        counters("direct", "Users' bytes that passed without a circuit", bytes(), |peer| Some(peer.direct_bytes)),
        counters("reductions", "Times that a window of this circuit shrank for a loss", None, |peer| {
            Some(peer.to.as_ref()?.losses)
        }),
        counters("lost", "Datagrams of this circuit that were lost; none are known in native carriage", None, |peer| {
            Some(peer.to.as_ref()?.lost)
        }),
        counters("repair_copies", "Copies of lost packets that left for the peer again", None, |peer| {
            Some(peer.to.as_ref()?.repaired?.1.copies)
        }),
        counters("repair_abandoned", "Lost datagrams whose packets could not leave again in time", None, |peer| {
            Some(peer.to.as_ref()?.repaired?.1.abandoned)
        }),
        counters("repair_held", "Packets from the peer that waited for earlier ones of their flow", None, |peer| {
            Some(peer.waited?.1.held)
        }),
        counters("repair_given_up", "Times that such a wait was in vain", None, |peer| Some(peer.waited?.1.given_up)),
        counters("circuits", "Circuits to the peer that were begun", None, |peer| Some(peer.circuits)),
        counters("sessions", "Sessions with the peer that were begun", None, |peer| Some(peer.sessions)),
        counters("refused", "Datagrams in the peer's name that were not authentic, or came twice", None, |peer| {
            Some(peer.refused)
        }),
        counters("lies", "Acknowledgements by the peer of what was never sent", None, |peer| Some(peer.lies)),
        metric(
            "left",
            "Users' bytes that left, by class",
            bytes(),
            Values::Counters(by_class(|c| c.counters.left_bytes)),
        ),
        metric("dropped", "Users' packets dropped, by class", None, Values::Counters(by_class(|c| c.counters.dropped))),
        metric(
            "waiting",
            "Users' bytes that wait, by class",
            bytes(),
            Values::Gauges(levels.map(|(labels, value)| (labels, value as f64)).collect()),
        ),
        counter("strangers", "Datagrams that belong to no known peer", status.strangers),
        counter("flooded", "Hand-shakes that were not looked at because too many came", status.flooded),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, state: &'static str) -> PeerStatus {
        PeerStatus { name: name.to_owned(), state, direct_bytes: 7, ..PeerStatus::default() }
    }

    #[test]
    fn a_trunk_is_well_while_it_carries_to_all_its_peers() {
        let mut status =
            Status { peers: vec![peer("east", "carrying"), peer("south", "carrying")], ..Status::default() };
        assert_eq!(health(&status), None);
        status.peers[1].state = "down";
        assert_eq!(health(&status).as_deref(), Some("south: down"));
    }

    #[test]
    fn metrics_are_of_each_peer_and_say_nothing_of_a_circuit_that_is_not_there() {
        let status = Status { peers: vec![peer("east", "down")], strangers: 3, ..Status::default() };
        let text = text(Form::Plain, &status, SystemTime::UNIX_EPOCH).unwrap();
        for line in [
            "headend_trunk_carrying{peer=\"east\"} 0.0",
            "headend_trunk_direct_bytes_total{peer=\"east\"} 7",
            "headend_trunk_strangers_total 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("headend_trunk_window_bytes{"), "{text}");
    }
}
