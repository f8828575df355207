//! The HTTP by which those who operate a daemon look at it: who may, how many at a time and for how long. What there is to see
//! is the daemon's own affair.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use headend_host::proxy::access::Networks;
use headend_host::proxy::config::Admin;

use crate::from_text::from_text;
use crate::metrics::Form;

/// The table of a daemon's file that says who may look.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdminTable {
    listen: SocketAddr,
    #[serde(default)]
    clients: Vec<Network>,
    #[serde(default)]
    names: Vec<String>,
}

from_text!(Network, ipnet::IpNet, |text| {
    Networks::read(text).ok_or_else(|| "a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"".to_owned())
});

impl AdminTable {
    pub(crate) fn admin(self) -> Admin {
        let clients = Networks::new(self.clients.into_iter().map(|network| network.0).collect());
        Admin { address: self.listen, clients, names: self.names }
    }
}

/// A daemon that can be looked at.
pub(crate) trait Desk: Send + Sync + 'static {
    /// Who may look now; nobody without it.
    fn admin(&self) -> Option<Admin>;

    /// The answer to a GET or HEAD by somebody who may look.
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>>;
}

/// Those who look at the same time; others wait.
const VISITORS_MAX: usize = 64;
/// The most of those who may not look that hear so at a time; others are closed on. They take no visitor's place.
const STRANGERS_MAX: usize = 8;
/// The time from the first byte of a request to the last of its answer.
const VISIT: Duration = Duration::from_secs(10);
/// The pause after the machine refused a descriptor, until the next is asked for.
const PAUSE: Duration = Duration::from_millis(200);

/// A page needs nothing from elsewhere, and may have nothing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers visitors until `ended`; those who came before have their answers then.
pub(crate) async fn serve<D: Desk>(socket: TcpListener, desk: Arc<D>, ended: impl Future<Output = ()>) {
    tokio::pin!(ended);
    let visitors = Arc::new(Semaphore::new(VISITORS_MAX));
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    loop {
        let Ok(visitor) = visitors.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = &mut ended => break,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let may_look = desk.admin().is_some_and(|admin| admin.admits(peer.ip()));
        let visitor = if may_look { Ok(visitor) } else { strangers.clone().try_acquire_owned() };
        let Ok(visitor) = visitor else { continue };
        let desk = desk.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let answer = judged(&*desk, peer.ip(), &request);
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

/// The answer to a request from `peer`, who may have no right to one.
fn judged<D: Desk>(desk: &D, peer: IpAddr, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let Some(admin) = desk.admin() else { return say(StatusCode::NOT_FOUND, "nobody may look\n") };
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
    desk.answer(request)
}

/// Metrics in the form that the request prefers.
pub(crate) fn metrics(
    request: &Request<Incoming>,
    text: impl FnOnce(Form) -> Result<String, std::fmt::Error>,
) -> Response<Full<Bytes>> {
    let accept = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let form = Form::preferred(&accept.collect::<Vec<_>>().join(","));
    match text(form) {
        Ok(text) => respond(StatusCode::OK, form.content_type(), text),
        Err(error) => say(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

/// A line of text.
pub(crate) fn say(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, TEXT, text.to_owned())
}

/// An answer that no browser keeps, and that loads nothing from elsewhere.
pub(crate) fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
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
