//! The proxy's way to servers, for others: names looked up, destinations checked, addresses tried in turn; and for datagrams.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UdpSocket};

use super::access::{Denied, Destinations};
use super::connect::{self, Dialer, Failure};
use super::inbound::{Destination, Host};
use super::lookups::Lookups;
use super::side::SideOptions;
use super::{OWN_ADDRESSES_AGE_MAX, still_own};

/// The rules about addresses.
type Check<'a> = dyn Fn(&Host, SocketAddr) -> Result<(), Denied> + Send + Sync + 'a;

/// Connections to where clients want to go, as far as rules let them.
#[derive(Debug)]
pub struct Outward {
    lookups: Lookups,
    side: SideOptions,
    destinations: Destinations,
    own: Mutex<(Instant, Arc<[IpAddr]>)>,
}

impl Outward {
    /// Connections to the destinations that these rules allow.
    pub fn new(destinations: Destinations) -> io::Result<Outward> {
        let own = (Instant::now(), connect::own_addresses()?.into());
        let lookups = Lookups::start()?;
        Ok(Outward { lookups, side: SideOptions::default(), destinations, own: Mutex::new(own) })
    }

    /// Connects to a server within `limit`, for a client whose look-ups are counted under this address. The connection is reset
    /// when it is dropped (SO_LINGER of zero) unless that is taken back.
    pub async fn connect(&self, client: IpAddr, to: &Destination, limit: Duration) -> Result<TcpStream, Failure> {
        let own = self.own_addresses();
        let check = |host: &Host, address: SocketAddr| self.destinations.check(host, address, &own);
        self.dialer(client, &check).connect(to, limit).await
    }

    /// A socket for datagrams to and from a server alone, found as [`connect`](Outward::connect) finds it. Nobody has answered yet.
    pub async fn datagrams(&self, client: IpAddr, to: &Destination, limit: Duration) -> Result<UdpSocket, Failure> {
        let own = self.own_addresses();
        let check = |host: &Host, address: SocketAddr| self.destinations.check(host, address, &own);
        let mut failed = None;
        for address in self.dialer(client, &check).allowed(to, limit).await? {
            match towards(address).await {
                Ok(socket) => return Ok(socket),
                Err(error) => failed = Some(Failure::of(to, &error)),
            }
        }
        Err(failed.expect("a destination without an address has failed before"))
    }

    fn dialer<'a>(&'a self, client: IpAddr, check: &'a Check<'a>) -> Dialer<'a> {
        let (side, lookups) = (&self.side, &self.lookups);
        Dialer { side, source: None, lookups, client, check, names: Some(&self.destinations), made: None }
    }

    fn own_addresses(&self) -> Arc<[IpAddr]> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own.0.elapsed() > OWN_ADDRESSES_AGE_MAX {
            *own = (Instant::now(), still_own(&own.1, connect::own_addresses()));
        }
        own.1.clone()
    }
}

async fn towards(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    Ok(socket)
}
