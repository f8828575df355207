//! What a proxy is held to, a row of the matrix each.

use std::time::Duration;

use super::way::{Entrance, Way};

/// What a schedule is about. Which one a schedule has follows from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Behaviour {
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

/// Where a connection is to be a wire.
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
];

/// Where what goes across are messages of HTTP.
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

/// Where a PROXY header comes first.
const INTRODUCTIONS: &[Behaviour] = &[Behaviour::HeaderInPieces, Behaviour::WrongHeader];

impl Behaviour {
    /// What is tested where clients come in so. Which one a schedule is about is its seed modulo their number.
    pub(super) fn suite(entrance: &Entrance) -> Vec<Behaviour> {
        let mut suite = if entrance.way == Way::Absolute { MESSAGES.to_vec() } else { TUNNEL.to_vec() };
        if entrance.introduces.is_some() {
            suite.extend(INTRODUCTIONS);
        }
        suite
    }

    /// All of any suite.
    pub(super) fn all() -> Vec<Behaviour> {
        let mut all = [TUNNEL, MESSAGES, INTRODUCTIONS].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Its name in the matrix and in `--behaviour`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Behaviour::ToServer => "to-server",
            Behaviour::ToClient => "to-client",
            Behaviour::BothWays => "both-ways",
            Behaviour::SmallWrites => "small-writes",
            Behaviour::Turns => "turns",
            Behaviour::ServerFirst => "server-first",
            Behaviour::EarlyData => "early-data",
            Behaviour::Several => "several",
            Behaviour::LastBytes => "last-bytes",
            Behaviour::HalfCloseClient => "half-close-client",
            Behaviour::HalfCloseServer => "half-close-server",
            Behaviour::HalfCloseBoth => "half-close-both",
            Behaviour::HalfCloseAtOnceClient => "half-close-at-once-client",
            Behaviour::HalfCloseAtOnceServer => "half-close-at-once-server",
            Behaviour::HalfCloseUnderLoad => "half-close-under-load",
            Behaviour::LateEnd => "late-end",
            Behaviour::ResetByClient => "reset-by-client",
            Behaviour::ResetByServer => "reset-by-server",
            Behaviour::ResetWhenIdle => "reset-when-idle",
            Behaviour::ResetAtOnceClient => "reset-at-once-client",
            Behaviour::ResetAtOnceServer => "reset-at-once-server",
            Behaviour::ResetAfterHalfClose => "reset-after-half-close",
            Behaviour::SlowClient => "slow-client",
            Behaviour::SlowServer => "slow-server",
            Behaviour::StalledClient => "stalled-client",
            Behaviour::StalledServer => "stalled-server",
            Behaviour::Refused => "refused",
            Behaviour::HeaderInPieces => "header-in-pieces",
            Behaviour::WrongHeader => "wrong-header",
            Behaviour::Get => "get",
            Behaviour::Head => "head",
            Behaviour::Post => "post",
            Behaviour::SmallChunks => "small-chunks",
            Behaviour::AnswerFirst => "answer-first",
            Behaviour::Fields => "fields",
            Behaviour::KeepAlive => "keep-alive",
            Behaviour::CutByClient => "cut-by-client",
            Behaviour::CutByServer => "cut-by-server",
        }
    }

    /// What is right, in a line.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Behaviour::ToServer => "the client's bytes reach the server, in writes of any size",
            Behaviour::ToClient => "the server's bytes reach the client, in writes of any size",
            Behaviour::BothWays => "both ends write at the same time",
            Behaviour::SmallWrites => "hundreds of writes of 1 to 4 bytes, both ways",
            Behaviour::Turns => "question and answer in turns, without waiting for more",
            Behaviour::ServerFirst => "a server that speaks first is heard",
            Behaviour::EarlyData => "bytes sent along with the request to the proxy go on to the server",
            Behaviour::Several => "several connections at once keep their bytes apart",
            Behaviour::LastBytes => "the last bytes before a close arrive, also at a slow reader",
            Behaviour::HalfCloseClient => "the client ends its direction; the server answers after that",
            Behaviour::HalfCloseServer => "the server ends its direction; the client writes after that",
            Behaviour::HalfCloseBoth => "both end their directions at about the same time",
            Behaviour::HalfCloseAtOnceClient => "the client ends its direction before it has sent anything",
            Behaviour::HalfCloseAtOnceServer => "the server ends its direction before it has sent anything",
            Behaviour::HalfCloseUnderLoad => "one direction ends while the other is full",
            Behaviour::LateEnd => "one direction ends up to two seconds after the other",
            Behaviour::ResetByClient => "a reset by the client in mid-transfer reaches the server as a reset",
            Behaviour::ResetByServer => "a reset by the server in mid-transfer reaches the client as a reset",
            Behaviour::ResetWhenIdle => "a reset of an idle connection is passed on as a reset",
            Behaviour::ResetAtOnceClient => "a client that connects and resets leaves no clean connection behind",
            Behaviour::ResetAtOnceServer => "a server that accepts and resets is a reset for the client",
            Behaviour::ResetAfterHalfClose => "a reset after one direction has ended is passed on as a reset",
            Behaviour::SlowClient => "a slow client gets everything",
            Behaviour::SlowServer => "a slow server gets everything",
            Behaviour::StalledClient => "a client that stops reading holds back the server and nothing else",
            Behaviour::StalledServer => "a server that stops reading holds back the client and nothing else",
            Behaviour::Refused => "a server that refuses is a refusal for the client",
            Behaviour::HeaderInPieces => "a PROXY header is read also if it comes in pieces",
            Behaviour::WrongHeader => "who begins with no valid PROXY header gets no connection",
            Behaviour::Get => "an answer arrives whole, however it tells where it ends",
            Behaviour::Head => "an answer to HEAD has no body, though it states the length of one",
            Behaviour::Post => "a body reaches the server whole, and the answer to it the client",
            Behaviour::SmallChunks => "bodies in hundreds of chunks of 1 to 4 bytes, both ways",
            Behaviour::AnswerFirst => "an answer may begin before its request has ended",
            Behaviour::Fields => "fields arrive as they are, without those for the proxy alone",
            Behaviour::KeepAlive => "a connection serves the next request unless its answer said close",
            Behaviour::CutByClient => "a client that resets in mid-transfer leaves no whole request behind",
            Behaviour::CutByServer => "an answer that a reset cut off does not look whole",
        }
    }

    /// Whether the way in lets it be seen.
    pub(super) fn applies_to(self, entrance: &Entrance) -> bool {
        match self {
            // Where the client says nothing to the proxy, nothing goes along with that.
            Behaviour::EarlyData => matches!(entrance.way, Way::Http | Way::Socks5) || entrance.introduces.is_some(),
            // Where the proxy chooses the server, the client cannot name one that refuses.
            Behaviour::Refused => entrance.way != Way::Forward,
            _ => true,
        }
    }

    /// Where the client is connected before the proxy has connected on, one that resets may have done so by then: how long
    /// to wait for its connection at the server.
    pub(super) fn may_never_arrive(self, way: Way) -> Option<Duration> {
        match self {
            _ if matches!(way, Way::Http | Way::Socks5) => None,
            Behaviour::ResetAtOnceClient => Some(Duration::from_millis(100)),
            Behaviour::ResetByClient | Behaviour::CutByClient => Some(Duration::from_secs(2)),
            _ => None,
        }
    }

    /// Whether it can pass, in some way in, though no connection ever got through the proxy.
    pub(super) fn passes_without_connection(self) -> bool {
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
