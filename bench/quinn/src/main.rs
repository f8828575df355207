//! TCP connections over QUIC by quinn, each on a stream of one connection: what `headend tunnel` does, with another transport.
//!
//!     quinn-forward serve LISTEN-UDP TO-TCP cubic|bbr
//!     quinn-forward connect LISTEN-TCP SERVER-UDP cubic|bbr

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes that are moved at a time, as the tunnel moves them.
const BUFFER: usize = 65_536;

/// One thread, as the tunnel has.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, listen, to, controller] = &words[..] else { return Err("quinn-forward WAY LISTEN TO CONTROLLER".into()) };
    let (listen, to): (SocketAddr, SocketAddr) = (listen.parse()?, to.parse()?);
    let controller: Arc<dyn ControllerFactory + Send + Sync> = match controller.as_str() {
        "cubic" => Arc::new(CubicConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => return Err(format!("{other}: cubic or bbr").into()),
    };
    let mut transport = TransportConfig::default();
    // Windows as the tunnel's, so that neither is held back by them.
    transport.congestion_controller_factory(controller).stream_receive_window(VarInt::from_u32(4 << 20));
    transport.send_window(64 << 20);
    match way.as_str() {
        "serve" => serve(listen, to, transport).await,
        _ => connect(listen, to, transport).await,
    }
}

async fn serve(listen: SocketAddr, to: SocketAddr, transport: TransportConfig) -> Outcome<()> {
    let made = rcgen::generate_simple_self_signed(vec!["bench".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let mut config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key)?;
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::server(config, listen)?;
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await?;
        tokio::spawn(async move {
            while let Ok((send, receive)) = connection.accept_bi().await {
                tokio::spawn(async move { join(TcpStream::connect(to).await?, send, receive).await });
            }
        });
    }
    Ok(())
}

async fn connect(listen: SocketAddr, to: SocketAddr, transport: TransportConfig) -> Outcome<()> {
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    tls.alpn_protocols = Vec::new();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(to, "bench")?.await?;
    let listener = TcpListener::bind(listen).await?;
    eprintln!("connected to {to}");
    loop {
        let (tcp, _) = listener.accept().await?;
        let connection = connection.clone();
        tokio::spawn(async move {
            let (send, receive) = connection.open_bi().await?;
            join(tcp, send, receive).await
        });
    }
}

async fn join(mut tcp: TcpStream, mut send: SendStream, mut receive: RecvStream) -> Outcome<()> {
    tcp.set_nodelay(true)?;
    let (mut from, mut to) = tcp.split();
    let inwards = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match from.read(&mut buffer).await? {
                0 => break,
                len => send.write_all(&buffer[..len]).await?,
            }
        }
        send.finish()?;
        Outcome::Ok(())
    };
    let outwards = async {
        let mut buffer = vec![0; BUFFER];
        while let Some(len) = receive.read(&mut buffer).await? {
            to.write_all(&buffer[..len]).await?;
        }
        to.shutdown().await?;
        Outcome::Ok(())
    };
    tokio::try_join!(inwards, outwards)?;
    Ok(())
}

/// Whoever answers is taken for the server: this is a line of the bench's own.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
