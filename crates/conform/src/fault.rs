//! Faults: the ways in which a proxy is not a wire.

/// One way not to be a wire. The name is what a matrix counts, and what may be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A name of [`FAULTS`].
    pub name: &'static str,
    /// Which connection and which bytes, for people.
    pub detail: String,
}

/// Every fault there is, and what it means.
pub const FAULTS: &[(&str, &str)] = &[
    ("bytes-missing", "bytes in the middle or at the end never arrived"),
    ("bytes-reordered", "bytes arrived before others that were sent earlier"),
    ("bytes-repeated", "bytes arrived twice"),
    ("bytes-foreign", "bytes of another direction or connection arrived"),
    ("bytes-changed", "bytes arrived that nobody sent"),
    ("end-not-passed", "everything arrived, and the end of the direction did not"),
    ("end-became-reset", "a direction that ended properly arrived as a reset"),
    ("half-close-became-close", "the end of one direction ended the other one too"),
    ("reset-became-end", "a reset arrived as a proper end"),
    ("reset-not-passed", "a reset did not arrive"),
    ("broken-off", "the connection broke though nobody had ended it"),
    ("stuck", "nothing moved any more, and bytes were missing"),
    ("other-direction-blocked", "a stalled reader held up what it wrote itself"),
    ("other-connection-blocked", "a stalled reader held up another connection"),
    ("not-held-back", "a stalled reader did not hold back its sender"),
    ("no-connection", "the proxy did not connect to a server that listens"),
    ("refusal-not-passed", "the proxy did not say that the server refused"),
    ("refusal-became-end", "a refusal arrived as a proper end"),
    ("request-changed", "the head of a request arrived changed, or what arrived is no request"),
    ("answer-changed", "the head of an answer arrived changed, or what arrived is no answer"),
    ("field-not-removed", "a field for the proxy alone reached the server"),
    ("via-missing", "a request does not say that a proxy was there"),
    ("client-not-told", "the server was not told who the client is"),
    ("client-wrong", "the server was told of another client"),
    ("header-not-refused", "a connection went on that began with no valid PROXY header"),
];

impl Fault {
    pub(crate) fn new(name: &'static str, detail: impl Into<String>) -> Fault {
        debug_assert!(FAULTS.iter().any(|(known, _)| *known == name), "{name} is listed");
        Fault { name, detail: detail.into() }
    }
}
