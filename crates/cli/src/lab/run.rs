//! One run of a lab: hosts, network and flows are set up, run against the clock, read out and taken down.

use std::fs;
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration as StdDuration;

use headend_engine::node::Port;
use headend_engine::rng::Rng;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;
use headend_host::reactor::{
    Addresses, Attachment, Destination, Devices, Lateness, Limits, Reactor, Report, Stop, Strain,
};
use headend_host::socket::Memory;
use headend_host::{Error, clock};
use headend_scenario::results::trace::RunTrace;
use headend_scenario::results::{FlowRow, RunOutcome};
use headend_scenario::{Circuit, Flow, FlowKind, Point, Scenario};
use headend_sim::network::Network;
use serde_json::Value;

use super::between::Between;
use super::circuits::{self, TrunkPlan};
use super::errand::{Errand, Told};
use super::program::{Program, ProgramFolder};
use super::proxy::{self, Relayed};
use super::sampler::{self, Series};
use super::site::{self, Site};
use super::socket::{self, SocketFlow};
use super::spans::Spans;
use super::stage::Stage;
use super::stream::Stream;
use super::traffic::{EndPlace, Transfer};
use super::trunk::{self, RunningTrunks};
use super::watch::{Arrivals, Beside, Crossing, Eyes, Seen, Watched};
use crate::failure::Failure;

/// The port at which the first flow instance's listening end listens; each next one's has the next. Below those that
/// Linux gives to connecting ends (net.ipv4.ip_local_port_range begins at 32768). After them come, in the same way, the
/// ports at which proxies listen.
const FIRST_PORT: u16 = 5_001;
/// The time between two looks at whether to stop.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(20);
/// The ends of flows are given so long to leave when they are told to.
const LEAVING_MAX: StdDuration = StdDuration::from_secs(5);

/// The yield of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: RunOutcome,
    pub(crate) trace: RunTrace,
    pub(crate) health: Health,
    /// The counts of proxies, by connection.
    pub(crate) relayed: Vec<Relayed>,
    /// The status that each circuit's trunk gave at the end, in the order of circuits.
    pub(crate) trunks: Vec<Value>,
    /// What the programs of each flow of programs did.
    pub(crate) programs: Vec<Told>,
}

/// The signs by which to tell whether the machine kept up with the model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Health {
    pub(crate) strain: Strain,
    /// Deliveries against the model's time.
    pub(crate) deliveries: Lateness,
    /// True if the reactor ran before ordinary threads.
    pub(crate) is_urgent: bool,
    /// True if TCP held so much memory meanwhile that the kernel keeps windows small.
    pub(crate) is_short_of_memory: bool,
    /// True if the flows went on for longer than a fiftieth of the run beyond its end, because whoever was to end them was not
    /// woken.
    pub(crate) is_overrun: bool,
}

impl Health {
    /// True if the results are the network's and not the machine's.
    pub(crate) fn kept_up(&self) -> bool {
        self.strain.is_none() && !self.is_short_of_memory && !self.is_overrun
    }
}

/// Runs run `run` of `point` in real time. `None` if `stop` was set meanwhile.
pub(super) fn run(
    point: &Point,
    run: u32,
    program: Option<Program>,
    stop: &AtomicBool,
) -> Result<Option<Ran>, Failure> {
    let scenario = &point.scenario;
    let seed = scenario.seed.wrapping_add(u64::from(run));
    let Instances { transfers, streams, errands, sockets } = instances(scenario, seed, program);
    let network = Network::outside_with_sites(scenario, run);
    // Dropped last, after everything that is inside.
    let (site, tuns) = Site::build(scenario, &network)?;
    let plans = proxy::plans(scenario, &network, &site, &transfers);
    let trunks = circuits::plans(
        scenario,
        &listening(scenario, &transfers, &streams, (&errands, &sockets)),
        site::mtu(scenario),
    );
    let folder = (!trunks.is_empty()).then(ProgramFolder::new).transpose();
    let folder = folder.map_err(|error| Failure::Failed(format!("a folder for trunks: {error}")))?;
    let outputs = (!errands.is_empty()).then(ProgramFolder::new).transpose();
    let outputs = outputs.map_err(|error| Failure::Failed(format!("a folder for programs' outputs: {error}")))?;
    let outputs = outputs.map(Arc::new);
    let _arriving = listen(&site, &streams)?;
    let attachments = attachments(&site, &network);
    let ports = attachments.len();
    let mut by_port: Vec<_> = attachments.iter().map(|_| None).collect();
    for (node, tun) in tuns.into_iter().enumerate() {
        if let Some(port) = network.port(node) {
            by_port[usize::from(port.0)] = tun;
        }
    }
    let halt = Stop::new()?;
    let devices = Devices::new(by_port, halt.clone());
    let programs: usize = errands.iter().map(|errand| errand.ends().count()).sum();
    let ends = 2 * (transfers.len() + sockets.len()) + streams.len() + programs;
    let stage = Stage::new(devices.clock(), ends);
    let watch = |transfer: &Transfer| {
        let enough = transfer.flow.bytes().filter(|_| program.is_some()).unwrap_or(Bytes::MAX);
        Watched::new(transfer.sender_listens(), enough)
    };
    // Then the connections of those that go through a proxy which reach it: the others are those that it makes.
    let split = transfers.iter().filter(|transfer| transfer.near_port.is_some());
    let watched: Vec<Watched> = transfers.iter().map(watch).chain(split.map(watch)).collect();
    let watched = Arc::new(Mutex::new(watched));
    let mtu = site.hosts().map(|(_, host)| host.settings.mtu).max().unwrap_or(1_500);
    let mut reactor = Reactor::new(network, attachments, Limits::new(mtu, scenario.shortest_delay()));
    let beside = Arc::new(Mutex::new(Beside {
        streams: vec![Arrivals::default(); streams.len()],
        crossings: crossings(scenario, reactor.node(), &trunks),
        programs: between(&errands, &sockets),
    }));
    let is_edge =
        |port| (0..scenario.nodes.len()).any(|node| scenario.is_edge(node) && reactor.node().port(node) == port);
    let are_edges = (0..ports).map(|port| is_edge(Some(Port(port as u16)))).collect();
    let first_stream = streams.first().map_or(u16::MAX, |stream| stream.port);
    let (watched_too, beside_too) = (watched.clone(), beside.clone());
    let eyes = Eyes {
        first_port: FIRST_PORT,
        watched: watched_too,
        first_stream,
        beside: beside_too,
        are_edges,
        has_others: !errands.is_empty() || !sockets.is_empty(),
    };
    reactor.tap(Box::new(eyes));
    let mut spans = Spans::new(scenario, (&transfers, &streams, &errands, &sockets), (watched.clone(), beside.clone()));

    let played = thread::scope(|scope| {
        let spans = &mut spans;
        let reactor = scope.spawn(move || drive(reactor, devices, spans));
        let ending = Ending { stage: &stage, transfers: &transfers, halt: &halt };
        let proxies = proxy::RunningProxies::start(scope, &plans, &site)?;
        let mut running = RunningTrunks::start(scope, &trunks, &site, folder.as_ref())?;
        for (index, transfer) in transfers.iter().enumerate() {
            for is_sender in [true, false] {
                let (site, stage, watched) = (&site, &stage, (watched.clone(), index));
                let end = thread::Builder::new();
                if let Err(error) = end.spawn_scoped(scope, move || act(transfer, is_sender, site, stage, watched)) {
                    stage.fail(format!("flows.{}, a thread for an end of it: {error}", transfer.flow.name));
                }
            }
        }
        for stream in &streams {
            let (site, stage) = (&site, &stage);
            let act = move || {
                let [from, to] = [stream.flow.from, stream.flow.to].map(|node| site.host(node));
                from.namespace.enter().expect("a namespace that was made can be entered");
                stream.play(from.address, to.address, stage);
            };
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, act) {
                stage.fail(format!("flows.{}, a thread for an end of it: {error}", stream.flow.name));
            }
        }
        for errand in &errands {
            for end in errand.ends() {
                let (site, stage, outputs) = (&site, &stage, outputs.as_ref().expect("there are programs"));
                let act = move || {
                    let addresses = errand.nodes().map(|node| site.host(node).address);
                    site.host(errand.nodes()[end]).namespace.enter().expect("a namespace that was made can be entered");
                    errand.play(end, addresses, outputs, stage);
                };
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, act) {
                    stage.fail(format!("flows.{}, a thread for an end of it: {error}", errand.flow.name));
                }
            }
        }
        for flow in &sockets {
            for end in [socket::SENDER, socket::RECEIVER] {
                let (site, stage) = (&site, &stage);
                let act = move || {
                    let addresses = flow.nodes().map(|node| site.host(node).address);
                    site.host(flow.nodes()[end]).namespace.enter().expect("a namespace that was made can be entered");
                    flow.play(end, addresses, stage);
                };
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, act) {
                    stage.fail(format!("flows.{}, a thread for an end of it: {error}", flow.flow.name));
                }
            }
        }
        let played = play(scenario, &stage, &transfers, stop, &|| reactor.is_finished(), &mut || running.look());
        // What happens while flows are torn down is no part of the run.
        let counted = beside.lock().expect("nobody panics while it counts").clone();
        let said = running.statuses();
        ending.leave();
        let relayed = proxies.end();
        let most = running.most();
        let ended = running.end();
        drop(ending);
        let driven = reactor.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))?;
        if let Some(why) = stage.failure() {
            return Err(Failure::Failed(why));
        }
        let relayed = relayed?;
        ended?;
        let said = said?;
        Ok::<_, Failure>(played.map(|played| (played, driven, relayed, (counted, said, most))))
    })?;
    let Some((played, (mut network, health), relayed, (beside, said, most))) = played else { return Ok(None) };
    let Played { begun, ended, delivered, series, is_short_of_memory } = played;
    let intervals = spans.rows(begun, ended);
    let is_overrun = ended > begun + scenario.duration + scenario.duration / 50;
    let health = Health { is_short_of_memory, is_overrun, ..health };
    let mut watched = std::mem::take(&mut *watched.lock().expect("the reactor has ended"));
    let mut near = watched.split_off(transfers.len()).into_iter();
    let mut trace = RunTrace::default();
    let mut flows = Vec::new();
    for (((transfer, watched), series), delivered) in transfers.iter().zip(watched).zip(series).zip(delivered) {
        trace.add_series(&transfer.flow.name, u64::from(transfer.instance), &series.samples);
        let near = transfer.near_port.and_then(|_| near.next());
        let mut row = flow_row(transfer, Seens::of(transfer, watched, near), &series, [begun, ended], delivered);
        let counted = |node: usize| site.host(node).namespace.run(Counted::read);
        if program.is_some() {
            // Its sockets tell us nothing; its host counts for all of them.
            let counted = counted(transfer.flow.from)??;
            (row.timeouts, row.fast_retransmits) = (counted.timeouts, counted.recoveries);
        }
        if let Some(proxy) = transfer.flow.via().filter(|_| transfers.len() == 1) {
            // A proxy counts for all of its connections: those of several flows cannot be told apart.
            let counted = counted(proxy)??;
            row.timeouts += counted.timeouts;
            row.fast_retransmits += counted.recoveries;
        }
        flows.push(row);
    }
    let arrived = streams.iter().zip(&beside.streams);
    flows.extend(arrived.map(|(stream, arrivals)| stream.row(arrivals, begun, ended)));
    let did = || errands.iter().zip(&beside.programs[sockets.len()..]);
    flows.extend(did().map(|(errand, between)| errand.row(between, begun, ended)));
    let through = || sockets.iter().zip(&beside.programs);
    flows.extend(through().map(|(flow, between)| flow.row(between, begun, ended)));
    flows.sort_by_key(|row| scenario.flows.iter().position(|flow| flow.name == row.flow));
    let mut circuits = trunk::rows(scenario, &trunks, &said, &most, &beside.crossings);
    circuits.extend(through().map(|(flow, between)| flow.circuit(between)));
    let links = network.link_rows(stage.now());
    let outcome = RunOutcome {
        point: point.index,
        run: u64::from(run),
        seed,
        end_ns: ended.since(begun).as_nanos(),
        flows,
        links,
        circuits,
        media: Vec::new(),
        intervals,
    };
    let trunks = trunk::told(scenario, &trunks, &said);
    let programs = did().map(|(errand, between)| {
        let hosts = errand.nodes().map(|node| scenario.nodes[node].name.as_str());
        let addresses = errand.nodes().map(|node| site.host(node).address);
        errand.told(between, hosts, addresses, outputs.as_ref().expect("there are programs"))
    });
    let programs = programs.collect::<Result<_, _>>();
    let programs = programs.map_err(|error| Failure::Failed(format!("what programs have written: {error}")))?;
    Ok(Some(Ran { outcome, trace, health, relayed, trunks, programs }))
}

/// The instances of all flows.
struct Instances {
    /// Connections.
    transfers: Vec<Transfer>,
    /// Streams of datagrams.
    streams: Vec<Stream>,
    /// Programs of the scenario's own.
    errands: Vec<Errand>,
    /// Data through sockets of headend's own.
    sockets: Vec<SocketFlow>,
}

/// A count for the packets of each flow through sockets and then of each flow of programs, with nothing counted yet.
fn between(errands: &[Errand], sockets: &[SocketFlow]) -> Vec<Between> {
    let pair = |errand: &Errand| {
        let (from, to) = (errand.flow.from, errand.flow.to);
        (from.min(to), from.max(to))
    };
    let one = |errand: &Errand| {
        let takes_all = errands.iter().filter(|other| pair(other) == pair(errand)).count() == 1;
        Between::new([errand.flow.from, errand.flow.to].map(site::address), errand.port, takes_all)
    };
    let of_socket = |flow: &SocketFlow| Between::new(flow.nodes().map(site::address), flow.port, false);
    // Whoever takes all takes what is left.
    sockets.iter().map(of_socket).chain(errands.iter().map(one)).collect()
}

/// The port at which each instance of a flow listens, with the flow's number.
fn listening(
    scenario: &Scenario,
    transfers: &[Transfer],
    streams: &[Stream],
    (errands, sockets): (&[Errand], &[SocketFlow]),
) -> Vec<(usize, u16)> {
    let number = |name: &str| scenario.flows.iter().position(|flow| flow.name == name).expect("it is the scenario's");
    let of_transfers = transfers.iter().map(|transfer| (number(&transfer.flow.name), transfer.port));
    let of_streams = streams.iter().map(|stream| (number(&stream.flow.name), stream.port));
    let of_errands = errands.iter().map(|errand| (number(&errand.flow.name), errand.port));
    let of_sockets = sockets.iter().map(|flow| (number(&flow.flow.name), flow.port));
    of_transfers.chain(of_streams).chain(of_errands).chain(of_sockets).collect()
}

/// The sockets at which datagrams arrive.
fn listen(site: &Site, streams: &[Stream]) -> Result<Vec<UdpSocket>, Failure> {
    let open = |stream: &Stream| {
        let host = site.host(stream.flow.to);
        let opened = host.namespace.run(|| stream.listen(host.address))?;
        opened.map_err(|error| Failure::Failed(format!("flows.{}: a socket: {error}", stream.flow.name)))
    };
    streams.iter().map(open).collect()
}

/// The ends of each circuit and the hosts that it carries for, with nothing counted yet, in the scenario's order.
fn crossings(scenario: &Scenario, network: &Network, trunks: &[TrunkPlan]) -> Vec<Crossing> {
    let one = |(number, circuit): (usize, &Circuit)| {
        let ends = trunks.iter().flat_map(|plan| &plan.ends);
        let hosts = ends.filter(|end| end.circuit == Some(number)).flat_map(|end| &end.hosts);
        let nodes = [circuit.from, circuit.to];
        Crossing {
            ports: nodes.map(|node| network.port(node).expect("a circuit's end is outside")),
            ends: nodes.map(site::address),
            hosts: hosts.map(|&host| site::address(host)).collect(),
            sent: 0,
            answered: 0,
        }
    };
    scenario.circuits.iter().enumerate().map(one).collect()
}

/// The instances of all flows, each at the time at which the simulator starts it with the same seed.
fn instances(scenario: &Scenario, seed: u64, program: Option<Program>) -> Instances {
    let is_plain = |flow: &&Flow| flow.kind.transfer().is_some_and(|transfer| transfer.socket().is_none());
    let connections = scenario.flows.iter().filter(is_plain);
    let count: u64 = connections.map(|flow| u64::from(flow.count)).sum();
    let mut all = Instances { transfers: Vec::new(), streams: Vec::new(), errands: Vec::new(), sockets: Vec::new() };
    let Instances { transfers, streams, errands, sockets } = &mut all;
    let mut near_ports = FIRST_PORT + count as u16..;
    // Each connection has one port, or two.
    let mut stream_ports = FIRST_PORT + 2 * count as u16..;
    let others = scenario.flows.iter().filter(|flow| matches!(flow.kind, FlowKind::Datagrams(_)));
    let datagrams: u64 = others.map(|flow| u64::from(flow.count)).sum();
    let mut other_ports = FIRST_PORT + 2 * count as u16 + datagrams as u16..=u16::MAX;
    for flow in &scenario.flows {
        for instance in 0..flow.count {
            let near_port = flow.via().and_then(|_| near_ports.next());
            let mut rng = Rng::named(seed, &format!("flows/{}/{instance}", flow.name));
            let stagger = Duration::from_nanos(rng.below(flow.stagger.as_nanos().saturating_add(1)));
            let start = flow.start + stagger + scenario.start_jitter_of(flow, instance, seed);
            if let FlowKind::Datagrams(datagrams) = &flow.kind {
                let port = stream_ports.next().expect("a lab has fewer flows than ports");
                streams.push(Stream::new(flow, datagrams, instance, port, start));
                continue;
            }
            if let FlowKind::Programs(programs) = &flow.kind {
                let port = other_ports.next().expect("a lab has fewer flows than ports");
                errands.push(Errand::new(flow, programs, instance, port, start));
                continue;
            }
            if let Some(free) = SocketFlow::of(flow, instance, *other_ports.start(), start) {
                other_ports.next();
                sockets.push(free);
                continue;
            }
            let port = FIRST_PORT + transfers.len() as u16;
            let mut transfer = Transfer::new(flow, instance, port, start, program);
            transfer.near_port = near_port;
            transfers.push(transfer);
        }
    }
    all
}

/// The places at the ports of the network.
fn attachments(site: &Site, network: &Network) -> Vec<Option<Attachment>> {
    let ports = site.hosts().filter_map(|(node, _)| network.port(node)).map(|port| usize::from(port.0) + 1).max();
    let mut attachments = vec![None; ports.unwrap_or(0)];
    for (node, _) in site.hosts() {
        let within_reach = site.hosts().filter(|&(other, _)| network.topology().reaches(node, other));
        let addresses: Addresses = within_reach.map(|(other, host)| (host.address.into(), number(other))).collect();
        if let Some(port) = network.port(node) {
            attachments[usize::from(port.0)] =
                Some(Attachment { node: number(node), to: Destination::Of(Arc::new(addresses)) });
        }
    }
    attachments
}

fn number(node: usize) -> u16 {
    u16::try_from(node).expect("a network has at most 65536 nodes")
}

/// The reactor's thread.
fn drive(mut reactor: Reactor<Network>, mut devices: Devices, spans: &mut Spans) -> Result<(Network, Health), Error> {
    let mut health = Health { is_urgent: clock::wake_on_time().is_ok(), ..Health::default() };
    reactor.run(&mut devices, spans.length(), &mut |network: &mut Network, report: &Report| {
        (health.strain, health.deliveries) = (report.strain, report.deliveries_all);
        spans.note(report.now, network);
        ControlFlow::Continue(())
    })?;
    Ok((reactor.into_node(), health))
}

/// The thread of one end of a flow.
fn act(transfer: &Transfer, is_sender: bool, site: &Site, stage: &Stage, watched: (Arc<Mutex<Vec<Watched>>>, usize)) {
    let (connects, listens) = transfer.ends();
    let own = if is_sender { transfer.flow.from } else { transfer.flow.to };
    // Who listens does so at its own address, and the other one connects to that or to the proxy before it.
    let (at, port) = match (transfer.flow.via(), transfer.near_port) {
        (Some(proxy), Some(port)) if own == connects => (proxy, port),
        _ => (listens, transfer.port),
    };
    let own = site.host(own);
    own.namespace.enter().expect("a namespace that was made can be entered");
    let place = EndPlace { options: own.settings.socket.clone(), address: site.host(at).address, port, watched };
    transfer.play(is_sender, &place, stage);
}

/// The outcome of the flows.
struct Played {
    begun: Time,
    /// The time at which `delivered` was read: the end of the run, or later where this thread was not woken.
    ended: Time,
    /// Bytes that each flow's receiver had read.
    delivered: Vec<Bytes>,
    series: Vec<Series>,
    is_short_of_memory: bool,
}

/// Lets the flows begin together and waits for their end, or the end of the time. `None` if it was interrupted.
fn play(
    scenario: &Scenario,
    stage: &Stage,
    transfers: &[Transfer],
    stop: &AtomicBool,
    is_broken: &dyn Fn() -> bool,
    look: &mut dyn FnMut(),
) -> Option<Played> {
    let is_over = || stop.load(Ordering::Relaxed) || stage.has_stopped() || is_broken();
    let ready_by = stage.now() + scenario.duration;
    // A connection that is to be there beforehand and cannot be made holds the others up for no longer than a run takes.
    while !stage.all_are_ready(LOOK_EVERY) && stage.now() < ready_by {
        if is_over() {
            return None;
        }
    }
    let begun = stage.begin();
    let limit = begun + scenario.duration;
    thread::scope(|scope| {
        let sampler = scope.spawn(|| sampler::sample(transfers, begun, stage));
        let mut is_short_of_memory = false;
        while !stage.all_have_left(LOOK_EVERY) && stage.now() < limit && !is_over() {
            is_short_of_memory |= Memory::now().is_some_and(|memory| memory.is_short());
            look();
        }
        let ended = stage.now();
        let delivered = transfers.iter().map(Transfer::delivered).collect();
        let is_interrupted = is_over();
        stage.stop();
        let series = sampler.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
        (!is_interrupted).then_some(Played { begun, ended, delivered, series, is_short_of_memory })
    })
}

/// Sees to it that every thread of a run ends, also when the one that waits for them panics.
struct Ending<'a> {
    stage: &'a Stage,
    transfers: &'a [Transfer],
    halt: &'a Stop,
}

impl Ending<'_> {
    /// Tells the ends of flows to leave and gives them time to.
    fn leave(&self) {
        self.stage.stop();
        let looks = LEAVING_MAX.as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..looks {
            // Again and again: a socket may have come just now.
            self.transfers.iter().for_each(Transfer::shut);
            if self.stage.all_have_left(LOOK_EVERY) {
                return;
            }
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.stage.stop();
        self.transfers.iter().for_each(Transfer::shut);
        self.halt.stop();
    }
}

/// The packets that were seen of a flow's connection, or of the two that it has through a proxy.
struct Seens {
    /// The data's sender's.
    sender: Seen,
    /// The receiver's, if that is another.
    receiver: Option<Seen>,
}

impl Seens {
    /// `far` is the connection to the listening end, `near` that of the connecting end to the proxy.
    fn of(transfer: &Transfer, far: Watched, near: Option<Watched>) -> Seens {
        let far = far.into_seen();
        let Some(near) = near.map(Watched::into_seen) else { return Seens { sender: far, receiver: None } };
        let (sender, receiver) = if transfer.sender_listens() { (far, near) } else { (near, far) };
        Seens { sender, receiver: Some(receiver) }
    }

    /// The connection of the data's receiver.
    fn receiver(&self) -> &Seen {
        self.receiver.as_ref().unwrap_or(&self.sender)
    }

    fn sum(&self, count: impl Fn(&Seen) -> u64) -> u64 {
        count(&self.sender) + self.receiver.as_ref().map_or(0, &count)
    }
}

fn flow_row(transfer: &Transfer, seens: Seens, series: &Series, [begun, ended]: [Time; 2], read: Bytes) -> FlowRow {
    let seen = &seens.sender;
    let planned = begun + transfer.start;
    // A program takes its time to start, and talks on other connections first.
    let start = if transfer.program.is_some() { seen.opened_at.unwrap_or(planned) } else { planned };
    let since_start = |at: Time| at.since(start).as_nanos();
    let fault = transfer.fault();
    let delivered = match transfer.program {
        Some(_) => seens.receiver().arrived().min(transfer.flow.bytes().unwrap_or(Bytes::MAX)),
        None if transfer.is_complete() => transfer.delivered(),
        None => read,
    };
    let transferred = transfer.is_complete().then(|| since_start(seens.receiver().arrived_at));
    let failed = fault.as_ref().map(|(at, _)| since_start(*at));
    let info = transfer.sender_info();
    FlowRow {
        flow: transfer.flow.name.clone(),
        instance: u64::from(transfer.instance),
        bytes: transfer.flow.bytes().unwrap_or(delivered).get(),
        start_ns: transfer.start.as_nanos(),
        transfer_ns: transferred,
        acked_ns: transfer.is_complete().then(|| since_start(seen.acked_at)),
        active_ns: transferred.or(failed).unwrap_or_else(|| since_start(ended)),
        delivered_bytes: delivered.get(),
        wire_bytes: seens.receiver().wire_bytes,
        // The kernel counts those of SYNs as well, the simulator those of data.
        timeouts: info.and_then(|info| info.timeouts).map_or(0, u64::from).saturating_sub(seen.syns.saturating_sub(1)),
        fast_retransmits: series.recoveries,
        segments_sent: seens.sum(|seen| seen.segments),
        retransmits: seens.sum(|seen| seen.retransmits),
        spurious: seens.sum(|seen| seen.spurious),
        rtt_ns: seen.rtt.summary().map(|rtt| rtt.map(Duration::as_nanos)),
        cwnd_max_bytes: series.cwnd_max.get(),
        fault: fault.map(|(_, why)| why).unwrap_or_default(),
    }
}

/// The counts of a host over all its connections since it was made.
struct Counted {
    timeouts: u64,
    recoveries: u64,
}

impl Counted {
    /// Reads those of the calling thread's namespace: the pairs of lines in `/proc/net/netstat`, names above values.
    fn read() -> Result<Counted, Error> {
        const FILE: &str = "/proc/thread-self/net/netstat";
        let text = fs::read_to_string(FILE).map_err(|error| Error::new(FILE, error))?;
        let lines: Vec<&str> = text.lines().collect();
        let value = |name: &str| -> u64 {
            let found = lines.chunks_exact(2).find_map(|pair| {
                let at = pair[0].split_whitespace().position(|known| known == name)?;
                pair[1].split_whitespace().nth(at)?.parse().ok()
            });
            found.unwrap_or(0)
        };
        Ok(Counted { timeouts: value("TCPTimeouts"), recoveries: value("TCPSackRecovery") + value("TCPRenoRecovery") })
    }
}

/// Takes down what killed runs have left; returns the names of the namespaces.
pub(super) fn clean() -> Result<Vec<String>, Failure> {
    site::clean()
}
