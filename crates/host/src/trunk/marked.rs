//! Datagrams that leave with a mark in their IP headers: a code point as well as the ECN field, which alone quinn-udp sets.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use headend_datagram::Train;
use socket2::{MsgHdr, SockAddr, SockRef};

/// Bytes of the header of a control message and what they are rounded up to (cmsg(3), on machines of 64 bits).
const HEADER: usize = 16;
const ALIGNED: usize = 8;
/// linux/udp.h
const UDP_SEGMENT: libc::c_int = 103;

/// Sends datagrams of one train, `part` of it, together.
pub(super) fn send(socket: &UdpSocket, train: &Train, part: &[u8]) -> io::Result<()> {
    let control = control(train, part.len() > train.datagram);
    let to = SockAddr::from(train.way.to);
    let buffers = [IoSlice::new(part)];
    let message = MsgHdr::new().with_addr(&to).with_buffers(&buffers).with_control(&control);
    SockRef::from(socket).sendmsg(&message, libc::MSG_DONTWAIT).map(drop)
}

/// The control messages: the octet, the length of each datagram if there are several, and the address that they leave from.
fn control(train: &Train, is_several: bool) -> Vec<u8> {
    let mut control = Vec::with_capacity(4 * (HEADER + 24));
    let tos = libc::c_int::from(train.tos).to_ne_bytes();
    let is_ipv4 = match train.way.to {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(to) => to.ip().to_ipv4_mapped().is_some(),
    };
    if is_ipv4 {
        push(&mut control, libc::IPPROTO_IP, libc::IP_TOS, &tos);
    } else {
        push(&mut control, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &tos);
    }
    if is_several {
        push(&mut control, libc::SOL_UDP, UDP_SEGMENT, &(train.datagram as u16).to_ne_bytes());
    }
    match train.way.from {
        // struct in_pktinfo (ip(7)): no interface, the address to send from, and one that is read only.
        Some(IpAddr::V4(from)) => {
            let info = [[0; 4], from.octets(), [0; 4]].concat();
            push(&mut control, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        // struct in6_pktinfo (ipv6(7)): the address, and no interface.
        Some(IpAddr::V6(from)) => {
            let info = [&from.octets()[..], &[0; 4]].concat();
            push(&mut control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        None => {}
    }
    control
}

/// Adds a control message: struct cmsghdr, its data, and what makes the next begin where it may.
fn push(control: &mut Vec<u8>, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
    control.extend_from_slice(&(HEADER + data.len()).to_ne_bytes());
    control.extend_from_slice(&level.to_ne_bytes());
    control.extend_from_slice(&kind.to_ne_bytes());
    control.extend_from_slice(data);
    control.resize(control.len().next_multiple_of(ALIGNED), 0);
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use headend_datagram::Way;
    use headend_engine::packet::Class;
    use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};

    use super::*;

    /// Length, length of each datagram and ECN field, which is what quinn-udp tells of the octet, of a train of so many bytes as it arrives.
    fn sent(loopback: IpAddr, from: Option<IpAddr>, len: usize) -> (usize, usize, Option<EcnCodepoint>) {
        let bind = || UdpSocket::bind((loopback, 0)).expect("a port");
        let (sender, receiver) = (bind(), bind());
        let state = UdpSocketState::new((&receiver).into()).expect("options");
        let way = Way { to: receiver.local_addr().expect("it is bound"), from };
        let tos = Class::Header.code_point() << 2 | EcnCodepoint::Ect0 as u8;
        let train = Train { way, tos, bytes: vec![7; len], datagram: 100 };
        send(&sender, &train, &train.bytes).expect("the kernel takes it");
        receiver.set_nonblocking(false).expect("it may wait");
        let (mut buffer, mut meta) = ([0; 512], [RecvMeta::default()]);
        state.recv((&receiver).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta).expect("it has come");
        (meta[0].len, meta[0].stride, meta[0].ecn)
    }

    #[test]
    fn a_train_leaves_in_datagrams_that_have_the_octet() {
        let (four, six): (IpAddr, IpAddr) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        for (loopback, from) in [(four, None), (four, Some(four)), (six, None), (six, Some(six))] {
            assert_eq!(sent(loopback, from, 90), (90, 90, Some(EcnCodepoint::Ect0)), "{loopback}, {from:?}");
            let (len, stride, _) = sent(loopback, from, 250);
            assert!(stride == 100 && (len == 250 || len == 100), "{loopback}, {from:?}: {stride} of {len}");
        }
    }
}
