//! A host: connections, the applications at their ends, and one port per link.

mod again;
mod end;
mod gated;
mod media;
mod stream;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::rc::Rc;

use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Endpoint, Packet};
use headend_engine::tcp::connection::Output;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Time;

use crate::trace::Event;
use headend_scenario::results::trace::What;
use headend_scenario::topology::FIRST_PORT;

pub(crate) use again::{Again, Past};
pub(crate) use end::{Closing, End, Setup};
pub(crate) use gated::Gated;
pub(crate) use media::Stream as MediaStream;
pub(crate) use media::{Answers, Carriage, Encoder, Ledger, Media, Role, Sink as MediaSink, Source as MediaSource};
pub(crate) use stream::{Sink, Source, Stream};

/// The invariant on which ports rely: the reader of a scenario counts what needs one.
pub(crate) const PORTS: &str = "a scenario has no more connections and streams at a node than that has ports";

/// Runs connections and their applications. Fields are in the order of use (`repr(C)`), as those of `End` are.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Host {
    /// Ends of flows by port number, from `FIRST_PORT`.
    ends: Vec<End>,
    /// The first of the alarms; `Time::MAX` if there is none.
    next_alarm: Time,
    /// Ends to be polled now, in the order in which something happened to them.
    touched: VecDeque<u32>,
    next_id: u64,
    node: u16,
    log: Option<Vec<Event>>,
    personality: Personality,
    /// Times to look at an end again; never later than the end wants, and often earlier, because most timers are put
    /// off before they expire.
    alarms: BinaryHeap<Reverse<(Time, u32)>>,
    /// Ends in the whole world that are still under way.
    live: Rc<Cell<usize>>,
    /// Streams of datagrams and frames by port number, and when the first of them acts; `Time::MAX` if none does.
    streams: Vec<Stream>,
    next_datagram: Time,
    /// The end that each control TCP belongs to and its number there, by port number from the last one down.
    controls: Vec<(u32, usize)>,
    /// Datagrams that a medium has repeated, of which one has come: whoever gets datagrams knows them by number.
    repeated: BTreeSet<(u16, u64)>,
}

impl Host {
    /// A host without connections, and room for `ends` of them: number `node` of its network. `live` counts the ends in
    /// the world that are under way; `log` asks for a record of all packets.
    pub(crate) fn new(node: u16, personality: Personality, ends: usize, live: Rc<Cell<usize>>, log: bool) -> Host {
        Host {
            node,
            personality,
            ends: Vec::with_capacity(ends),
            alarms: BinaryHeap::new(),
            next_alarm: Time::MAX,
            touched: VecDeque::new(),
            next_id: 0,
            live,
            log: log.then(Vec::new),
            streams: Vec::new(),
            next_datagram: Time::MAX,
            controls: Vec::new(),
            repeated: BTreeSet::new(),
        }
    }

    /// The address that the next stream to be added will have.
    pub(crate) fn next_stream(&self) -> Endpoint {
        assert!(self.streams.len() < usize::from(FIRST_PORT), "{PORTS}");
        Endpoint { node: self.node, port: self.streams.len() as u16 }
    }

    /// Adds one end of a stream of datagrams or frames. One that sends has no end.
    pub(crate) fn add_stream(&mut self, stream: Stream) {
        if stream.is_source() {
            self.live.set(self.live.get() + 1);
        }
        self.next_datagram = self.next_datagram.min(stream.next());
        self.streams.push(stream);
    }

    /// The end of a stream at this address, if one is there.
    pub(crate) fn stream(&self, at: Endpoint) -> Option<&Stream> {
        self.streams.get(usize::from(at.port))
    }

    /// Lets the stream send whose turn it is; `None` if it has nothing to send after all.
    #[cold]
    fn poll_stream(&mut self, now: Time) -> Option<Step> {
        let due = self.next_datagram;
        let mut sent = None;
        let mut is_found = false;
        self.next_datagram = Time::MAX;
        for (port, stream) in self.streams.iter_mut().enumerate() {
            if !is_found && stream.next() == due {
                is_found = true;
                sent = match stream {
                    Stream::Source(source) => {
                        let src = Endpoint { node: self.node, port: port as u16 };
                        self.next_id += 1;
                        Some((source.out, source.send(self.next_id - 1, src)))
                    }
                    Stream::Media(media) => media.poll(now, &mut self.next_id).map(|packet| (media.out, packet)),
                    Stream::Sink(_) => unreachable!("who only receives has nothing to do"),
                };
            }
            self.next_datagram = self.next_datagram.min(stream.next());
        }
        let (out, packet) = sent?;
        if let Some(log) = &mut self.log {
            log.push(Event { time: now, what: What::Sent, packet });
        }
        Some(Step::Send(out, packet))
    }

    /// Gives a packet that arrived to its stream.
    #[cold]
    fn receive_for_stream(&mut self, now: Time, packet: &Packet) {
        if packet.is_one_of_two() && !self.repeated.insert((packet.src.node, packet.number())) {
            return;
        }
        match self.streams.get_mut(usize::from(packet.dst.port)) {
            Some(Stream::Sink(sink)) => {
                sink.packets += 1;
                sink.bytes += packet.len();
            }
            Some(Stream::Media(media)) => {
                media.receive(now, packet);
                self.next_datagram = self.next_datagram.min(media.wake);
            }
            Some(Stream::Source(_)) | None => {}
        }
    }

    /// The options of every connection here.
    pub(crate) fn personality(&self) -> &Personality {
        &self.personality
    }

    /// The address that the next end to be added will have, if it brings this many control TCPs.
    pub(crate) fn next_endpoint(&self, controls: usize) -> Endpoint {
        let from_above = self.controls.len() + controls;
        let port = u16::try_from(usize::from(FIRST_PORT) + self.ends.len() + from_above).expect(PORTS);
        Endpoint { node: self.node, port: port - from_above as u16 }
    }

    /// Adds one end of a flow.
    pub(crate) fn add(&mut self, setup: Setup) {
        let end = End::new(setup);
        let index = self.ends.len();
        if let Some(gated) = end.gated() {
            self.add_controls(index, gated);
        }
        self.live.set(self.live.get() + 1);
        self.ends.push(end);
        self.touch(index);
    }

    /// The end at this address.
    pub(crate) fn end(&self, at: Endpoint) -> &End {
        &self.ends[usize::from(at.port - FIRST_PORT)]
    }

    /// The record of what happened to packets here.
    pub(crate) fn log(&self) -> &[Event] {
        self.log.as_deref().unwrap_or_default()
    }

    /// Takes out the first alarm, which rings, and returns the end that set it.
    fn ring(&mut self) -> usize {
        let Some(Reverse((alarm, index))) = self.alarms.pop() else { unreachable!("the first alarm is one of them") };
        self.next_alarm = self.alarms.peek().map_or(Time::MAX, |&Reverse((alarm, _))| alarm);
        self.ends[index as usize].ring(alarm);
        index as usize
    }

    /// Lets the end at `index` wait until `wake`, or for a packet.
    #[inline]
    fn rest(&mut self, now: Time, index: usize, wake: Time) {
        let end = &mut self.ends[index];
        let mut wake = wake;
        if end.has_just_ended(now) {
            match end.begins_again(now) {
                Some(start) => wake = start,
                None => self.live.set(self.live.get() - 1),
            }
        }
        if end.set_alarm(wake) {
            self.alarms.push(Reverse((wake, index as u32)));
            self.next_alarm = self.next_alarm.min(wake);
        }
        end.is_touched = false;
    }

    fn touch(&mut self, index: usize) {
        let end = &mut self.ends[index];
        if !end.is_touched {
            end.is_touched = true;
            self.touched.push_back(index as u32);
        }
    }
}

impl Node for Host {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        debug_assert_eq!(packet.dst.node, self.node, "routes lead packets to their destination");
        if let Some(log) = &mut self.log {
            log.push(Event { time: now, what: What::Received, packet: *packet });
        }
        if packet.is_corrupted() {
            // Its checksum is wrong.
            return;
        }
        let segment = match &packet.body {
            Body::Tcp(segment) if packet.dst.port >= FIRST_PORT => segment,
            _ => return self.receive_for_stream(now, packet),
        };
        let index = usize::from(packet.dst.port - FIRST_PORT);
        let Some(end) = self.ends.get_mut(index) else { return self.receive_control(now, packet) };
        end.receive(now, segment, packet.len(), packet.ecn);
        match end.quiet_until(now) {
            Some(wake) if !end.is_touched => self.rest(now, index, wake),
            _ => self.touch(index),
        }
    }

    fn quiet_until(&self, now: Time) -> Option<Time> {
        let wake = self.next_alarm.min(self.next_datagram);
        (self.touched.is_empty() && wake > now).then_some(wake)
    }

    fn poll(&mut self, now: Time) -> Step {
        loop {
            let index = match self.touched.front() {
                Some(&index) => index as usize,
                None if self.next_datagram <= now => match self.poll_stream(now) {
                    Some(step) => return step,
                    None => continue,
                },
                None if self.next_alarm > now => {
                    let wake = self.next_alarm.min(self.next_datagram);
                    return Step::Wait((wake != Time::MAX).then_some(wake));
                }
                None => {
                    let index = self.ring();
                    self.touch(index);
                    index
                }
            };
            if self.ends[index].gated().is_some() {
                match self.poll_gated(now, index) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            let end = &mut self.ends[index];
            match end.poll(now) {
                Output::Send(segment) => {
                    let id = self.next_id;
                    self.next_id += 1;
                    let src = Endpoint { node: self.node, port: index as u16 + FIRST_PORT };
                    let dst = end.peer();
                    let out = end.out();
                    let (len, ecn) = (self.personality.wire_len(&segment), end.connection().departing_ecn());
                    let packet = Packet { id, src, dst, len, class: Class::default(), ecn, body: Body::Tcp(segment) };
                    if let Some(log) = &mut self.log {
                        log.push(Event { time: now, what: What::Sent, packet });
                    }
                    if let Some(wake) = end.quiet_until(now) {
                        self.touched.pop_front();
                        self.rest(now, index, wake);
                    }
                    return Step::Send(out, packet);
                }
                Output::Wait(wake) => {
                    self.touched.pop_front();
                    self.rest(now, index, wake.unwrap_or(Time::MAX));
                }
            }
        }
    }
}
