//! The behaviours that a proxy is held to; each is a row of the matrix.

use std::time::Duration;

use super::entrance::{Entrance, WayIn};

/// A behaviour that schedules test. The one that a schedule tests follows from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // `rule` says of each what it is.
pub enum Behaviour {
    ToServer,
    ToClient,
    BothWays,
    SmallWrites,
    Turns,
    ServerFirst,
    EarlyData,
    Several,
    LastBytes,
    HalfCloseClient,
    HalfCloseServer,
    HalfCloseBoth,
    HalfCloseAtOnceClient,
    HalfCloseAtOnceServer,
    HalfCloseUnderLoad,
    LateEnd,
    ResetByClient,
    ResetByServer,
    ResetWhenIdle,
    ResetAtOnceClient,
    ResetAtOnceServer,
    ResetAfterHalfClose,
    SlowClient,
    SlowServer,
    StalledClient,
    StalledServer,
    Refused,
    Urgent,
    Churn,
    Long,
    HeaderInPieces,
    WrongHeader,
    Get,
    Head,
    Post,
    SmallChunks,
    AnswerFirst,
    Fields,
    KeepAlive,
    CutByClient,
    CutByServer,
}

/// The behaviours of a connection that is to be a wire.
const TUNNEL: &[Behaviour] = &[
    Behaviour::ToServer,
    Behaviour::ToClient,
    Behaviour::BothWays,
    Behaviour::SmallWrites,
    Behaviour::Turns,
    Behaviour::ServerFirst,
    Behaviour::EarlyData,
    Behaviour::Several,
    Behaviour::LastBytes,
    Behaviour::HalfCloseClient,
    Behaviour::HalfCloseServer,
    Behaviour::HalfCloseBoth,
    Behaviour::HalfCloseAtOnceClient,
    Behaviour::HalfCloseAtOnceServer,
    Behaviour::HalfCloseUnderLoad,
    Behaviour::LateEnd,
    Behaviour::ResetByClient,
    Behaviour::ResetByServer,
    Behaviour::ResetWhenIdle,
    Behaviour::ResetAtOnceClient,
    Behaviour::ResetAtOnceServer,
    Behaviour::ResetAfterHalfClose,
    Behaviour::SlowClient,
    Behaviour::SlowServer,
    Behaviour::StalledClient,
    Behaviour::StalledServer,
    Behaviour::Refused,
    Behaviour::Urgent,
    Behaviour::Churn,
    Behaviour::Long,
];

/// The behaviours of messages of HTTP.
const MESSAGES: &[Behaviour] = &[
    Behaviour::Get,
    Behaviour::Head,
    Behaviour::Post,
    Behaviour::SmallChunks,
    Behaviour::AnswerFirst,
    Behaviour::Fields,
    Behaviour::KeepAlive,
    Behaviour::CutByClient,
    Behaviour::CutByServer,
    Behaviour::Several,
    Behaviour::LastBytes,
    Behaviour::SlowClient,
    Behaviour::SlowServer,
    Behaviour::StalledClient,
    Behaviour::StalledServer,
    Behaviour::Refused,
];

/// The behaviours of a proxy that wants a PROXY header first.
const INTRODUCTIONS: &[Behaviour] = &[Behaviour::HeaderInPieces, Behaviour::WrongHeader];

impl Behaviour {
    /// The behaviours that are tested at this entrance. The one of a schedule is its seed modulo their number.
    pub fn suite(entrance: &Entrance) -> Vec<Behaviour> {
        let mut suite = if entrance.way == WayIn::Absolute { MESSAGES.to_vec() } else { TUNNEL.to_vec() };
        if entrance.introduces.is_some() {
            suite.extend(INTRODUCTIONS);
        }
        suite
    }

    /// The behaviour of `suite` that the schedule of this seed tests.
    pub(crate) fn of_seed(seed: u64, suite: &[Behaviour]) -> Behaviour {
        suite[(seed % suite.len() as u64) as usize]
    }

    /// The seeds of `count` schedules, `first` or later, that test one of the behaviours `wanted`; of all, if it is empty.
    pub fn seeds(suite: &[Behaviour], wanted: &[Behaviour], first: u64, count: u64) -> Vec<u64> {
        let is_wanted = |seed: &u64| wanted.is_empty() || wanted.contains(&Behaviour::of_seed(*seed, suite));
        (first..).filter(is_wanted).take(count as usize).collect()
    }

    /// Every behaviour of any suite.
    pub fn all() -> Vec<Behaviour> {
        let mut all = [TUNNEL, MESSAGES, INTRODUCTIONS].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The name of this behaviour, as a matrix and a command line show it.
    pub fn name(self) -> &'static str {
        self.name_and_rule().0
    }

    /// The rule that a proxy must keep, in a line.
    pub fn rule(self) -> &'static str {
        self.name_and_rule().1
    }

    fn name_and_rule(self) -> (&'static str, &'static str) {
        match self {
            Behaviour::ToServer => ("to-server", "the client's bytes reach the server, in writes of any size"),
            Behaviour::ToClient => ("to-client", "the server's bytes reach the client, in writes of any size"),
            Behaviour::BothWays => ("both-ways", "both ends write at the same time"),
            Behaviour::SmallWrites => ("small-writes", "hundreds of writes of 1 to 4 bytes, both ways"),
            Behaviour::Turns => ("turns", "question and answer in turns, without waiting for more"),
            Behaviour::ServerFirst => ("server-first", "a server that speaks first is heard"),
            Behaviour::EarlyData => {
                ("early-data", "bytes sent along with the request to the proxy go on to the server")
            }
            Behaviour::Several => ("several", "several connections at once keep their bytes apart"),
            Behaviour::LastBytes => ("last-bytes", "the last bytes before a close arrive, also at a slow reader"),
            Behaviour::HalfCloseClient => {
                ("half-close-client", "the client ends its direction; the server answers after that")
            }
            Behaviour::HalfCloseServer => {
                ("half-close-server", "the server ends its direction; the client writes after that")
            }
            Behaviour::HalfCloseBoth => ("half-close-both", "both end their directions at about the same time"),
            Behaviour::HalfCloseAtOnceClient => {
                ("half-close-at-once-client", "the client ends its direction before it has sent anything")
            }
            Behaviour::HalfCloseAtOnceServer => {
                ("half-close-at-once-server", "the server ends its direction before it has sent anything")
            }
            Behaviour::HalfCloseUnderLoad => ("half-close-under-load", "one direction ends while the other is full"),
            Behaviour::LateEnd => ("late-end", "one direction ends up to two seconds after the other"),
            Behaviour::ResetByClient => {
                ("reset-by-client", "a reset by the client in mid-transfer reaches the server as a reset")
            }
            Behaviour::ResetByServer => {
                ("reset-by-server", "a reset by the server in mid-transfer reaches the client as a reset")
            }
            Behaviour::ResetWhenIdle => ("reset-when-idle", "a reset of an idle connection is passed on as a reset"),
            Behaviour::ResetAtOnceClient => {
                ("reset-at-once-client", "a client that connects and resets leaves no clean connection behind")
            }
            Behaviour::ResetAtOnceServer => {
                ("reset-at-once-server", "a server that accepts and resets is a reset for the client")
            }
            Behaviour::ResetAfterHalfClose => {
                ("reset-after-half-close", "a reset after one direction has ended is passed on as a reset")
            }
            Behaviour::SlowClient => ("slow-client", "a slow client gets everything"),
            Behaviour::SlowServer => ("slow-server", "a slow server gets everything"),
            Behaviour::StalledClient => {
                ("stalled-client", "a client that stops reading holds back the server and nothing else")
            }
            Behaviour::StalledServer => {
                ("stalled-server", "a server that stops reading holds back the client and nothing else")
            }
            Behaviour::Refused => ("refused", "a server that refuses is a refusal for the client"),
            Behaviour::Urgent => ("urgent", "an urgent byte (RFC 6093) arrives in its place in the stream"),
            Behaviour::Churn => ("churn", "short connections come and go by the dozen"),
            Behaviour::Long => ("long", "a transfer of 20 MB and more arrives, once in a while of 1 GB"),
            Behaviour::HeaderInPieces => ("header-in-pieces", "a PROXY header is read also if it comes in pieces"),
            Behaviour::WrongHeader => ("wrong-header", "who begins with no valid PROXY header gets no connection"),
            Behaviour::Get => ("get", "an answer arrives whole, however it tells where it ends"),
            Behaviour::Head => ("head", "an answer to HEAD has no body, though it states the length of one"),
            Behaviour::Post => ("post", "a body reaches the server whole, and the answer to it the client"),
            Behaviour::SmallChunks => ("small-chunks", "bodies in hundreds of chunks of 1 to 4 bytes, both ways"),
            Behaviour::AnswerFirst => ("answer-first", "an answer may begin before its request has ended"),
            Behaviour::Fields => ("fields", "fields arrive as they are, without those for the proxy alone"),
            Behaviour::KeepAlive => ("keep-alive", "a connection serves the next request unless its answer said close"),
            Behaviour::CutByClient => {
                ("cut-by-client", "a client that resets in mid-transfer leaves no whole request behind")
            }
            Behaviour::CutByServer => ("cut-by-server", "an answer that a reset cut off does not look whole"),
        }
    }

    /// True if this entrance lets the behaviour be seen.
    pub(crate) fn applies_to(self, entrance: &Entrance) -> bool {
        match self {
            // Where the client says nothing to the proxy, nothing goes along with that.
            Behaviour::EarlyData => {
                matches!(entrance.way, WayIn::Http | WayIn::Socks5) || entrance.introduces.is_some()
            }
            // Where the proxy chooses the server, the client cannot name one that refuses.
            Behaviour::Refused => entrance.way != WayIn::Forward,
            _ => true,
        }
    }

    /// The time to wait at the server for a connection that need not arrive: one whose client resets, where the client
    /// is connected before the proxy has connected on. None if it must arrive.
    pub(crate) fn may_never_arrive(self, way: WayIn) -> Option<Duration> {
        match self {
            _ if matches!(way, WayIn::Http | WayIn::Socks5) => None,
            Behaviour::ResetAtOnceClient => Some(Duration::from_millis(100)),
            Behaviour::ResetByClient | Behaviour::CutByClient => Some(Duration::from_secs(2)),
            _ => None,
        }
    }

    /// True if the behaviour can pass, at some entrance, though no connection ever got through the proxy.
    pub(crate) fn passes_without_connection(self) -> bool {
        use Behaviour::{CutByClient, Refused, ResetAtOnceClient, ResetByClient, WrongHeader};
        matches!(self, Refused | WrongHeader | ResetAtOnceClient | ResetByClient | CutByClient)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_behaviour_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Behaviour::all().iter().map(|behaviour| behaviour.name()).collect();
        assert_eq!(names.len(), Behaviour::all().len());
    }
}
