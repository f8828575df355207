//! The largest segment that two TCPs announce to each other, cut to what passes in one datagram (RFC 9293 s3.7.1): for paths on
//! which somebody swallows the messages that would tell senders so (RFC 2923 s2.1).

use super::layout::{Layout, TCP_FLAGS, put, u16_at};

const SYN: u8 = 0x02;
/// Bytes of a header of TCP without options, and of headers of IP.
const TCP_HEADER: usize = 20;
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;
/// Kinds of options (RFC 9293 s3.1).
const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
const MSS_LEN: usize = 4;

/// Lowers what a SYN announces to segments that packets of `mtu` bytes have room for. `is_open` says that its checksum is left open,
/// and needs no change.
pub(super) fn clamp(packet: &mut [u8], mtu: u32, is_open: bool) {
    let Some(layout) = Layout::read(packet).filter(|layout| layout.is_tcp) else { return };
    let tcp = layout.transport;
    if packet[tcp + TCP_FLAGS] & SYN == 0 {
        return;
    }
    let headers = if layout.is_ipv6 { IPV6_HEADER } else { IPV4_HEADER } + TCP_HEADER as u32;
    let most = mtu.saturating_sub(headers).min(u32::from(u16::MAX)) as u16;
    let Some(at) = announced(&packet[..layout.payload], tcp + TCP_HEADER) else { return };
    let Some(before) = u16_at(packet, at).filter(|announced| *announced > most) else { return };
    put(packet, at, usize::from(most));
    let place = tcp + layout.checksum_offset();
    if !is_open && let Some(checksum) = u16_at(packet, place) {
        // Of a number that lies across two words each half counts in the other place of its word.
        let in_words = |number: u16| if (at - tcp).is_multiple_of(2) { number } else { number.swap_bytes() };
        put(packet, place, usize::from(replaced(checksum, in_words(before), in_words(most))));
    }
}

/// The place of the announced size among the options that begin at `at`.
fn announced(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *packet.get(at)? {
            END => return None,
            NOTHING => at += 1,
            kind => {
                let len = usize::from(*packet.get(at + 1)?);
                if kind == MSS {
                    return (len == MSS_LEN && at + len <= packet.len()).then_some(at + 2);
                }
                at += len.max(2);
            }
        }
    }
}

/// The checksum after one word under it is another (RFC 1624 s3, equation 3).
fn replaced(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A segment without payload, with these flags and options (padded with END), its checksum complete.
    fn segment(is_ipv6: bool, flags: u8, options: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0; TCP_HEADER];
        tcp[0..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
        tcp[TCP_FLAGS] = flags;
        tcp.extend_from_slice(options);
        tcp.resize(TCP_HEADER + options.len().next_multiple_of(4), END);
        tcp[12] = (tcp.len() as u8 / 4) << 4;
        let mut packet = if is_ipv6 { vec![0x60, 0, 0, 0, 0, 0, 6, 64] } else { vec![0x45; 10] };
        if is_ipv6 {
            packet.extend((0..32).map(|n| n * 7));
            put(&mut packet, 4, tcp.len());
        } else {
            packet.extend([0, 0, 10, 1, 0, 2, 10, 2, 0, 9]);
            put(&mut packet, 2, 20 + tcp.len());
            (packet[6], packet[7], packet[9]) = (0, 0, 6);
        }
        packet.extend(tcp);
        Layout::read(&packet).expect("a segment").complete(&mut packet);
        packet
    }

    /// The packet with its checksum made anew.
    fn completed(mut packet: Vec<u8>) -> Vec<u8> {
        Layout::read(&packet).expect("a segment").complete(&mut packet);
        packet
    }

    #[test]
    fn a_syn_announces_no_more_than_passes_and_its_checksum_holds() {
        for is_ipv6 in [false, true] {
            for options in [&[2, 4, 0x05, 0xb4][..], &[1, 3, 3, 7, 2, 4, 0x23, 0x28], &[1, 2, 4, 0xff, 0xff]] {
                let mut packet = segment(is_ipv6, SYN | 0x10, options);
                clamp(&mut packet, 1_426, false);
                let at = announced(&packet, packet.len() - options.len().next_multiple_of(4)).unwrap();
                let most = if is_ipv6 { 1_366 } else { 1_386 };
                assert_eq!(u16_at(&packet, at), Some(most), "{options:?}");
                assert_eq!(packet, completed(packet.clone()), "{options:?}");
            }
        }
    }

    #[test]
    fn what_is_no_syn_or_announces_less_or_nothing_stays() {
        for (flags, options) in [
            (0x10, &[2, 4, 0xff, 0xff][..]),
            (SYN, &[2, 4, 2, 24]),
            (SYN, &[]),
            (SYN, &[0, 2, 4, 0xff, 0xff]),
            (SYN, &[2, 3, 0xff]),
        ] {
            let before = segment(false, flags, options);
            let mut packet = before.clone();
            clamp(&mut packet, 1_426, false);
            assert_eq!(packet, before, "{options:?}");
        }
    }

    #[test]
    fn an_open_checksum_stays_as_it_is() {
        let mut packet = segment(false, SYN, &[2, 4, 0x05, 0xb4]);
        let place = 20 + 16;
        let before = u16_at(&packet, place);
        clamp(&mut packet, 1_426, true);
        assert_eq!((u16_at(&packet, place), u16_at(&packet, 42)), (before, Some(1_386)));
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_but_the_size_and_the_checksum_changes(
            options in vec(any::<u8>(), 0..40), is_ipv6 in any::<bool>(), mtu in 0..3_000_u32,
        ) {
            let before = segment(is_ipv6, SYN, &options);
            let mut packet = before.clone();
            clamp(&mut packet, mtu, false);
            let changed = packet.iter().zip(&before).filter(|(after, before)| after != before).count();
            prop_assert!(changed <= 4);
            prop_assert_eq!(&packet, &completed(packet.clone()));
        }

        #[test]
        fn any_bytes_are_taken(mut bytes in vec(any::<u8>(), 0..120)) {
            clamp(&mut bytes, 1_426, false);
        }
    }
}
