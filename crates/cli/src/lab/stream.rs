//! Flows of datagrams on real sockets: a thread that sends in one namespace, a socket that listens in another. What arrives is counted
//! where it leaves the network.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};

use headend_engine::packet::DATAGRAM_HEADERS;
use headend_engine::time::{Duration, Time};
use headend_scenario::results::FlowRow;
use headend_scenario::{Datagrams, Flow};
use rustix::io::Errno;

use super::stage::Stage;
use super::watch::Arrivals;

/// One instance of a flow of datagrams.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) flow: Flow,
    datagrams: Datagrams,
    pub(super) instance: u32,
    /// The port at which it arrives; nobody else's in this run.
    pub(super) port: u16,
    /// The time of its start, counted from the beginning of the run.
    pub(super) start: Duration,
    sent: AtomicU64,
}

impl Stream {
    pub(super) fn new(flow: &Flow, datagrams: &Datagrams, instance: u32, port: u16, start: Duration) -> Stream {
        Stream { flow: flow.clone(), datagrams: datagrams.clone(), instance, port, start, sent: AtomicU64::new(0) }
    }

    /// The socket at which it arrives, in the namespace of the calling thread. Nobody reads: it keeps the kernel from answering.
    pub(super) fn listen(&self, address: Ipv4Addr) -> io::Result<UdpSocket> {
        UdpSocket::bind(SocketAddrV4::new(address, self.port))
    }

    /// Sends from the namespace of the calling thread until the run stops.
    pub(super) fn play(&self, from: Ipv4Addr, to: Ipv4Addr, stage: &Stage) {
        let presence = stage.enter();
        let opened = UdpSocket::bind(SocketAddrV4::new(from, 0)).and_then(|socket| {
            socket.connect(SocketAddrV4::new(to, self.port))?;
            Ok(socket)
        });
        let sent = opened.and_then(|socket| {
            let Some(begun) = presence.ready() else { return Ok(()) };
            self.send(&socket, begun + self.start, stage)
        });
        if let Err(why) = sent {
            stage.fail(format!("flows.{}, instance {}, its sender: {why}", self.flow.name, self.instance));
        }
    }

    fn send(&self, socket: &UdpSocket, start: Time, stage: &Stage) -> io::Result<()> {
        let payload = vec![0; self.datagrams.packet.get().saturating_sub(DATAGRAM_HEADERS) as usize];
        let mut due = start;
        while stage.sleep_until(due) {
            match socket.send(&payload) {
                Ok(_) => drop(self.sent.fetch_add(1, Ordering::Relaxed)),
                // The host's own queue is full, or the other end has gone: it has no regard to anything.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused) => {}
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {}
                Err(error) => return Err(error),
            }
            due = self.after(start, due);
        }
        Ok(())
    }

    /// The time of the packet after the one that was due.
    fn after(&self, start: Time, due: Time) -> Time {
        let next = due + self.datagrams.rate.time_for(self.datagrams.packet);
        let Some(on) = self.datagrams.on else { return next };
        let cycle = (on + self.datagrams.off).as_nanos();
        let at = next.since(start).as_nanos();
        if at % cycle >= on.as_nanos() { start + Duration::from_nanos((at / cycle + 1) * cycle) } else { next }
    }

    /// Its row in the table of flows, with what arrived until the run's end at `ended`.
    pub(super) fn row(&self, arrivals: &Arrivals, begun: Time, ended: Time) -> FlowRow {
        let delivered = arrivals.bytes.saturating_sub(DATAGRAM_HEADERS * arrivals.packets);
        FlowRow {
            flow: self.flow.name.clone(),
            instance: u64::from(self.instance),
            bytes: delivered,
            start_ns: self.start.as_nanos(),
            active_ns: ended.since(begun + self.start).as_nanos(),
            delivered_bytes: delivered,
            wire_bytes: arrivals.bytes,
            segments_sent: self.sent.load(Ordering::Relaxed),
            ..FlowRow::default()
        }
    }
}
