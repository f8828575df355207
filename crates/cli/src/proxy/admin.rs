//! The admin server of a proxy: a page, its status, metrics, and whether it is well, for whoever operates it.
//!
//! | where | what |
//! |---|---|
//! | `sampler` | once a second: rates, round trips and retransmissions, and the last minutes of them |
//! | `status` `metrics` | what there is to know, as JSON and as text for Prometheus |
//! | `page/` | the live page, which reads the status |
//!
//! All of it is a thread of its own that reads what the workers count. They never wait for it longer than the copying of a
//! few pointers takes.

mod metrics;
mod sampler;
mod status;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::watch;

use headend_host::proxy::Proxy;
use headend_host::proxy::books::Books;
use headend_host::proxy::config::{self, Config};
use headend_host::proxy::side::Grant;

use crate::failure::Failure;
use crate::visitors::{self, respond, say};
use sampler::Sampler;

/// The thread that answers.
pub(super) struct Admin {
    facts: watch::Sender<Facts>,
}

/// The facts that only the proxy's own thread knows, as it last told them.
#[derive(Clone)]
pub(super) struct Facts {
    state: State,
    config: Arc<Config>,
    listening: Arc<[(SocketAddr, &'static str)]>,
    grants: Arc<[Vec<Grant>; 2]>,
}

/// The proxy's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Serving,
    /// A thread of it does not answer.
    Stuck,
    /// It takes no new connections; those that are open may end.
    Draining,
    /// The proxy drains, and another process has its listeners, this one's too.
    HandedOver,
}

/// The means of answering.
struct Desk {
    books: Arc<Books>,
    facts: watch::Receiver<Facts>,
    sampler: Mutex<Sampler>,
}

const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("admin/page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("admin/page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("admin/page/page.js")),
    ("/icon.svg", "image/svg+xml", include_str!("admin/page/icon.svg")),
    (
        "/uPlot.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../../python/headend/report/vendor/uplot/uPlot.iife.min.js"),
    ),
    (
        "/uPlot.css",
        "text/css; charset=utf-8",
        include_str!("../../../../python/headend/report/vendor/uplot/uPlot.min.css"),
    ),
];

impl Admin {
    /// Starts the thread, if the proxy has been told to have one.
    pub(super) fn start(proxy: &Proxy) -> Result<Option<Admin>, Failure> {
        let Some(socket) = proxy.admin() else { return Ok(None) };
        let failed = |error: std::io::Error| Failure::Failed(format!("nobody can look at the proxy: {error}"));
        let socket = socket.try_clone().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (facts, told) = watch::channel(Facts::of(proxy, State::Serving));
        let desk = Arc::new(Desk { books: proxy.books(), facts: told, sampler: Mutex::new(Sampler::new()) });
        let serve = move || {
            runtime.block_on(async {
                match TcpListener::from_std(socket) {
                    Ok(socket) => serve(socket, desk).await,
                    Err(error) => eprintln!("nobody can look at the proxy: {error}"),
                }
            });
        };
        thread::Builder::new().name("admin".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Some(Admin { facts }))
    }

    /// Tells it what has become of the proxy.
    pub(super) fn tell(&self, proxy: &Proxy, state: State) {
        self.facts.send_replace(Facts::of(proxy, state));
    }
}

impl Facts {
    fn of(proxy: &Proxy, state: State) -> Facts {
        Facts { state, config: proxy.config(), listening: proxy.listening().into(), grants: Arc::new(proxy.grants()) }
    }
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Serving => "serving",
            State::Stuck => "stuck",
            State::Draining => "draining",
            State::HandedOver => "handed over",
        }
    }
}

async fn serve(socket: TcpListener, desk: Arc<Desk>) {
    let sampling = desk.clone();
    tokio::spawn(async move {
        let mut clock = tokio::time::interval(SAMPLE_EVERY);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            sampling.sampler().sample(&sampling.books);
        }
    });
    let mut facts = desk.facts.clone();
    // The listener is another's from then on.
    let ended = async move { drop(facts.wait_for(|facts| facts.state == State::HandedOver).await) };
    visitors::serve(socket, desk, ended).await;
}

impl Desk {
    fn sampler(&self) -> std::sync::MutexGuard<'_, Sampler> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl visitors::Desk for Desk {
    fn admin(&self) -> Option<config::Admin> {
        self.facts.borrow().config.admin.clone()
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let facts = self.facts.borrow().clone();
        let path = request.uri().path();
        match path {
            "/healthz" => match facts.state {
                State::Serving => say(StatusCode::OK, "serving\n"),
                state => say(StatusCode::SERVICE_UNAVAILABLE, &format!("{}\n", state.name())),
            },
            "/metrics" => visitors::metrics(request, |form| metrics::text(form, &self.books, &facts, &self.sampler())),
            "/status" => match status::StatusQuestion::read(request.uri().query().unwrap_or_default()) {
                Ok(question) => {
                    let text = status::answer(&question, &self.books, &facts, &self.sampler()).to_string();
                    respond(StatusCode::OK, "application/json", text)
                }
                Err(why) => say(StatusCode::BAD_REQUEST, &format!("{why}\n")),
            },
            _ => match FILES.iter().find(|(name, ..)| *name == path) {
                Some((_, kind, content)) => respond(StatusCode::OK, kind, *content),
                None => say(StatusCode::NOT_FOUND, "there are /, /status, /metrics and /healthz\n"),
            },
        }
    }
}
