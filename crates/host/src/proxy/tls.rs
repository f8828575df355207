//! TLS towards clients: what one says is decrypted here, and everything behind sees the connection that is inside.
//!
//! The rest of the proxy moves bytes between sockets of the kernel, and its promises are about those. So the inside is one:
//! a pair of connected sockets on the loopback, one end for the session, the other for a task that encrypts. A reset on
//! either side goes through it as a reset, an end as an end, and buffers are short. An end of TCP that TLS did not announce
//! (close_notify, RFC 8446 s6.1) may be somebody else's doing, and is a reset.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headend_engine::relay::Side;
use ring::digest;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::books::FlowPage;
use super::config::Way;
use super::listen;

/// The certificate of a way in, and all that clients can agree on with it.
#[derive(Clone)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// Of what both files had: a certificate that was renewed is another.
    digest: Vec<u8>,
    config: Arc<ServerConfig>,
}

/// A buffer of each end of a pair, and of each direction of the task: a few records of TLS.
const PAIR_BYTES: usize = 128 * 1024;
const COPY_BYTES: usize = 32 * 1024;

/// A client's connection whose inside is served elsewhere.
pub(super) struct Outside {
    client: TlsStream<TcpStream>,
    inside: TcpStream,
}

impl Tls {
    /// Reads a certificate with its chain, and its key, both PEM; the key's file is to be nobody else's.
    pub fn load(certificate: &Path, key: &Path, way: &Way) -> Result<Tls, String> {
        let told = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let read = |path: &Path| std::fs::read(path).map_err(|error| told(path, &error));
        let mode = std::fs::metadata(key).map_err(|error| told(key, &error))?.mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(told(key, &format!("others can read the key; expected mode 600 or 640, found {mode:o}")));
        }
        let (chain_text, key_text) = (read(certificate)?, read(key)?);
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&chain_text).collect();
        let chain = chain.map_err(|error| told(certificate, &error))?;
        if chain.is_empty() {
            return Err(told(certificate, &"no certificate in it; expected PEM, with the chain behind it"));
        }
        let secret = PrivateKeyDer::from_pem_slice(&key_text).map_err(|error| told(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| told(certificate, &format!("{error}, with the key {}", key.display())))?;
        if *way == Way::Http {
            // Browsers would speak HTTP/2 to a proxy.
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        let digest = digest::digest(&digest::SHA256, &[chain_text, key_text].concat()).as_ref().to_vec();
        Ok(Tls { certificate: certificate.into(), key: key.into(), digest, config: Arc::new(config) })
    }

    /// Agrees with a client within `patience`, and returns the inside of its connection.
    pub(super) async fn open(&self, client: TcpStream, patience: Duration) -> io::Result<(TcpStream, Outside)> {
        let agreeing = TlsAcceptor::from(self.config.clone()).accept(client);
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("not within {} s", patience.as_secs_f64()));
        let client = tokio::time::timeout(patience, agreeing).await.map_err(|_| late())??;
        let (ours, inside) = tokio::time::timeout(patience, pair()).await.map_err(|_| late())??;
        Ok((ours, Outside { client, inside }))
    }
}

impl Outside {
    /// Moves bytes until both directions have ended, or either end fails: then both are reset. The books have the client's
    /// own socket meanwhile, so this begins when they have had the inside's.
    pub(super) async fn serve(mut self, flow: Arc<FlowPage>) {
        flow.set_socket(Side::Local, Some(self.client.get_ref().0.as_raw_fd()));
        let listed = Listed(&flow);
        let moved = copy_bidirectional_with_sizes(&mut self.client, &mut self.inside, COPY_BYTES, COPY_BYTES).await;
        if moved.is_ok() {
            listen::let_it_end(self.client.get_ref().0);
            listen::let_it_end(&self.inside);
        }
        drop(listed);
    }
}

/// What the books know of a socket, which is to be gone before that.
struct Listed<'a>(&'a FlowPage);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.set_socket(Side::Local, None);
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        (&self.certificate, &self.key, &self.digest) == (&other.certificate, &other.key, &other.digest)
    }
}

impl Eq for Tls {}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).field("key", &self.key).finish_non_exhaustive()
    }
}

/// Two sockets that are connected to each other. Nobody else on the machine can come between: the one that was accepted is
/// the one that connected.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let made = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.set_send_buffer_size(PAIR_BYTES)?;
        socket.set_recv_buffer_size(PAIR_BYTES)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_out_of_band_inline(true)?;
        listen::let_it_fail(&socket);
        io::Result::Ok(socket)
    };
    let (listening, connecting) = (made()?, made()?);
    listening.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listening.listen(16)?;
    let listening = TcpListener::from_std(listening.into())?;
    let connecting = TcpSocket::from_std_stream(connecting.into()).connect(listening.local_addr()?).await?;
    let own = connecting.local_addr()?;
    loop {
        let (accepted, peer) = listening.accept().await?;
        if peer == own {
            return Ok((accepted, connecting));
        }
    }
}
