//! Reading from sockets and writing to them, in whole pieces.

use std::io;

use tokio::net::TcpStream;

pub(crate) async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Appends what has come, at most `most` bytes, and says how many they are: none at the end.
pub(crate) async fn read_some(stream: &TcpStream, into: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let mut buffer = vec![0; most];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut buffer) {
            Ok(bytes) => {
                into.extend_from_slice(&buffer[..bytes]);
                return Ok(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
