//! What a proxy is held to, a row of the matrix each.

use super::way::Way;

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
}

impl Behaviour {
    pub(super) const ALL: &[Behaviour] = &[
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
        }
    }

    /// Whether the way in lets it be seen.
    pub(super) fn applies_to(self, way: Way) -> bool {
        match self {
            // Without a request to the proxy nothing goes along with one.
            Behaviour::EarlyData => matches!(way, Way::Http | Way::Socks5),
            // Where the proxy chooses the server, the client cannot name one that refuses.
            Behaviour::Refused => way != Way::Forward,
            _ => true,
        }
    }

    /// A client that resets as soon as it is connected may do so before the proxy has connected on.
    pub(super) fn may_never_arrive(self, way: Way) -> bool {
        self == Behaviour::ResetAtOnceClient && matches!(way, Way::Forward | Way::Transparent)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_behaviour_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Behaviour::ALL.iter().map(|behaviour| behaviour.name()).collect();
        assert_eq!(names.len(), Behaviour::ALL.len());
    }
}
