//! A stream of pictures over unreliable frames, and beside it over plain UDP and over TCP: what `bench/media.py` measures.
//!
//! The encoder is synthetic: 30 pictures a second, a key picture every two seconds that is four times as long as others, and lengths
//! that vary by a third. Over frames it follows [`Connection::rate`]; over UDP and TCP it does not know a rate and keeps to its own. Each
//! picture says when it was captured, by the clock of the machine, which both ends share.
//!
//!     media receive frames|udp|tcp ADDRESS:PORT SECONDS
//!     media send frames|udp|tcp ADDRESS:PORT SECONDS RATE_BPS DEADLINE_MS [PUBLIC_KEY]
//!
//! Both print JSON. A receiver of frames prints its public key first.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use headend_socket::{Config, Connection, Endpoint, Fate, Identity, PublicKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};

type Failure = Box<dyn Error>;

const PICTURES_PER_S: u64 = 30;
/// A key picture comes first in each group.
const GROUP: u64 = 60;
const KEY_TIMES: u64 = 4;
/// What a picture begins with: its number and when it was captured [ns].
const HEADER: usize = 12;
/// What a datagram of plain UDP begins with besides: the number of the piece, and of all pieces. Pieces are as long as those of MPEG-TS.
const PIECE_HEADER: usize = 4;
const PIECE: usize = 1_316 - PIECE_HEADER - HEADER;
/// The part of the rate that the encoder uses, in percent: a key picture must not wait long.
const USED_PERCENT: u64 = 85;
const RATE_MIN_BPS: u64 = 100_000;
/// Pictures that make up for what waits.
const CATCH_UP: u64 = 6;
/// Pictures that wait for TCP, beyond which the encoder leaves pictures out.
const TCP_PICTURES: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["receive", way, address, seconds] => {
            let span = Duration::from_secs_f64(seconds.parse()?);
            let seen = match way {
                "frames" => receive_frames(address.parse()?, span).await?,
                "udp" => receive_udp(address.parse()?, span).await?,
                "tcp" => receive_tcp(address.parse()?, span).await?,
                _ => return Err(format!("{way}: expected frames, udp or tcp").into()),
            };
            seen.print();
            Ok(())
        }
        ["send", way, address, seconds, rate_bps, deadline_ms, ref more @ ..] => {
            let to: SocketAddr = address.parse()?;
            let film = Film {
                span: Duration::from_secs_f64(seconds.parse()?),
                rate_bps: rate_bps.parse()?,
                life: Duration::from_millis(deadline_ms.parse()?),
            };
            match (way, more) {
                ("frames", [key]) => {
                    let key = PublicKey::read(key).ok_or("expected a public key, as the receiver prints it")?;
                    send_frames(to, &key, &film).await
                }
                ("udp", []) => send_udp(to, &film).await,
                ("tcp", []) => send_tcp(to, &film).await,
                _ => Err("expected frames and a public key, udp or tcp".into()),
            }
        }
        _ => Err("expected receive or send, and what they take: see the head of this file".into()),
    }
}

/// What is sent: for how long, at which rate at most, and for how long a picture is worth something.
struct Film {
    span: Duration,
    rate_bps: u64,
    life: Duration,
}

/// A synthetic encoder.
#[derive(Default)]
struct Encoder {
    number: u64,
    bytes: u64,
}

impl Encoder {
    /// The next picture, at this rate.
    fn picture(&mut self, rate_bps: u64) -> Vec<u8> {
        let mean = rate_bps / 8 / PICTURES_PER_S;
        // A group with one key picture has the mean in all.
        let plain = mean * GROUP / (GROUP - 1 + KEY_TIMES);
        let share = if self.number.is_multiple_of(GROUP) { KEY_TIMES } else { 1 };
        let spread = self.number.wrapping_mul(2_654_435_761) >> 7;
        let len = (plain * share * (67 + spread % 67) / 100).max(HEADER as u64);
        let mut picture = vec![0; len as usize];
        picture[..4].copy_from_slice(&(self.number as u32).to_be_bytes());
        picture[4..HEADER].copy_from_slice(&clock_ns().to_be_bytes());
        self.number += 1;
        self.bytes += len;
        picture
    }

    fn print(&self, film: &Film, left_out: u64, more: &str) {
        let mean_bps = self.bytes as f64 * 8.0 / film.span.as_secs_f64();
        println!("{{\"captured\": {}, \"left_out\": {left_out}, \"mean_bps\": {mean_bps:.0}{more}}}", self.number);
    }
}

/// Pictures that have come, and how long each took from when it was captured.
#[derive(Default)]
struct Seen {
    pictures: BTreeMap<u32, u64>,
    bytes: u64,
}

impl Seen {
    fn take(&mut self, picture: &[u8]) {
        let Some((header, _)) = picture.split_first_chunk::<HEADER>() else { return };
        let number = u32::from_be_bytes(header[..4].try_into().expect("four bytes"));
        let captured = u64::from_be_bytes(header[4..].try_into().expect("eight bytes"));
        self.pictures.entry(number).or_insert(clock_ns().saturating_sub(captured));
        self.bytes += picture.len() as u64;
    }

    fn print(&self) {
        let rows = self.pictures.iter().map(|(number, took)| format!("[{number}, {:.3}]", *took as f64 / 1e6));
        println!("{{\"bytes\": {}, \"pictures_ms\": [{}]}}", self.bytes, rows.collect::<Vec<_>>().join(", "));
    }
}

fn clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

async fn send_frames(to: SocketAddr, key: &PublicKey, film: &Film) -> Result<(), Failure> {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let client = Endpoint::client(any, Identity::generate(), Config::default())?;
    let connection = client.connect(to, key).await?;
    let counting = tokio::spawn(count_fates(connection.clone()));
    let (mut encoder, mut left_out) = (Encoder::default(), 0);
    let mut ticks = interval(Duration::from_nanos(1_000_000_000 / PICTURES_PER_S));
    let end = Instant::now() + film.span;
    while Instant::now() < end {
        ticks.tick().await;
        let rate_bps = connection.rate().map_or(film.rate_bps / 2, |rate| rate.get());
        let rate_bps = (rate_bps * USED_PERCENT / 100).clamp(RATE_MIN_BPS, film.rate_bps);
        // What waits, of a key picture above all, is made up for by the next few.
        let behind_bps = connection.occupancy().bytes * 8 * PICTURES_PER_S / CATCH_UP;
        let picture = encoder.picture(rate_bps.saturating_sub(behind_bps).max(RATE_MIN_BPS));
        if let Err(refused) = connection.send_frame(&picture, Instant::now() + film.life) {
            eprintln!("a picture of {} bytes: {refused}", picture.len());
            left_out += 1;
        }
    }
    sleep(Duration::from_secs(1)).await;
    connection.close(64, "the film is over");
    let fates = counting.await?;
    client.close(64, "the film is over");
    client.closed().await;
    let names = [(Fate::Acknowledged, "acknowledged"), (Fate::Lost, "lost"), (Fate::Expired, "expired")];
    let count = |fate: Fate| fates.iter().filter(|one| **one == fate).count();
    let more: String = names.iter().map(|(fate, name)| format!(", \"{name}\": {}", count(*fate))).collect();
    encoder.print(film, left_out, &more);
    Ok(())
}

async fn count_fates(connection: Connection) -> Vec<Fate> {
    let mut fates = Vec::new();
    while let Ok((_, fate)) = connection.fate().await {
        fates.push(fate);
    }
    fates
}

async fn receive_frames(at: SocketAddr, span: Duration) -> Result<Seen, Failure> {
    let identity = Identity::generate();
    let key = identity.public();
    let server = Endpoint::server(at, identity, Box::new(|_| true), Config::default())?;
    println!("{key}");
    let mut seen = Seen::default();
    let all = async {
        let Some(connection) = server.accept().await else { return };
        while let Ok(picture) = connection.read_frame().await {
            seen.take(&picture);
        }
    };
    let _ = timeout(span, all).await;
    Ok(seen)
}

async fn send_udp(to: SocketAddr, film: &Film) -> Result<(), Failure> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    socket.connect(to).await?;
    let mut encoder = Encoder::default();
    let mut ticks = interval(Duration::from_nanos(1_000_000_000 / PICTURES_PER_S));
    let end = Instant::now() + film.span;
    while Instant::now() < end {
        ticks.tick().await;
        let picture = encoder.picture(film.rate_bps);
        let pieces = picture[HEADER..].chunks(PIECE);
        let count = pieces.len() as u16;
        for (at, piece) in pieces.enumerate() {
            let numbers = [(at as u16).to_be_bytes(), count.to_be_bytes()].concat();
            // A piece that the kernel does not take is lost.
            let _ = socket.send(&[&picture[..HEADER], &numbers, piece].concat()).await;
        }
    }
    sleep(Duration::from_secs(1)).await;
    encoder.print(film, 0, "");
    Ok(())
}

async fn receive_udp(at: SocketAddr, span: Duration) -> Result<Seen, Failure> {
    let socket = UdpSocket::bind(at).await?;
    let mut seen = Seen::default();
    let mut pieces: BTreeMap<u32, BTreeSet<u16>> = BTreeMap::new();
    let mut buffer = vec![0; 65_536];
    let all = async {
        while let Ok(len) = socket.recv(&mut buffer).await {
            let Some((header, _)) = buffer[..len].split_first_chunk::<{ HEADER + PIECE_HEADER }>() else { continue };
            let field = |from: usize| u16::from_be_bytes([header[from], header[from + 1]]);
            let number = u32::from_be_bytes(header[..4].try_into().expect("four bytes"));
            let mine = pieces.entry(number).or_default();
            if mine.insert(field(HEADER)) && mine.len() == usize::from(field(HEADER + 2)) {
                seen.take(&buffer[..len]);
            }
        }
    };
    let _ = timeout(span, all).await;
    Ok(seen)
}

async fn send_tcp(to: SocketAddr, film: &Film) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (sender, mut pictures) = mpsc::channel::<Vec<u8>>(TCP_PICTURES);
    let writing = tokio::spawn(async move {
        while let Some(picture) = pictures.recv().await {
            let len = (picture.len() as u32).to_be_bytes();
            if stream.write_all(&[&len[..], &picture].concat()).await.is_err() {
                return;
            }
        }
        let _ = stream.shutdown().await;
    });
    let (mut encoder, mut left_out) = (Encoder::default(), 0);
    let mut ticks = interval(Duration::from_nanos(1_000_000_000 / PICTURES_PER_S));
    let end = Instant::now() + film.span;
    while Instant::now() < end {
        ticks.tick().await;
        left_out += u64::from(sender.try_send(encoder.picture(film.rate_bps)).is_err());
    }
    drop(sender);
    // What is still in the socket's buffer leaves by itself.
    let _ = timeout(Duration::from_secs(1), writing).await;
    encoder.print(film, left_out, "");
    Ok(())
}

async fn receive_tcp(at: SocketAddr, span: Duration) -> Result<Seen, Failure> {
    let listener = TcpListener::bind(at).await?;
    let mut seen = Seen::default();
    let all = async {
        let (mut stream, _) = listener.accept().await?;
        loop {
            let mut picture = vec![0; stream.read_u32().await? as usize];
            stream.read_exact(&mut picture).await?;
            seen.take(&picture);
        }
        #[expect(unreachable_code, reason = "the end of the stream is an error")]
        Ok::<(), std::io::Error>(())
    };
    let _ = timeout(span, all).await;
    Ok(seen)
}
