//! Elements of the sets of our nftables table, as nf_tables reads them over netlink: the proxy tells the kernel that it
//! serves, again and again, and which servers have not answered.
//!
//! A set's element has a time-out. So a proxy that is stopped, killed or stuck need not say so: what it said last is over
//! after less than a second, and the rules divert nothing any more.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::super::rules::{ALIVE4, ALIVE6, SERVING, SERVING_TIME, TABLE_NAME};

// linux/netfilter/nfnetlink.h, nf_tables.h: numbers of messages and attributes.
const BATCH_BEGIN: u16 = libc::NFNL_MSG_BATCH_BEGIN as u16;
const BATCH_END: u16 = libc::NFNL_MSG_BATCH_END as u16;
const NEW_ELEMENT: u16 = ((libc::NFNL_SUBSYS_NFTABLES as u16) << 8) | libc::NFT_MSG_NEWSETELEM as u16;
const DELETE_ELEMENT: u16 = ((libc::NFNL_SUBSYS_NFTABLES as u16) << 8) | libc::NFT_MSG_DELSETELEM as u16;
const LIST_TABLE: u16 = 1;
const LIST_SET: u16 = 2;
const LIST_ELEMENTS: u16 = 3;
const LIST_ELEMENT: u16 = 1;
const ELEMENT_KEY: u16 = 1;
const ELEMENT_TIMEOUT: u16 = 4;
const DATA_VALUE: u16 = 1;
const NFPROTO_INET: u8 = 1;
/// Says that an attribute has attributes in it (linux/netlink.h, NLA_F_NESTED).
const NESTED: u16 = 1 << 15;
/// The time that the kernel has to answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// The protocols of which the proxy says that it serves their connections: UDP is rejected only while it does.
const SERVED: [u8; 2] = [6, 17];

/// The way to the kernel's sets.
pub(super) struct Sets {
    socket: OwnedFd,
    next: u32,
}

impl Sets {
    pub(super) fn open() -> io::Result<Sets> {
        // SAFETY: takes numbers; what it returns is checked, and nobody else's.
        let fd =
            unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_NETFILTER) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened here.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Sets { socket, next: 1 })
    }

    /// Says that the proxy serves, for [`SERVING_TIME`] from now on. That there are no rules is no error.
    pub(super) fn say_serving(&mut self) -> io::Result<()> {
        let elements =
            SERVED.map(|protocol| Element { set: SERVING, key: vec![protocol], timeout: Some(SERVING_TIME) });
        // Kernels before 6.12 do not renew the time of an element that is there.
        let again: Vec<(u16, &Element)> =
            elements.iter().flat_map(|one| [(DELETE_ELEMENT, one), (NEW_ELEMENT, one)]).collect();
        if self.send(&again)? {
            return Ok(());
        }
        self.send(&elements.each_ref().map(|one| (NEW_ELEMENT, one))).map(drop)
    }

    /// Takes a server from those that are known to be alive.
    pub(super) fn forget(&mut self, server: SocketAddr) -> io::Result<()> {
        let mut key = match server.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        // Each part of a key has whole words.
        key.extend(server.port().to_be_bytes());
        key.extend([0, 0]);
        let set = if server.is_ipv4() { ALIVE4 } else { ALIVE6 };
        self.send(&[(DELETE_ELEMENT, &Element { set, key, timeout: None })]).map(drop)
    }

    /// Makes all of these changes or none; false if something was not there.
    fn send(&mut self, changes: &[(u16, &Element)]) -> io::Result<bool> {
        let mut bytes = Vec::with_capacity(256);
        let first = self.next;
        self.message(&mut bytes, BATCH_BEGIN, 0, libc::NFNL_SUBSYS_NFTABLES as u16, 0, |_| {});
        for (kind, element) in changes {
            let flags = libc::NLM_F_ACK | if *kind == NEW_ELEMENT { libc::NLM_F_CREATE } else { 0 };
            self.message(&mut bytes, *kind, flags, 0, NFPROTO_INET, |out| element.write(out));
        }
        self.message(&mut bytes, BATCH_END, 0, libc::NFNL_SUBSYS_NFTABLES as u16, 0, |_| {});
        // SAFETY: the bytes live until the call returns. Without an address netlink sends to the kernel.
        if unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answers = 0;
        let mut outcome = Ok(true);
        while answers < changes.len() {
            let mut buffer = [0_u8; 8_192];
            // SAFETY: the buffer is as long as said, and lives until the call returns.
            let len = unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
            for (number, code) in errors(&buffer[..len]) {
                if number < first {
                    // Of an earlier order that was given up.
                    continue;
                }
                answers += 1;
                match -code {
                    0 => {}
                    libc::ENOENT => outcome = outcome.and(Ok(false)),
                    code => outcome = Err(io::Error::from_raw_os_error(code)),
                }
            }
        }
        outcome
    }

    fn message(
        &mut self,
        out: &mut Vec<u8>,
        kind: u16,
        flags: libc::c_int,
        resource: u16,
        family: u8,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        out.extend_from_slice(&self.next.to_ne_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[family, libc::NFNETLINK_V0 as u8]);
        out.extend_from_slice(&resource.to_be_bytes());
        body(out);
        self.next = self.next.wrapping_add(1).max(1);
        let len = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&len.to_ne_bytes());
    }
}

/// An element of a set, by its key.
struct Element {
    set: &'static str,
    key: Vec<u8>,
    timeout: Option<Duration>,
}

impl Element {
    fn write(&self, out: &mut Vec<u8>) {
        let text = |text: &str| [text.as_bytes(), &[0]].concat();
        attribute(out, LIST_TABLE, |out| out.extend(text(TABLE_NAME)));
        attribute(out, LIST_SET, |out| out.extend(text(self.set)));
        attribute(out, LIST_ELEMENTS | NESTED, |out| {
            attribute(out, LIST_ELEMENT | NESTED, |out| {
                attribute(out, ELEMENT_KEY | NESTED, |out| attribute(out, DATA_VALUE, |out| out.extend(&self.key)));
                if let Some(timeout) = self.timeout {
                    let ms = timeout.as_millis() as u64;
                    attribute(out, ELEMENT_TIMEOUT, |out| out.extend(ms.to_be_bytes()));
                }
            });
        });
    }
}

fn attribute(out: &mut Vec<u8>, name: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&name.to_ne_bytes());
    body(out);
    let len = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&len.to_ne_bytes());
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Numbers of messages, and what the kernel says of each: 0, or an error below it.
fn errors(mut bytes: &[u8]) -> Vec<(u32, i32)> {
    let mut found = Vec::new();
    while let Some(header) = bytes.first_chunk::<{ mem::size_of::<libc::nlmsghdr>() }>() {
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let len = (word(0) as usize).max(header.len());
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        if let (libc::NLMSG_ERROR, Some(code)) =
            (libc::c_int::from(kind), bytes.get(16..20).and_then(|code| code.first_chunk()))
        {
            found.push((word(8), i32::from_ne_bytes(*code)));
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}
