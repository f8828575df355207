//! A schedule: what both ends of its connections do, drawn from a seed and from nothing else.

use std::time::Duration;

use headend_engine::rng::Rng;

use super::behaviour::Behaviour;
use super::message::Dialogue;

mod messages;

/// The connections of one schedule.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) behaviour: Behaviour,
    pub(crate) connections: Vec<ConnectionPlan>,
}

/// The scripts of both ends of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPlan {
    pub(crate) client: Script,
    pub(crate) server: Script,
    /// Bytes that the client sends along with its request to the proxy.
    pub(crate) early: usize,
    /// The connection is made once the one before is held back.
    pub(crate) waits: bool,
    /// The request and its answer, in the way `absolute`.
    pub(crate) dialogue: Option<Dialogue>,
    /// The request goes over the connection of the one before, once that is answered, if the answer lets it.
    pub(crate) follows: bool,
}

/// The script of one end.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    pub(crate) last: Last,
    pub(crate) reading: Reading,
}

/// One step of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Begins its message: the head goes along with what is written next, or before the next pause.
    Head,
    /// Writes so many bytes.
    Write(usize),
    /// Writes one byte, and says that it is urgent (RFC 9293 s3.8.5, RFC 6093).
    Urgent,
    Pause(Duration),
    /// Ends its direction.
    HalfClose,
    /// Waits until the other end has ended its direction.
    UntilEnd,
    /// Waits until so many bytes have come.
    UntilBytes(u64),
    /// Writes until it is held back, or for as long as it is not.
    Flood,
    /// Writes until it learns that nobody takes it any more.
    Pour,
    /// Waits until the other end is held back.
    UntilHeld,
    /// Says that the direction beside the stalled one goes on.
    OtherWayWorks,
    /// Waits until the stalled reader reads again.
    UntilReleased,
}

/// The way in which an end leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// Closes once the other end has ended its direction.
    AfterEnd,
    /// Closes at once.
    Close,
    /// Resets.
    Reset,
}

/// The way in which an end reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The most bytes at a time.
    pub(crate) chunk: usize,
    /// The pause after each read.
    pub(crate) pause: Duration,
    /// Stops after so many bytes until it is released.
    pub(crate) stall_at: Option<u64>,
}

/// The longest transfer, and one in how many of those that are long is that long.
const LONGEST_BYTES: usize = 1_000_000_000;
const LONGEST_EVERY: u64 = 64;
/// The longest that a schedule pauses: shorter than anybody's patience.
const LATE_MS_MAX: u64 = 1_800;

impl Step {
    /// The bytes that it certainly writes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Step::Write(bytes) => *bytes as u64,
            Step::Urgent => 1,
            _ => 0,
        }
    }
}

impl Schedule {
    /// The schedule with this seed, of those about a behaviour of `suite`.
    pub(crate) fn new(seed: u64, suite: &[Behaviour], are_messages: bool) -> Schedule {
        let behaviour = Behaviour::of_seed(seed, suite);
        let mut draw = Draw(Rng::named(seed, "conform"));
        let connections = if are_messages { draw.dialogues(behaviour) } else { draw.connections(behaviour) };
        Schedule { seed, behaviour, connections }
    }
}

struct Draw(Rng);

impl Draw {
    fn connections(&mut self, behaviour: Behaviour) -> Vec<ConnectionPlan> {
        let stalled = |connection, draw: &mut Draw| {
            let mut beside = draw.conversation();
            beside.waits = true;
            vec![connection, beside]
        };
        match behaviour {
            Behaviour::Churn => (0..self.between(12, 40)).map(|_| self.brief()).collect(),
            Behaviour::Several => (0..self.between(3, 8)).map(|_| self.conversation()).collect(),
            Behaviour::StalledClient => {
                let (client, server) = self.stalled();
                stalled(ConnectionPlan::new(client, server), self)
            }
            Behaviour::StalledServer => {
                let (server, client) = self.stalled();
                stalled(ConnectionPlan::new(client, server), self)
            }
            _ => vec![self.connection(behaviour)],
        }
    }

    fn connection(&mut self, behaviour: Behaviour) -> ConnectionPlan {
        match behaviour {
            Behaviour::ToServer => {
                let (steps, bytes) = self.writes(2_000_000, 20);
                ConnectionPlan::new(self.ends(steps), self.answers_and_closes(bytes, Vec::new()))
            }
            Behaviour::ToClient | Behaviour::LastBytes => {
                let slow = behaviour == Behaviour::LastBytes && self.coin();
                let (request, asked) = self.writes(2_000, 2);
                let writes = match behaviour {
                    Behaviour::LastBytes => vec![Step::Write(self.size(1_000_000))],
                    _ => self.writes(2_000_000, 20).0,
                };
                let mut client = self.ends(request);
                if slow {
                    client.reading = self.slow(1_000_000);
                }
                ConnectionPlan::new(client, self.answers_and_closes(asked, writes))
            }
            Behaviour::BothWays
            | Behaviour::Several
            | Behaviour::StalledClient
            | Behaviour::StalledServer
            | Behaviour::HeaderInPieces => self.conversation(),
            Behaviour::SmallWrites => {
                let (up, bytes) = self.small_writes();
                let (down, _) = self.small_writes();
                let mut server = self.script(down, Last::Close);
                server.steps.push(Step::UntilBytes(bytes));
                ConnectionPlan::new(self.ends(up), server)
            }
            Behaviour::Turns | Behaviour::ServerFirst => self.turns(behaviour == Behaviour::ServerFirst),
            Behaviour::EarlyData => {
                let early = self.size(4_000);
                let (steps, bytes) = self.writes(50_000, 4);
                let answer = self.writes(50_000, 4).0;
                let server = self.answers_and_closes(early as u64 + bytes, answer);
                ConnectionPlan { early, ..ConnectionPlan::new(self.ends(steps), server) }
            }
            Behaviour::HalfCloseClient => {
                let (client, server) = self.half_close(500_000);
                ConnectionPlan::new(client, server)
            }
            Behaviour::HalfCloseServer => {
                let (server, client) = self.half_close(500_000);
                ConnectionPlan::new(client, server)
            }
            Behaviour::HalfCloseBoth => {
                let one = |draw: &mut Draw| {
                    let (mut steps, _) = draw.writes(500_000, 8);
                    steps.push(Step::HalfClose);
                    draw.ends(steps)
                };
                ConnectionPlan::new(one(self), one(self))
            }
            Behaviour::HalfCloseAtOnceClient => {
                let (client, server) = self.half_close(0);
                ConnectionPlan::new(client, server)
            }
            Behaviour::HalfCloseAtOnceServer => {
                let (server, client) = self.half_close(0);
                ConnectionPlan::new(client, server)
            }
            Behaviour::HalfCloseUnderLoad => {
                let (mut ending, _) = self.writes(20_000, 3);
                ending.push(Step::HalfClose);
                let (mut going_on, _) = self.writes(3_000_000, 40);
                going_on.push(Step::HalfClose);
                let (ending, going_on) = (self.ends(ending), self.ends(going_on));
                self.either_way(ending, going_on)
            }
            Behaviour::LateEnd => {
                let (mut ending, _) = self.writes(20_000, 3);
                ending.push(Step::HalfClose);
                let mut late = self.writes(20_000, 3).0;
                late.extend([Step::UntilEnd, Step::Pause(self.millis(300, LATE_MS_MAX))]);
                late.extend(self.writes(20_000, 3).0);
                late.extend([Step::Pause(self.millis(0, 200)), Step::HalfClose]);
                let (ending, late) = (self.ends(ending), self.ends(late));
                self.either_way(ending, late)
            }
            Behaviour::ResetByClient => {
                let (client, server) = self.reset();
                ConnectionPlan::new(client, server)
            }
            Behaviour::ResetByServer => {
                let (server, client) = self.reset();
                ConnectionPlan::new(client, server)
            }
            Behaviour::ResetWhenIdle => {
                let ((there, sent), (back, answered)) = (self.writes(20_000, 3), self.writes(20_000, 3));
                let mut resetting = self.script(there, Last::Reset);
                resetting.steps.extend([Step::UntilBytes(answered), Step::Pause(self.millis(0, 300))]);
                let mut other = self.ends(vec![Step::UntilBytes(sent)]);
                other.steps.extend(back);
                self.either_way(resetting, other)
            }
            Behaviour::ResetAtOnceClient => {
                ConnectionPlan::new(self.script(Vec::new(), Last::Reset), self.ends(Vec::new()))
            }
            Behaviour::ResetAtOnceServer => {
                ConnectionPlan::new(self.ends(Vec::new()), self.script(Vec::new(), Last::Reset))
            }
            Behaviour::ResetAfterHalfClose => {
                let (mut first, _) = self.writes(50_000, 4);
                first.push(Step::HalfClose);
                if self.coin() {
                    // The end that has ended its direction resets, while the other one writes.
                    first.push(Step::UntilBytes(self.size(200_000) as u64));
                    let resetting = self.script(first, Last::Reset);
                    let pouring = self.ends(vec![Step::UntilEnd, Step::Pour]);
                    self.either_way(resetting, pouring)
                } else {
                    let waiting = self.ends(first);
                    let mut steps = vec![Step::UntilEnd];
                    steps.extend(self.writes(200_000, 4).0);
                    let resetting = self.script(steps, Last::Reset);
                    self.either_way(waiting, resetting)
                }
            }
            Behaviour::SlowClient => {
                let (request, asked) = self.writes(2_000, 2);
                let mut client = self.ends(request);
                client.reading = self.slow(1_000_000);
                let answer = self.writes(1_000_000, 10).0;
                ConnectionPlan::new(client, self.answers_and_closes(asked, answer))
            }
            Behaviour::SlowServer => {
                let (steps, bytes) = self.writes(1_000_000, 10);
                let mut server = self.answers_and_closes(bytes, Vec::new());
                server.reading = self.slow(1_000_000);
                ConnectionPlan::new(self.ends(steps), server)
            }
            Behaviour::Urgent => self.urgent(),
            Behaviour::Long => self.long(),
            Behaviour::Refused | Behaviour::WrongHeader => {
                ConnectionPlan::new(self.ends(Vec::new()), self.ends(Vec::new()))
            }
            // They have messages.
            _ => unreachable!("{} is about messages", behaviour.name()),
        }
    }

    /// Both ends write; the server closes when it has everything.
    fn conversation(&mut self) -> ConnectionPlan {
        let (up, bytes) = self.writes(1_000_000, 12);
        let (down, _) = self.writes(1_000_000, 12);
        let mut server = self.script(down, Last::Close);
        server.steps.push(Step::UntilBytes(bytes));
        ConnectionPlan::new(self.ends(up), server)
    }

    /// A connection that is over soon, whichever way.
    fn brief(&mut self) -> ConnectionPlan {
        let (mut request, asked) = self.writes(2_000, 2);
        let answer = self.writes(20_000, 3).0;
        match self.between(0, 3) {
            0 => {
                request.push(Step::HalfClose);
                let mut second = vec![Step::UntilEnd];
                second.extend(answer);
                ConnectionPlan::new(self.ends(request), self.script(second, Last::Close))
            }
            1 => {
                let mut resetting = self.answers_and_closes(asked, answer);
                resetting.last = Last::Reset;
                ConnectionPlan::new(self.ends(request), resetting)
            }
            _ => ConnectionPlan::new(self.ends(request), self.answers_and_closes(asked, answer)),
        }
    }

    /// Urgent bytes between others, both ways, once both ends are there.
    fn urgent(&mut self) -> ConnectionPlan {
        let one = |draw: &mut Draw| {
            let (first, sent) = draw.writes(1_000, 1);
            let mut rest = Vec::new();
            for _ in 0..draw.between(1, 12) {
                rest.extend(draw.writes(100_000, 2).0);
                rest.push(Step::Urgent);
                if draw.coin() {
                    rest.push(Step::Pause(draw.millis(0, 20)));
                }
            }
            (first, sent, rest)
        };
        let (up, asked, more_up) = one(self);
        let (down, answered, more_down) = one(self);
        let script = |first: Vec<Step>, awaited: u64, rest: Vec<Step>| {
            [first, vec![Step::UntilBytes(awaited)], rest, vec![Step::HalfClose]].concat()
        };
        ConnectionPlan::new(self.ends(script(up, answered, more_up)), self.ends(script(down, asked, more_down)))
    }

    /// One end sends much while the other says a little.
    fn long(&mut self) -> ConnectionPlan {
        let bytes = match self.between(0, LONGEST_EVERY - 1) {
            0 => LONGEST_BYTES,
            _ => self.between(20_000_000, 60_000_000) as usize,
        };
        let mut steps = vec![Step::Write(bytes / 2)];
        if self.coin() {
            steps.push(Step::Pause(self.millis(0, 300)));
        }
        steps.extend([Step::Write(bytes - bytes / 2), Step::HalfClose]);
        let mut other = self.writes(20_000, 3).0;
        other.push(Step::HalfClose);
        let (long, other) = (self.ends(steps), self.ends(other));
        self.either_way(long, other)
    }

    /// Question and answer in turns.
    fn turns(&mut self, server_first: bool) -> ConnectionPlan {
        let (mut client, mut server) = (Vec::new(), Vec::new());
        let (mut up, mut down) = (0, 0);
        if server_first {
            let banner = self.size(500);
            server.push(Step::Write(banner));
            down += banner as u64;
            client.push(Step::UntilBytes(down));
        }
        for _ in 0..self.between(2, 12) {
            let (question, answer) = (self.size(5_000), self.size(50_000));
            up += question as u64;
            down += answer as u64;
            client.extend([Step::Write(question), Step::UntilBytes(down)]);
            server.extend([Step::UntilBytes(up), Step::Write(answer)]);
        }
        ConnectionPlan::new(self.ends(client), self.script(server, Last::Close))
    }

    /// One end ends its direction after at most `bytes`; the other one answers only then.
    fn half_close(&mut self, bytes: usize) -> (Script, Script) {
        let mut first = if bytes == 0 { Vec::new() } else { self.writes(bytes, 8).0 };
        first.push(Step::HalfClose);
        let mut second = vec![Step::UntilEnd];
        second.extend(self.writes(500_000, 8).0);
        (self.ends(first), self.script(second, Last::Close))
    }

    /// One end resets at some point while both write.
    fn reset(&mut self) -> (Script, Script) {
        let (mut steps, _) = self.writes(1_000_000, 10);
        steps.truncate(self.between(1, steps.len() as u64) as usize);
        if self.coin() {
            steps.push(Step::Pause(self.millis(0, 30)));
        }
        let writes = self.writes(1_000_000, 10).0;
        let mut other = self.ends(writes);
        if self.coin() {
            // It has not read everything that came before the reset.
            other.reading = self.slow(300_000);
        }
        (self.script(steps, Last::Reset), other)
    }

    /// An end that stops reading, and one that writes to it until it is held back. The other direction and another
    /// connection go on in the meantime; then all is read.
    fn stalled(&mut self) -> (Script, Script) {
        let (writes, bytes) = self.writes(200_000, 5);
        let mut steps = vec![Step::UntilHeld];
        steps.extend(writes);
        let mut reader = self.ends(steps);
        reader.reading.stall_at = Some(self.size(100_000) as u64);
        let writer = [Step::Flood, Step::UntilBytes(bytes), Step::OtherWayWorks, Step::UntilReleased];
        (reader, self.script(writer.to_vec(), Last::Close))
    }

    fn answers_and_closes(&mut self, after: u64, answer: Vec<Step>) -> Script {
        let mut steps = vec![Step::UntilBytes(after)];
        steps.extend(answer);
        self.script(steps, Last::Close)
    }

    fn ends(&mut self, steps: Vec<Step>) -> Script {
        self.script(steps, Last::AfterEnd)
    }

    fn script(&mut self, steps: Vec<Step>, last: Last) -> Script {
        let chunk = 1 << self.between(10, 18);
        Script { steps, last, reading: Reading { chunk, pause: Duration::ZERO, stall_at: None } }
    }

    fn either_way(&mut self, one: Script, other: Script) -> ConnectionPlan {
        if self.coin() { ConnectionPlan::new(one, other) } else { ConnectionPlan::new(other, one) }
    }

    /// Reads `bytes` in about half a second or less.
    fn slow(&mut self, bytes: usize) -> Reading {
        let reads = self.between(5, 100);
        let pause = Duration::from_micros(self.between(500, 500_000 / reads));
        Reading { chunk: bytes / reads as usize + 1, pause, stall_at: None }
    }

    /// Draws up to `count` writes of at most `bytes` together, with pauses between some, and says how many bytes they
    /// are.
    fn writes(&mut self, bytes: usize, count: u64) -> (Vec<Step>, u64) {
        let count = self.between(1, count);
        let largest = (bytes as u64 / count).max(1);
        let pauses = self.coin();
        let mut steps = Vec::new();
        let mut total = 0;
        for _ in 0..count {
            let size = self.size(largest as usize);
            total += size as u64;
            steps.push(Step::Write(size));
            if pauses && self.between(0, 3) == 0 {
                steps.push(Step::Pause(self.millis(0, 20)));
            }
        }
        (steps, total)
    }

    fn small_writes(&mut self) -> (Vec<Step>, u64) {
        let mut steps = Vec::new();
        let mut total = 0;
        for _ in 0..self.between(20, 300) {
            let size = self.between(1, 4);
            total += size;
            steps.push(Step::Write(size as usize));
        }
        (steps, total)
    }

    /// A size from 1 to `max`, small as often as large: uniform in the number of its bits.
    fn size(&mut self, max: usize) -> usize {
        let bits = u64::from(usize::BITS - max.leading_zeros());
        let top = 1_u64 << self.between(1, bits);
        (self.between(top / 2, top - 1) as usize).clamp(1, max)
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.between(from, to))
    }

    /// A uniform number from `from` to `to`, both included.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.below(to.saturating_sub(from) + 1)
    }

    fn coin(&mut self) -> bool {
        self.0.below(2) == 0
    }
}

impl ConnectionPlan {
    fn new(client: Script, server: Script) -> ConnectionPlan {
        ConnectionPlan { client, server, early: 0, waits: false, dialogue: None, follows: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entrance::{Entrance, WayIn};
    use crate::introduction::HeaderVersion;

    /// The plans of streams, and of messages.
    fn plans(seed: u64) -> [Schedule; 2] {
        [(WayIn::Forward, false), (WayIn::Absolute, true)].map(|(way, are_messages)| {
            let entrance = Entrance { way, proxy: None, user: None, introduces: Some(HeaderVersion::V1) };
            Schedule::new(seed, &Behaviour::suite(&entrance), are_messages)
        })
    }

    #[test]
    fn a_seed_is_a_schedule() {
        for seed in 0..200 {
            assert_eq!(format!("{:?}", plans(seed)), format!("{:?}", plans(seed)), "seed {seed}");
        }
    }

    #[test]
    fn consecutive_seeds_go_through_all_behaviours() {
        let suite = [Behaviour::ToServer, Behaviour::Turns, Behaviour::Refused];
        for (seed, behaviour) in (300..).zip(suite) {
            assert_eq!(Schedule::new(seed, &suite, false).behaviour, behaviour);
        }
    }

    #[test]
    fn nobody_waits_for_bytes_that_are_never_sent() {
        let connections = |seed| plans(seed).map(|plan| plan.connections).concat();
        for (seed, connection) in (0..2_000).flat_map(|seed| connections(seed).into_iter().map(move |c| (seed, c))) {
            let early = connection.early as u64;
            let ends = [(&connection.client, &connection.server, early), (&connection.server, &connection.client, 0)];
            for (writer, reader, early) in ends {
                let awaited = reader.steps.iter().filter_map(|step| match step {
                    Step::UntilBytes(bytes) => Some(*bytes),
                    _ => None,
                });
                let most = awaited.max().unwrap_or(0);
                let floods = writer.steps.iter().any(|step| matches!(step, Step::Flood | Step::Pour));
                let written = Step::bytes;
                let sent = early + writer.steps.iter().map(written).sum::<u64>();
                assert!(floods || most <= sent, "seed {seed}: {most} of {sent} bytes are awaited");
            }
        }
    }

    #[test]
    fn a_stated_length_is_the_body_s_unless_a_reset_cuts_it_off() {
        for seed in 0..2_000 {
            for connection in plans(seed).into_iter().flat_map(|plan| plan.connections) {
                let Some(dialogue) = connection.dialogue else { continue };
                for (script, framing) in [(&connection.client, dialogue.request), (&connection.server, dialogue.answer)]
                {
                    let written = Step::bytes;
                    let body = script.steps.iter().map(written).sum::<u64>();
                    match framing {
                        crate::message::Framing::Length(length) if script.last == Last::Reset => {
                            assert!(length > body, "seed {seed}");
                        }
                        crate::message::Framing::Length(length) => assert_eq!(length, body, "seed {seed}"),
                        _ => {}
                    }
                }
            }
        }
    }
}
