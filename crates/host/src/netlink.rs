//! Questions and orders to the kernel's routing tables (rtnetlink(7)), answered before the call returns.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::error::{During, Error};

/// A connection to the tables of the namespace in which it was opened, wherever it is used.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a connection to the tables of the calling thread's namespace.
    pub fn open() -> Result<Netlink, Error> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok::<_, io::Error>(socket)
        };
        Ok(Netlink { socket: open().during(|| "open a netlink socket")?, sequence: 0 })
    }

    /// Has something made that must not be there yet.
    pub(crate) fn create(&mut self, what: RouteNetlinkMessage) -> io::Result<()> {
        self.exchange(what, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Has something that is there replaced.
    pub(crate) fn replace(&mut self, what: RouteNetlinkMessage) -> io::Result<()> {
        self.exchange(what, NLM_F_ACK | NLM_F_REPLACE).map(drop)
    }

    /// Has something changed or removed.
    pub(crate) fn change(&mut self, what: RouteNetlinkMessage) -> io::Result<()> {
        self.exchange(what, NLM_F_ACK).map(drop)
    }

    /// Asks for everything of a kind.
    pub(crate) fn list(&mut self, what: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.exchange(what, NLM_F_DUMP)
    }

    /// Sends a message and collects the answers up to the one that ends them.
    fn exchange(&mut self, what: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(what));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
                let length = (message.header.length as usize).next_multiple_of(4).max(4);
                rest = rest.get(length..).unwrap_or_default();
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    // An error message without a code is the acknowledgement.
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }
}
