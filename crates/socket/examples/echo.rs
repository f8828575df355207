//! A server that sends back what clients send, and a client.
//!
//!     headend tunnel keygen server.key; headend tunnel keygen client.key
//!     cargo run -p headend-socket --example echo -- serve 127.0.0.1:4433 server.key CLIENTS-PUBLIC-KEY
//!     cargo run -p headend-socket --example echo -- ask 127.0.0.1:4433 client.key SERVERS-PUBLIC-KEY hello

use std::error::Error;
use std::io;
use std::path::Path;

use headend_socket::{Config, Connection, Endpoint, Identity, PublicKey, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Serves until the endpoint is closed: a task for each connection, and one for each stream.
pub async fn serve(server: Endpoint) {
    while let Some(connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(stream) = connection.accept().await {
                tokio::spawn(echo(stream));
            }
        });
    }
}

async fn echo(mut stream: Stream) -> io::Result<()> {
    let mut buffer = vec![0; 65_536];
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            len => stream.write_all(&buffer[..len]).await?,
        }
    }
    stream.shutdown().await?; // ends this half of the stream
    stream.sent().await // all of it has come: a stream that is dropped before is reset
}

/// Sends `question` on a stream of its own, and returns what comes back.
pub async fn ask(connection: &Connection, question: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let stream = connection.open().await?;
    let (mut from, mut to) = (&stream, &stream);
    let write = async {
        to.write_all(question).await?;
        to.shutdown().await
    };
    let mut answer = Vec::new();
    // At the same time: a server that answers before it has read all must not wait for ever.
    tokio::try_join!(write, from.read_to_end(&mut answer))?;
    Ok(answer)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let key = |text| PublicKey::read(text).ok_or("a public key has 44 letters");
    match words[..] {
        ["serve", address, own, client] => {
            let (own, client) = (Identity::load(Path::new(own))?, key(client)?);
            let allow = Box::new(move |key: &PublicKey| *key == client);
            serve(Endpoint::server(address.parse()?, own, allow, Config::default())?).await;
        }
        ["ask", address, own, server, question] => {
            let client = Endpoint::client("0.0.0.0:0".parse()?, Identity::load(Path::new(own))?, Config::default())?;
            let connection = client.connect(address.parse()?, &key(server)?).await?;
            println!("{}", String::from_utf8_lossy(&ask(&connection, question.as_bytes()).await?));
            client.close(0, "done");
            client.closed().await;
        }
        _ => return Err("echo serve ADDRESS KEY CLIENT, or echo ask ADDRESS KEY SERVER TEXT".into()),
    }
    Ok(())
}
