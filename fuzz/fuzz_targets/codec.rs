//! Packets of any bytes at all: what the codec reads as headers it writes as bytes that read the same, with checksums that
//! are right, and what it does not read it refuses.
#![no_main]

use headend_engine::codec::checksum::Checksum;
use headend_engine::codec::ip::IpHeader;
use headend_engine::codec::ipv4::Ipv4Header;
use headend_engine::codec::protocol;
use headend_engine::codec::tcp::TcpHeader;
use headend_engine::codec::udp::UdpHeader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| {
    // Each input is tried as every protocol, and not only as the one that its first bytes say.
    tcp(packet, Checksum::ZERO);
    udp(packet, Checksum::ZERO);
    let _ = Ipv4Header::verify(packet);
    let Ok((ip, inside)) = IpHeader::decode(packet) else { return };
    let mut out = [0xa5; 40];
    let written = match ip {
        IpHeader::V4(header) => header.encode(&mut out),
        IpHeader::V6(header) => header.encode(&mut out),
    };
    let len = written.expect("what was read can be written");
    assert_eq!(IpHeader::decode(&out[..len]).map(|(again, _)| again), Ok(ip));
    if matches!(ip, IpHeader::V4(_)) {
        assert_eq!(Ipv4Header::verify(&out), Ok(()));
    }
    match ip.protocol() {
        protocol::TCP => tcp(inside, ip.pseudo_header()),
        protocol::UDP => udp(inside, ip.pseudo_header()),
        _ => {}
    }
});

fn tcp(bytes: &[u8], pseudo: Checksum) {
    let _ = TcpHeader::verify(bytes, pseudo);
    let Ok((header, payload)) = TcpHeader::decode(bytes) else { return };
    let mut out = [0xa5; 60];
    let len = header.encode(pseudo.with(payload), &mut out).expect("what was read can be written");
    let again = [&out[..len], payload].concat();
    assert_eq!(TcpHeader::decode(&again), Ok((header, payload)));
    assert_eq!(TcpHeader::verify(&again, pseudo), Ok(()));
}

fn udp(bytes: &[u8], pseudo: Checksum) {
    let _ = UdpHeader::verify(bytes, pseudo);
    let Ok((header, payload)) = UdpHeader::decode(bytes) else { return };
    let mut out = [0xa5; 8];
    header.encode(pseudo.with(payload), &mut out).expect("what was read can be written");
    let again = [&out[..], payload].concat();
    assert_eq!(UdpHeader::decode(&again), Ok((header, payload)));
    assert_eq!(UdpHeader::verify(&again, pseudo), Ok(()));
}
