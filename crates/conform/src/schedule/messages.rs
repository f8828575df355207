//! Schedules of HTTP requests and their answers.

use super::{ConnectionPlan, Draw, Last, Script, Step};
use crate::behaviour::Behaviour;
use crate::message::{Dialogue, Framing};

impl Draw {
    pub(super) fn dialogues(&mut self, behaviour: Behaviour) -> Vec<ConnectionPlan> {
        match behaviour {
            Behaviour::Several => (0..self.between(3, 8)).map(|_| self.post(300_000)).collect(),
            Behaviour::KeepAlive => (0..self.between(2, 6))
                .map(|index| {
                    let mut next = if self.coin() { self.get(50_000) } else { self.post(50_000) };
                    // An answer that ends with its connection leaves none to go on with.
                    if let Some(dialogue) = next.dialogue.as_mut().filter(|d| d.answer == Framing::UntilClose) {
                        dialogue.answer = Framing::Chunked;
                    }
                    next.follows = index > 0;
                    next
                })
                .collect(),
            Behaviour::StalledClient | Behaviour::StalledServer => {
                let beside = ConnectionPlan { waits: true, ..self.post(300_000) };
                vec![self.stalled_message(behaviour == Behaviour::StalledClient), beside]
            }
            _ => vec![self.dialogue(behaviour)],
        }
    }

    fn dialogue(&mut self, behaviour: Behaviour) -> ConnectionPlan {
        match behaviour {
            Behaviour::Get => self.get(2_000_000),
            Behaviour::Head => {
                let length = self.size(2_000_000) as u64;
                let (client, server) = (self.asks(Vec::new()), self.answers(Vec::new()));
                self.talk("HEAD", client, server, Framing::Empty, Framing::Stated(length))
            }
            Behaviour::SmallChunks => {
                let ((up, _), (down, _)) = (self.small_writes(), self.small_writes());
                let (client, server) = (self.asks(up), self.answers(down));
                self.talk("POST", client, server, Framing::Chunked, Framing::Chunked)
            }
            Behaviour::AnswerFirst => {
                let ((up, _), (down, _)) = (self.writes(300_000, 10), self.writes(300_000, 10));
                let (request, answer) = (self.framing(&up, false), self.framing(&down, true));
                let mut steps = vec![Step::Head];
                steps.extend(down);
                // Closing with something of the request unread would reset the connection.
                steps.extend([Step::UntilEnd, Step::HalfClose]);
                let (client, server) = (self.asks(up), self.script(steps, Last::Close));
                self.talk("POST", client, server, request, answer)
            }
            Behaviour::Fields => {
                let mut connection = if self.coin() { self.get(2_000) } else { self.post(2_000) };
                if let Some(dialogue) = &mut connection.dialogue {
                    (dialogue.fields, dialogue.has_hop) = (self.between(1, 20) as usize, true);
                }
                connection
            }
            Behaviour::CutByClient => self.cut_by_client(),
            Behaviour::CutByServer => self.cut_by_server(),
            Behaviour::LastBytes => {
                let answer = vec![Step::Write(self.size(1_000_000))];
                let mut connection = self.get_of(answer);
                if self.coin() {
                    connection.client.reading = self.slow(1_000_000);
                }
                connection
            }
            Behaviour::SlowClient => {
                let mut connection = self.get(1_000_000);
                connection.client.reading = self.slow(1_000_000);
                connection
            }
            Behaviour::SlowServer => {
                let mut connection = self.post(1_000_000);
                connection.server.reading = self.slow(1_000_000);
                connection
            }
            _ => self.post(1_000_000),
        }
    }

    fn get(&mut self, bytes: usize) -> ConnectionPlan {
        let answer = self.writes(bytes, 12).0;
        self.get_of(answer)
    }

    fn get_of(&mut self, body: Vec<Step>) -> ConnectionPlan {
        let answer = self.framing(&body, true);
        let (client, server) = (self.asks(Vec::new()), self.answers(body));
        self.talk("GET", client, server, Framing::Empty, answer)
    }

    fn post(&mut self, bytes: usize) -> ConnectionPlan {
        let ((up, _), (down, _)) = (self.writes(bytes, 12), self.writes(bytes, 12));
        let (request, answer) = (self.framing(&up, false), self.framing(&down, true));
        let method = if self.coin() { "POST" } else { "PUT" };
        let (client, server) = (self.asks(up), self.answers(down));
        self.talk(method, client, server, request, answer)
    }

    /// The client resets in the middle of its request, or of the answer.
    fn cut_by_client(&mut self) -> ConnectionPlan {
        if self.coin() {
            let (mut up, _) = self.writes(500_000, 10);
            let whole = self.framing(&up, false);
            let left = self.between(1, 1_000);
            let request = if let Framing::Length(length) = whole { Framing::Length(length + left) } else { whole };
            up.push(Step::Pause(self.millis(0, 30)));
            let mut steps = vec![Step::Head];
            steps.extend(up);
            let client = self.script(steps, Last::Reset);
            // What is not whole is not answered.
            let server = self.ends(vec![Step::UntilEnd]);
            self.talk("POST", client, server, request, Framing::Empty)
        } else {
            let mut client = self.asks(Vec::new());
            client.steps.push(Step::UntilBytes(self.size(300_000) as u64));
            client.last = Last::Reset;
            let server = self.ends(vec![Step::UntilEnd, Step::Head, Step::Pour]);
            let answer = if self.coin() { Framing::Chunked } else { Framing::UntilClose };
            self.talk("GET", client, server, Framing::Empty, answer)
        }
    }

    /// The server resets in the middle of its answer, or before it.
    fn cut_by_server(&mut self) -> ConnectionPlan {
        let (mut down, _) = self.writes(500_000, 10);
        let answer = match self.framing(&down, true) {
            Framing::Length(length) => Framing::Length(length + self.between(1, 1_000)),
            other => other,
        };
        let mut steps = vec![Step::UntilEnd];
        if self.between(0, 4) > 0 {
            steps.push(Step::Head);
            // What has gone is not called back by the reset.
            down.push(Step::Pause(self.millis(0, 30)));
            steps.extend(down);
        }
        let (client, server) = (self.asks(Vec::new()), self.script(steps, Last::Reset));
        self.talk("GET", client, server, Framing::Empty, answer)
    }

    /// One end stops reading in mid-message, and the other one writes until it is held back.
    fn stalled_message(&mut self, is_client: bool) -> ConnectionPlan {
        let flood = [Step::Head, Step::Flood, Step::OtherWayWorks, Step::UntilReleased, Step::HalfClose];
        let at = Some(self.size(100_000) as u64);
        if is_client {
            let mut client = self.asks(Vec::new());
            client.reading.stall_at = at;
            let server = self.script([&[Step::UntilEnd], flood.as_slice()].concat(), Last::Close);
            let answer = if self.coin() { Framing::Chunked } else { Framing::UntilClose };
            self.talk("GET", client, server, Framing::Empty, answer)
        } else {
            let body = self.writes(50_000, 4).0;
            let answer = self.framing(&body, true);
            let mut server = self.answers(body);
            server.reading.stall_at = at;
            let client = self.ends(flood.to_vec());
            self.talk("POST", client, server, Framing::Chunked, answer)
        }
    }

    /// Sends its request, the body with the head or after it.
    fn asks(&mut self, body: Vec<Step>) -> Script {
        let mut steps = vec![Step::Head];
        if self.coin() {
            steps.push(Step::Pause(self.millis(0, 5)));
        }
        steps.extend(body);
        steps.push(Step::HalfClose);
        self.ends(steps)
    }

    /// Answers once it has all of the request, and closes.
    fn answers(&mut self, body: Vec<Step>) -> Script {
        let mut steps = vec![Step::UntilEnd, Step::Head];
        steps.extend(body);
        steps.push(Step::HalfClose);
        self.script(steps, Last::Close)
    }

    /// One of the ways to tell where such a body ends.
    fn framing(&mut self, body: &[Step], is_answer: bool) -> Framing {
        let bytes = |step: &Step| if let Step::Write(bytes) = step { *bytes as u64 } else { 0 };
        match self.between(0, if is_answer { 2 } else { 1 }) {
            0 => Framing::Length(body.iter().map(bytes).sum()),
            1 => Framing::Chunked,
            _ => Framing::UntilClose,
        }
    }

    fn talk(
        &mut self,
        method: &'static str,
        client: Script,
        server: Script,
        request: Framing,
        answer: Framing,
    ) -> ConnectionPlan {
        let fields = self.between(0, 3) as usize;
        let dialogue = Some(Dialogue { method, request, answer, fields, has_hop: false });
        ConnectionPlan { dialogue, ..ConnectionPlan::new(client, server) }
    }
}
