//! Many connections that say nothing, for `bench/tunnel.py --only idle`: `idle serve COUNT`, `idle connect COUNT ADDRESS KEY`.

use std::error::Error;
use std::io::Write;

use headend_socket::{Config, Endpoint, Identity, PublicKey};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let loopback = "127.0.0.1:0".parse()?;
    match words[..] {
        ["serve", count] => {
            let count: usize = count.parse()?;
            let (identity, all) = (Identity::generate(), count + 100);
            let config = Config { connections_max: all, connections_per_key: all, ..Config::default() };
            let key = identity.public();
            let server = Endpoint::server(loopback, identity, Box::new(|_| true), config)?;
            say(&format!("{} {key}", server.address()))?;
            let mut held = Vec::new();
            while let Some(connection) = server.accept().await {
                held.push(connection);
            }
        }
        ["connect", count, address, key] => {
            let (count, address) = (count.parse()?, address.parse()?);
            let key = PublicKey::read(key).ok_or("a public key has 44 letters")?;
            let client = Endpoint::client(loopback, Identity::generate(), Config::default())?;
            say("ready")?;
            let mut held = Vec::with_capacity(count);
            // One after the other: a server looks at five hundred hellos a second.
            for _ in 0..count {
                held.push(client.connect(address, &key).await?);
            }
            say("connected")?;
            std::future::pending::<()>().await;
        }
        _ => return Err("idle serve COUNT, or idle connect COUNT ADDRESS KEY".into()),
    }
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    println!("{line}");
    std::io::stdout().flush()
}
