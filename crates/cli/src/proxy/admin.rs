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

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use headend_host::proxy::Proxy;
use headend_host::proxy::books::Books;
use headend_host::proxy::config::Config;
use headend_host::proxy::side::Grant;

use crate::failure::Failure;
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

/// Those who look at the same time; others wait.
const VISITORS_MAX: usize = 64;
/// The most of those who may not look that hear so at a time; others are closed on. They take no visitor's place.
const STRANGERS_MAX: usize = 8;
/// The time from the first byte of a request to the last of its answer.
const VISIT: Duration = Duration::from_secs(10);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// The pause after the machine refused a descriptor, until the next is asked for.
const PAUSE: Duration = Duration::from_millis(200);

/// The page needs nothing from elsewhere, and may have nothing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TEXT: &str = "text/plain; charset=utf-8";

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
    let visitors = Arc::new(Semaphore::new(VISITORS_MAX));
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    let mut facts = desk.facts.clone();
    loop {
        let Ok(visitor) = visitors.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = facts.wait_for(|facts| facts.state == State::HandedOver) => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let may_look = desk.facts.borrow().config.admin.as_ref().is_some_and(|admin| admin.admits(peer.ip()));
        let visitor = if may_look { Ok(visitor) } else { strangers.clone().try_acquire_owned() };
        let Ok(visitor) = visitor else { continue };
        let desk = desk.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let answer = desk.answer(peer.ip(), &request);
                async { Ok::<_, Infallible>(answer) }
            });
            let visit = http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), answer);
            // Whether it hears the answer is its own affair.
            let _ = tokio::time::timeout(VISIT, visit).await;
            drop(visitor);
        });
    }
    // The listener is another's from here on; those who came before have their answers.
    drop(socket);
    let _ = visitors.acquire_many(VISITORS_MAX as u32).await;
}

impl Desk {
    fn sampler(&self) -> std::sync::MutexGuard<'_, Sampler> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, peer: IpAddr, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let facts = self.facts.borrow().clone();
        let path = request.uri().path();
        let Some(admin) = &facts.config.admin else { return say(StatusCode::NOT_FOUND, "nobody may look\n") };
        if !admin.admits(peer) {
            return say(StatusCode::FORBIDDEN, "this address is not among admin.clients\n");
        }
        if !is_own_name(request.headers().get(header::HOST), &admin.names) {
            // A page from elsewhere whose name leads here (DNS rebinding) would read it with the operator's browser.
            return say(StatusCode::FORBIDDEN, "ask under an address, as localhost, or list the name in admin.names\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = say(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match path {
            "/healthz" => match facts.state {
                State::Serving => say(StatusCode::OK, "serving\n"),
                state => say(StatusCode::SERVICE_UNAVAILABLE, &format!("{}\n", state.name())),
            },
            "/metrics" => {
                let accept = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
                let form = metrics::Form::preferred(&accept.collect::<Vec<_>>().join(","));
                match metrics::text(form, &self.books, &facts, &self.sampler()) {
                    Ok(text) => respond(StatusCode::OK, form.content_type(), text),
                    Err(error) => say(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
                }
            }
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

fn say(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, TEXT, text.to_owned())
}

fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// True if a browser that says `host` meant this place: an address, `localhost`, or a name from the list.
fn is_own_name(host: Option<&HeaderValue>, names: &[String]) -> bool {
    // Only programs leave it out (RFC 9112 s3.2), and they are led by no page.
    let Some(host) = host else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_named = |known: &str| known.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok() || is_named("localhost") || names.iter().any(|known| is_named(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_listed_names_are_taken_for_this_place() {
        let names = ["proxy.example.net".to_owned()];
        for (host, expected) in [
            ("127.0.0.1:9080", true),
            ("[::1]:9080", true),
            ("localhost:9080", true),
            ("LOCALHOST", true),
            ("proxy.example.net:9080", true),
            ("evil.example:9080", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            let value = HeaderValue::from_str(host).unwrap();
            assert_eq!(is_own_name(Some(&value), &names), expected, "{host:?}");
        }
    }
}
