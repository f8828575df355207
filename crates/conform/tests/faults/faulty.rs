//! A small proxy with a flaw of choice, and trials of it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener as StdListener};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use headend_conform::{Behaviour, Entrance, HeaderVersion, Matrix, SocketPlace, Trial, WayIn};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::LocalSet;

/// The one thing that is wrong with a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    DropsTheLastBytes,
    SwapsChunks,
    RepeatsAChunk,
    FlipsABit,
    EndsWhereItShouldReset,
    ClosesBothOnHalfClose,
    NeverPassesEnds,
    WritesBeforeItReadsOn,
    ServesOneAtATime,
    NeverHoldsBack,
    TakesOnlyOne,
    DropsUrgentBytes,
    // Flaws with headers of the PROXY protocol.
    DropsTheHeader,
    NamesItself,
    LeavesTheHeaderTwice,
    TakesAnyHeader,
    // Flaws with requests.
    KeepsAbsoluteForm,
    KeepsWhatIsItsOwn,
    DropsAField,
    TakesHeadForGet,
}

/// The protocol that clients speak to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    /// Clients say nothing: all go to one server.
    Bare,
    /// A PROXY header of version 1, which goes on to the one server.
    Introduced,
    /// A request for a whole URL.
    Absolute,
}

/// Connects whoever comes to a server, with a flaw. It runs until the test process ends.
pub(crate) struct Proxy {
    address: SocketAddr,
    server: SocketAddr,
    tongue: Tongue,
}

impl Proxy {
    pub(crate) fn start(tongue: Tongue, flaw: Flaw) -> Proxy {
        // A port for the server: free again at once, and bound by the command under test.
        let server = StdListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let listener = StdListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        listener.set_nonblocking(true).expect("a listener that does not block");
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            LocalSet::new().block_on(&runtime, async move {
                let listener = TcpListener::from_std(listener).expect("a listener that does not block");
                let turn = Arc::new(Mutex::new(()));
                let mut taken = 0;
                loop {
                    let Ok((client, _)) = listener.accept().await else { continue };
                    taken += 1;
                    if flaw == Flaw::TakesOnlyOne && taken > 1 {
                        continue;
                    }
                    let turn = turn.clone();
                    tokio::task::spawn_local(async move {
                        let joined = match tongue {
                            Tongue::Bare => TcpStream::connect(server).await,
                            Tongue::Introduced => introduced(&client, server, flaw).await,
                            Tongue::Absolute => requested(&client, flaw).await,
                        };
                        let Ok(server) = joined else {
                            let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
                            return;
                        };
                        relay(client, server, flaw, &turn).await;
                    });
                }
            });
        });
        Proxy { address, server, tongue }
    }

    /// A trial of these behaviours, or of all, with so many schedules.
    pub(crate) fn trial(&self, behaviours: &[&str], count: u64) -> Trial {
        let introduces = (self.tongue == Tongue::Introduced).then_some(HeaderVersion::V1);
        let (way, origin) = match self.tongue {
            Tongue::Absolute => (WayIn::Absolute, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            _ => (WayIn::Forward, self.server),
        };
        let entrance = Entrance { way, proxy: Some(self.address), user: None, introduces };
        let wanted: Vec<Behaviour> = behaviours.iter().map(|name| behaviour(name)).collect();
        Trial {
            schedules: Behaviour::seeds(&Behaviour::suite(&entrance), &wanted, 1, count),
            entrance,
            origin,
            expected_header: introduces,
            clients_place: SocketPlace::here(),
            origin_place: SocketPlace::here(),
            allowed: Vec::new(),
            jobs: 32,
            patience: Duration::from_secs(3),
            held_bytes_max: 64_000_000,
        }
    }

    /// The matrix of these behaviours, or of all, after so many schedules.
    pub(crate) fn matrix(&self, behaviours: &[&str], count: u64) -> Matrix {
        run(self.trial(behaviours, count))
    }
}

/// The matrix of a trial, of which all schedules are run.
pub(crate) fn run(trial: Trial) -> Matrix {
    let asked = trial.schedules.len() as u64;
    let matrix = trial.run(&mut |_| ControlFlow::Continue(())).expect("the proxy and the server listen").matrix;
    assert_eq!(matrix.done(), asked, "schedules have been run: {matrix:#?}");
    matrix
}

fn behaviour(name: &str) -> Behaviour {
    Behaviour::all().into_iter().find(|behaviour| behaviour.name() == name).expect("a behaviour of this name")
}

/// Reads up to `end`, at most `most` bytes, and no further.
async fn read_up_to(client: &TcpStream, end: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut came = Vec::new();
    let mut byte = [0];
    while !came.ends_with(end) {
        if came.len() == most || read(client, &mut byte).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        came.push(byte[0]);
    }
    Ok(came)
}

fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    let are_ports = |ports: [&str; 2]| ports.iter().all(|port| port.parse::<u16>().is_ok());
    match words.as_slice() {
        ["PROXY", "UNKNOWN"] => true,
        ["PROXY", "TCP4", a, b, p, q] => [a, b].iter().all(|ip| ip.parse::<Ipv4Addr>().is_ok()) && are_ports([p, q]),
        ["PROXY", "TCP6", a, b, p, q] => [a, b].iter().all(|ip| ip.parse::<Ipv6Addr>().is_ok()) && are_ports([p, q]),
        _ => false,
    }
}

/// The connection to the server, which has been told who the client is.
async fn introduced(client: &TcpStream, server: SocketAddr, flaw: Flaw) -> io::Result<TcpStream> {
    let header = match read_up_to(client, b"\r\n", 107).await {
        Err(error) if flaw != Flaw::TakesAnyHeader || error.kind() != io::ErrorKind::InvalidData => return Err(error),
        read => read.unwrap_or_default(),
    };
    let line = String::from_utf8_lossy(&header).into_owned();
    if !is_header(&line) && flaw != Flaw::TakesAnyHeader {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let server = TcpStream::connect(server).await?;
    let own = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} 1\r\n", server.local_addr()?.port());
    let told = match flaw {
        Flaw::DropsTheHeader => String::new(),
        Flaw::NamesItself => own,
        Flaw::LeavesTheHeaderTwice => [line.clone(), line].concat(),
        _ => line,
    };
    write(&server, told.as_bytes()).await?;
    Ok(server)
}

/// The connection to the server of a request, which has the request's head.
async fn requested(client: &TcpStream, flaw: Flaw) -> io::Result<TcpStream> {
    let head = String::from_utf8_lossy(&read_up_to(client, b"\r\n\r\n", 16_384).await?).into_owned();
    let (line, fields) = head.split_once("\r\n").expect("it has a line's end");
    let words: Vec<&str> = line.split(' ').collect();
    let (mut method, target) = (words[0], words[1].strip_prefix("http://").expect("an absolute target"));
    let (host, path) = target.split_once('/').expect("a path");
    let host: SocketAddr = host.parse().expect("an address");
    let Ok(server) = TcpStream::connect(host).await else {
        write(client, b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await?;
        // It is heard before the connection is reset.
        let _ = SockRef::from(client).shutdown(Shutdown::Write);
        let _ = read(client, &mut [0]).await;
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    if flaw == Flaw::TakesHeadForGet && method == "HEAD" {
        method = "GET";
    }
    let is_dropped = |line: &&str| {
        let line = line.to_ascii_lowercase();
        let is_own = line.starts_with("connection:") || line.starts_with("x-hop:");
        line.is_empty()
            || (is_own && flaw != Flaw::KeepsWhatIsItsOwn)
            || (flaw == Flaw::DropsAField && line.starts_with("x-conform-0:"))
    };
    let fields: Vec<&str> = fields.split("\r\n").filter(|line| !is_dropped(line)).collect();
    let target = if flaw == Flaw::KeepsAbsoluteForm { words[1].to_owned() } else { format!("/{path}") };
    let own = "Via: 1.1 faulty\r\nConnection: close\r\n\r\n";
    let request = format!("{method} {target} HTTP/1.1\r\n{}\r\n{own}", fields.join("\r\n"));
    write(&server, request.as_bytes()).await?;
    Ok(server)
}

async fn relay(client: TcpStream, server: TcpStream, flaw: Flaw, turn: &Mutex<()>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    for stream in [&client, &server] {
        let _ = SockRef::from(stream).set_out_of_band_inline(flaw != Flaw::DropsUrgentBytes);
    }
    let both = async { tokio::try_join!(pump(&client, &server, flaw, turn), pump(&server, &client, flaw, turn)) };
    let outcome =
        if flaw == Flaw::WritesBeforeItReadsOn { in_turns(&client, &server).await } else { both.await.map(drop) };
    if outcome.is_err() && flaw != Flaw::EndsWhereItShouldReset {
        for stream in [&client, &server] {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// One direction, until its end.
async fn pump(from: &TcpStream, to: &TcpStream, flaw: Flaw, turn: &Mutex<()>) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    // What a flaw keeps back.
    let mut kept: Vec<u8> = Vec::new();
    let mut chunks = 0;
    loop {
        let bytes = read(from, &mut buffer).await?;
        let chunk = &mut buffer[..bytes];
        chunks += 1;
        if bytes == 0 {
            break;
        }
        match flaw {
            Flaw::DropsTheLastBytes | Flaw::SwapsChunks => {
                if flaw == Flaw::SwapsChunks && chunks % 2 == 0 {
                    write(to, chunk).await?;
                    chunk.fill(0);
                    write(to, &kept).await?;
                    kept.clear();
                } else {
                    write(to, &kept).await?;
                    kept = chunk.to_vec();
                }
            }
            Flaw::RepeatsAChunk => {
                write(to, chunk).await?;
                write(to, if chunks == 1 { chunk } else { &[] }).await?;
            }
            Flaw::FlipsABit => {
                chunk[bytes / 2] ^= 1;
                write(to, chunk).await?;
            }
            Flaw::ServesOneAtATime => {
                let _turn = turn.lock().await;
                write(to, chunk).await?;
            }
            Flaw::NeverHoldsBack => {
                kept.extend_from_slice(chunk);
                if let Ok(written) = to.try_write(&kept) {
                    kept.drain(..written);
                }
            }
            _ => write(to, chunk).await?,
        }
    }
    match flaw {
        Flaw::SwapsChunks | Flaw::NeverHoldsBack => write(to, &kept).await?,
        Flaw::ClosesBothOnHalfClose => {
            let _ = SockRef::from(from).shutdown(Shutdown::Both);
            let _ = SockRef::from(to).shutdown(Shutdown::Both);
        }
        Flaw::NeverPassesEnds => return Ok(()),
        _ => {}
    }
    let _ = SockRef::from(to).shutdown(Shutdown::Write);
    Ok(())
}

/// Both directions, one chunk after the other.
async fn in_turns(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let mut buffers = [vec![0; 16 * 1024], vec![0; 16 * 1024]];
    let mut open = [true, true];
    while open != [false, false] {
        let [up, down] = &mut buffers;
        let (bytes, which) = tokio::select! {
            bytes = read(client, up), if open[0] => (bytes?, 0),
            bytes = read(server, down), if open[1] => (bytes?, 1),
        };
        let to = if which == 0 { server } else { client };
        if bytes == 0 {
            open[which] = false;
            let _ = SockRef::from(to).shutdown(Shutdown::Write);
        }
        write(to, &buffers[which][..bytes]).await?;
    }
    Ok(())
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    from.async_io(Interest::READABLE, || from.try_read(buffer)).await
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = to.async_io(Interest::WRITABLE, || to.try_write(bytes)).await?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// The names of the faults that a behaviour showed.
pub(crate) fn faults(matrix: &Matrix, name: &str) -> Vec<&'static str> {
    let row = matrix.rows().find(|(behaviour, _)| behaviour.name() == name);
    let (_, tally) = row.unwrap_or_else(|| panic!("{name} is in {matrix:#?}"));
    tally.faults.keys().copied().collect()
}
