//! A TCP connection and a stream joined, as if they were one wire: ends, resets and back-pressure pass both ways.

use std::io;
use std::time::Duration;

use headend_socket::Stream;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf as TcpRead, WriteHalf as TcpWrite};

/// The code of a stream whose TCP connection was reset.
const RESET: u64 = 64;
/// Bytes that are moved at a time.
const BUFFER: usize = 65_536;

/// Joins them until both directions have ended, or until one side is reset, and then the other one is.
pub(super) async fn join(mut tcp: TcpStream, stream: Stream) {
    // A connection that was dialled is reset when it is dropped, unless it came to an orderly end.
    let linger = carry(&mut tcp, stream).await.is_err().then_some(Duration::ZERO);
    let _ = SockRef::from(&tcp).set_linger(linger);
}

async fn carry(tcp: &mut TcpStream, stream: Stream) -> io::Result<()> {
    let (from_tcp, to_tcp) = tcp.split();
    match tokio::try_join!(inwards(from_tcp, &stream), outwards(&stream, to_tcp)) {
        // A stream that is dropped before all has come is reset.
        Ok(_) => stream.sent().await,
        Err(error) => {
            stream.reset(RESET);
            stream.stop(RESET);
            Err(error)
        }
    }
}

/// From the TCP connection to the stream, whose other end may stop reading while there is nothing to write.
async fn inwards(mut from: TcpRead<'_>, mut to: &Stream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let len = tokio::select! {
            len = from.read(&mut buffer) => len?,
            error = to.stopped() => return Err(error),
        };
        match len {
            0 => return to.shutdown().await,
            len => to.write_all(&buffer[..len]).await?,
        }
    }
}

/// From the stream to the TCP connection, whose reset is heard also after its own end and while there is nothing to write.
async fn outwards(mut from: &Stream, mut to: TcpWrite<'_>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let len = tokio::select! {
            len = from.read(&mut buffer) => len?,
            ready = to.ready(Interest::ERROR) => {
                ready?;
                let error = to.as_ref().take_error()?;
                return Err(error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()));
            }
        };
        match len {
            0 => return to.shutdown().await,
            len => to.write_all(&buffer[..len]).await?,
        }
    }
}
