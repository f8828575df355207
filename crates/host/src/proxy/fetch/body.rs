//! Bodies on their way through the proxy, as hyper has decoded them and will frame them anew.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use headend_engine::relay::Side;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::exchange::Exchange;
use super::leg::Meter;

/// The body of a request, towards the server.
#[derive(Debug)]
pub(super) struct Upload {
    body: Option<Incoming>,
    meter: Arc<Meter>,
}

/// The body of an answer, towards the client.
#[derive(Debug)]
pub(super) enum Download {
    /// The proxy's own words.
    Own(Full<Bytes>),
    /// The server's. The exchange is over when it has ended.
    Server { body: Incoming, exchange: Box<Exchange> },
}

impl Upload {
    pub(super) fn new(body: Option<Incoming>, meter: Arc<Meter>) -> Upload {
        Upload { body, meter }
    }
}

fn poll_frame(
    body: &mut Incoming,
    meter: &Meter,
    to: Side,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    if !meter.may_take(to, cx) {
        return Poll::Pending;
    }
    let frame = ready!(Pin::new(body).poll_frame(cx));
    if let Some(Ok(frame)) = &frame
        && let Some(bytes) = frame.data_ref()
    {
        meter.hold(to, bytes.len());
    }
    Poll::Ready(frame)
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Upload { body, meter } = &mut *self;
        match body {
            None => Poll::Ready(None),
            Some(body) => poll_frame(body, meter, Side::Remote, cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Download::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Download::Server { body, exchange } => {
                let frame = ready!(poll_frame(body, exchange.meter(), Side::Local, cx));
                match &frame {
                    None => exchange.is_answered(),
                    Some(Err(_)) => exchange.is_cut(),
                    // hyper asks no more of a body that says that it has ended.
                    Some(Ok(_)) if body.is_end_stream() => exchange.is_answered(),
                    Some(Ok(_)) => {}
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Download::Own(body) => body.is_end_stream(),
            Download::Server { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Download::Own(body) => Body::size_hint(body),
            Download::Server { body, .. } => body.size_hint(),
        }
    }
}
