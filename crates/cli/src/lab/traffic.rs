//! The programs at the ends of flows, on real sockets: each a thread in the namespace of its host.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;
use headend_host::socket::{self, Info, SocketOptions};
use headend_scenario::{Flow, Opening, Talk};
use headend_sim::traffic::PIECE;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::program::{self, Program};
use super::stage::{Presence, Stage};
use super::watch::Watched;

/// One instance of a flow and what becomes of it.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) flow: Flow,
    /// The exchange of its applications on the connection.
    talk: Talk,
    pub(super) instance: u32,
    /// The port that the listening end listens at; nobody else's in this run.
    pub(super) port: u16,
    /// The port at which a proxy between the ends listens for the connecting one, if there is a proxy.
    pub(super) near_port: Option<u16>,
    /// The program that drives it, if not our own traffic does.
    pub(super) program: Option<Program>,
    /// The time of its start, counted from the beginning of the run.
    pub(super) start: Duration,
    /// Bytes that the sender will have written; known once the segment size is.
    total: AtomicU64,
    /// Bytes that the receiver has read.
    read: AtomicU64,
    /// The receiver has read all.
    complete: AtomicBool,
    /// A real program has ended, or failed.
    is_over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The data's sender, once its connection is there.
    sender: Option<Arc<Socket>>,
    /// Every socket that somebody may wait on.
    sockets: Vec<Arc<Socket>>,
    /// The sender's last word.
    last: Option<Info>,
    fault: Option<(Time, String)>,
}

/// The facts that an end needs to know of its host and of the other one.
#[derive(Clone, Debug)]
pub(super) struct EndPlace {
    /// The options of every socket.
    pub(super) options: SocketOptions,
    /// The address to listen at, or to connect to.
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
    /// The watch over all transfers, and the index of this one in it.
    pub(super) watched: (Arc<Mutex<Vec<Watched>>>, usize),
}

impl EndPlace {
    fn address(&self) -> socket2::SockAddr {
        SocketAddr::V4(SocketAddrV4::new(self.address, self.port)).into()
    }

    /// Bytes of the transfer's data that have reached the receiver's host.
    fn arrived(&self) -> Bytes {
        let (watched, index) = &self.watched;
        watched.lock().expect("nobody panics while it watches").get(*index).map_or(Bytes::ZERO, Watched::arrived)
    }
}

impl Transfer {
    pub(super) fn new(flow: &Flow, instance: u32, port: u16, start: Duration, program: Option<Program>) -> Transfer {
        Transfer {
            flow: flow.clone(),
            talk: flow.kind.transfer().expect("a lab runs transfers alone").talk.clone(),
            instance,
            port,
            near_port: None,
            program,
            start,
            total: AtomicU64::new(u64::MAX),
            read: AtomicU64::new(0),
            complete: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// True if the data's sender listens and the receiver connects.
    pub(super) fn sender_listens(&self) -> bool {
        match self.program {
            Some(program) => program.sender_listens(),
            None => matches!(self.talk, Talk::Answer { .. }),
        }
    }

    /// The nodes of the end that connects and of the one that listens.
    pub(super) fn ends(&self) -> (usize, usize) {
        let (from, to) = (self.flow.from, self.flow.to);
        if self.sender_listens() { (to, from) } else { (from, to) }
    }

    /// Bytes of the file that the receiver has read, at most those asked for.
    pub(super) fn delivered(&self) -> Bytes {
        let read = Bytes::new(self.read.load(Ordering::Relaxed)).saturating_sub(self.header());
        read.min(self.flow.bytes().unwrap_or(Bytes::MAX))
    }

    /// True if the receiver has read everything.
    pub(super) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }

    /// Why it failed and when.
    pub(super) fn fault(&self) -> Option<(Time, String)> {
        self.lock().fault.clone()
    }

    /// The kernel's figures of the sender now, or the last that it gave.
    pub(super) fn sender_info(&self) -> Option<Info> {
        let mut state = self.lock();
        if let Some(sender) = &state.sender
            && let Ok(info) = Info::of(&**sender)
        {
            state.last = Some(info);
        }
        state.last
    }

    /// Ends all waiting on its sockets.
    pub(super) fn shut(&self) {
        for socket in &self.lock().sockets {
            // Without that the kernel keeps what was written, up to the send buffer, and the namespace with it, for the
            // minutes that it takes to give up sending. Enough of these, and it offers all others windows of four segments.
            let _ = socket.set_linger(Some(std::time::Duration::ZERO));
            // One that is not connected cannot be shut, and nobody waits on it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn header(&self) -> Bytes {
        self.talk.header()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds a transfer")
    }

    /// Plays the data's sender (`is_sender`) or its receiver until it is over.
    pub(super) fn play(&self, is_sender: bool, place: &EndPlace, stage: &Stage) {
        let presence = stage.enter();
        let played = if let Some(program) = self.program {
            self.run_program(program, is_sender, place, stage, &presence)
        } else if is_sender == self.sender_listens() {
            self.listen(place).and_then(|listener| {
                let Some(_) = presence.ready() else { return Ok(()) };
                let (socket, _) = listener.accept()?;
                place.options.apply(&socket)?;
                self.talk(is_sender, self.keep(socket), place, stage)
            })
        } else {
            self.connect(is_sender, place, stage, &presence)
        };
        let Err(trouble) = played else { return };
        if stage.has_stopped() {
            return;
        }
        match trouble {
            Trouble::Flow(why) => {
                self.lock().fault.get_or_insert((stage.now(), why));
                self.is_over.store(true, Ordering::Relaxed);
                // The other end would wait for ever.
                self.shut();
            }
            Trouble::Machine(why) => {
                let end = if is_sender { "sender" } else { "receiver" };
                stage.fail(format!("flows.{}, instance {}, its {end}: {why}", self.flow.name, self.instance));
            }
        }
    }

    /// One end of a real program.
    fn run_program(
        &self,
        program: Program,
        is_sender: bool,
        place: &EndPlace,
        stage: &Stage,
        presence: &Presence<'_>,
    ) -> Result<(), Trouble> {
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        if is_sender == self.sender_listens() {
            let (mut child, _folder) =
                program.listen(&self.flow, place.address, place.port).map_err(Trouble::machine)?;
            presence.ready();
            // It serves until the other end has had enough.
            while !stage.has_stopped() && !self.is_over.load(Ordering::Relaxed) {
                stage.sleep_until(stage.now() + LOOK_EVERY);
            }
            program::end(&mut child);
            return Ok(());
        }
        let Some(begun) = presence.ready() else { return Ok(()) };
        if !stage.sleep_until(begun + self.start) {
            return Ok(());
        }
        let mut child = program.connect(place.address, place.port, &place.options).map_err(Trouble::machine)?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if program == Program::Iperf3 && self.flow.bytes().is_some_and(|bytes| place.arrived() >= bytes) {
                program::end(&mut child);
                self.complete.store(true, Ordering::Relaxed);
                break None;
            }
            if !stage.sleep_until(stage.now() + LOOK_EVERY) {
                program::end(&mut child);
                break None;
            }
        };
        self.is_over.store(true, Ordering::Relaxed);
        match status {
            Some(status) if !status.success() => Err(Trouble::Flow(program::last_words(&mut child))),
            Some(_) => {
                self.complete.store(true, Ordering::Relaxed);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A socket that is known to those who may have to shut it.
    fn keep(&self, socket: Socket) -> Arc<Socket> {
        let socket = Arc::new(socket);
        self.lock().sockets.push(socket.clone());
        socket
    }

    fn socket(&self, place: &EndPlace) -> Result<Arc<Socket>, Trouble> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        place.options.apply(&socket)?;
        Ok(self.keep(socket))
    }

    fn listen(&self, place: &EndPlace) -> Result<Arc<Socket>, Trouble> {
        let listener = self.socket(place)?;
        listener.set_reuse_address(true)?;
        listener.bind(&place.address())?;
        listener.listen(1)?;
        Ok(listener)
    }

    fn connect(
        &self,
        is_sender: bool,
        place: &EndPlace,
        stage: &Stage,
        presence: &Presence<'_>,
    ) -> Result<(), Trouble> {
        let socket = self.socket(place)?;
        let is_beforehand = matches!(self.talk, Talk::Push { opening: Opening::Beforehand, .. });
        if is_beforehand {
            socket.connect(&place.address())?;
        }
        let Some(begun) = presence.ready() else { return Ok(()) };
        if !stage.sleep_until(begun + self.start) {
            return Ok(());
        }
        if !is_beforehand {
            socket.connect(&place.address())?;
        }
        self.talk(is_sender, socket, place, stage)
    }

    /// Says and hears what an end has to on its connection.
    fn talk(&self, is_sender: bool, socket: Arc<Socket>, place: &EndPlace, stage: &Stage) -> Result<(), Trouble> {
        let request = self.talk.request();
        if is_sender {
            self.lock().sender = Some(socket.clone());
            self.set_total(&socket)?;
            receive_exactly(&socket, request)?;
            self.send(&socket, stage)?;
            socket.shutdown(Shutdown::Write)?;
            // The receiver closes when it has all: then the kernel has told the last of this connection.
            receive_exactly(&socket, Bytes::MAX).or_else(|error| match error.kind() {
                ErrorKind::UnexpectedEof => Ok(()),
                _ => Err(error),
            })?;
            self.sender_info();
            Ok(())
        } else {
            send_zeros(&socket, request)?;
            Ok(self.receive(&socket, place)?)
        }
    }

    fn set_total(&self, socket: &Socket) -> io::Result<()> {
        let Some(bytes) = self.flow.bytes() else { return Ok(()) };
        let mss = Info::of(socket)?.mss.get().max(1);
        let padded = if matches!(self.talk, Talk::Push { whole_segments: true, .. }) {
            bytes.get().div_ceil(mss) * mss
        } else {
            bytes.get()
        };
        self.total.store(padded + self.header().get(), Ordering::Relaxed);
        Ok(())
    }

    fn send(&self, socket: &Socket, stage: &Stage) -> io::Result<()> {
        let total = self.total.load(Ordering::Relaxed);
        if total == u64::MAX {
            // Without end: until the run stops, which shuts the socket.
            while !stage.has_stopped() {
                send_zeros(socket, CHUNK)?;
            }
            return Ok(());
        }
        let Talk::Answer { header, header_apart, .. } = self.talk else {
            return send_zeros(socket, Bytes::new(total));
        };
        let file = Bytes::new(total).saturating_sub(header);
        let mut piece = file.min(PIECE);
        if header_apart && header > Bytes::ZERO {
            send_once(socket, header)?;
            send_once(socket, piece)?;
        } else {
            send_once(socket, header + piece)?;
        }
        let mut left = file.saturating_sub(piece);
        while left > Bytes::ZERO {
            piece = left.min(PIECE);
            send_once(socket, piece)?;
            left = left.saturating_sub(piece);
        }
        Ok(())
    }

    fn receive(&self, socket: &Socket, place: &EndPlace) -> io::Result<()> {
        // The kernel sets the window's limit anew when it learns how large segments are, with the first full ones.
        const FIRST_READS: u32 = 16;
        let mut buffer = vec![0; CHUNK.get() as usize];
        let mut reads = 0;
        loop {
            if reads < FIRST_READS
                && let Some(window) = place.options.receive_buffer
            {
                socket::clamp_window(socket, window)?;
            }
            reads += 1;
            let len = Read::read(&mut &*socket, &mut buffer)?;
            if len == 0 {
                break;
            }
            let read = self.read.fetch_add(len as u64, Ordering::Relaxed) + len as u64;
            if read >= self.total.load(Ordering::Relaxed) {
                self.complete.store(true, Ordering::Relaxed);
            }
        }
        if self.flow.bytes().is_some() && !self.is_complete() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // The sender waits for that.
        socket.shutdown(Shutdown::Write)
    }
}

/// The bytes that are read or written at a time.
const CHUNK: Bytes = Bytes::new(1 << 17);

static ZEROS: [u8; 1 << 17] = [0; 1 << 17];

/// Writes `len` bytes, a chunk at a time.
fn send_zeros(mut socket: &Socket, len: Bytes) -> io::Result<()> {
    let mut left = len;
    while left > Bytes::ZERO {
        let chunk = left.min(CHUNK);
        socket.write_all(&ZEROS[..chunk.get() as usize])?;
        left = left.saturating_sub(chunk);
    }
    Ok(())
}

/// Writes `len` bytes in one call, as a server does that has read a piece of a file.
fn send_once(mut socket: &Socket, len: Bytes) -> io::Result<()> {
    if len > CHUNK {
        return send_zeros(socket, len);
    }
    socket.write_all(&ZEROS[..len.get() as usize])
}

/// Reads `len` bytes and forgets them.
fn receive_exactly(mut socket: &Socket, len: Bytes) -> io::Result<()> {
    let mut buffer = [0; 4_096];
    let mut left = len.get();
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match socket.read(&mut buffer[..most])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => left -= len as u64,
        }
    }
    Ok(())
}

/// Why an end of a flow came to no good.
#[derive(Debug)]
enum Trouble {
    /// Its connection or its program failed: a result, and the flow's row says so.
    Flow(String),
    /// The machine refused what every run needs: no result at all.
    Machine(String),
}

impl Trouble {
    fn machine(error: io::Error) -> Trouble {
        let hint = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE) => "; a flow takes three, and `ulimit -n` says how many one program may have",
            _ => "",
        };
        Trouble::Machine(format!("{error}{hint}"))
    }
}

impl From<io::Error> for Trouble {
    /// The trouble of a flow, for all that the peer or the network can bring about; in the simulator's words where it
    /// has them.
    fn from(error: io::Error) -> Trouble {
        let why = match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "reset by the peer",
            ErrorKind::ConnectionRefused => "refused by the peer",
            ErrorKind::TimedOut => "timed out",
            ErrorKind::UnexpectedEof => "closed by the peer before the end",
            ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown => return Trouble::Flow(error.to_string()),
            _ => return Trouble::machine(error),
        };
        Trouble::Flow(why.to_owned())
    }
}

impl From<headend_host::Error> for Trouble {
    fn from(error: headend_host::Error) -> Trouble {
        Trouble::Machine(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_peer_or_the_network_does_is_a_flow_s_fault() {
        let trouble = |errno: Errno| Trouble::from(io::Error::from(errno));
        for errno in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::PIPE, Errno::TIMEDOUT, Errno::HOSTUNREACH] {
            assert!(matches!(trouble(errno), Trouble::Flow(_)), "{errno}");
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::ADDRINUSE, Errno::ADDRNOTAVAIL, Errno::PERM] {
            assert!(matches!(trouble(errno), Trouble::Machine(_)), "{errno}");
        }
    }
}
