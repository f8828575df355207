//! Wrong bits in packets that a medium has corrupted: one in each, behind the IP header, so that the packet finds its way and its
//! receiver finds out.

use crate::offload::OpenChecksum;

/// Makes bits wrong, the next of each packet always somewhere else.
#[derive(Debug, Default)]
pub(super) struct Corrupter {
    room: Vec<u8>,
    count: u64,
}

impl Corrupter {
    /// The packet with a wrong bit, its checksum that of the right one. `frame` bytes before the packet stay as they are.
    pub(super) fn corrupt(&mut self, packet: &[u8], open: Option<OpenChecksum>, frame: usize) -> &[u8] {
        self.room.clear();
        self.room.extend_from_slice(packet);
        if let Some(open) = open {
            open.complete(&mut self.room);
        }
        let header = match self.room.get(frame).map_or(0, |byte| byte >> 4) {
            4 => 4 * usize::from(self.room[frame] & 0x0f),
            6 => 40,
            _ => 0,
        };
        let from = frame + header;
        self.count += 1;
        // Steps of the golden ratio (Knuth, The Art of Computer Programming, vol. 3, section 6.4) reach every place alike.
        let place = self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        if let Some(bits) = (8 * self.room.len().saturating_sub(from) as u64).checked_sub(1) {
            let bit = place % (bits + 1);
            self.room[from + (bit / 8) as usize] ^= 1 << (bit % 8);
        }
        &self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_behind_the_header_is_wrong_each_time_another() {
        let mut corrupter = Corrupter::default();
        let packet: Vec<u8> = [0x45_u8].into_iter().chain([7; 99]).collect();
        let places: std::collections::BTreeSet<usize> = (0..100)
            .map(|_| {
                let wrong = corrupter.corrupt(&packet, None, 0);
                let bits: Vec<usize> =
                    (0..8 * packet.len()).filter(|&n| (wrong[n / 8] ^ packet[n / 8]) >> (n % 8) & 1 == 1).collect();
                assert!(bits.len() == 1 && bits[0] >= 8 * 20, "{bits:?}");
                bits[0]
            })
            .collect();
        assert!(places.len() > 50, "{places:?}");
        assert_eq!(corrupter.corrupt(&[0x45], None, 0), [0x45], "nothing is behind the header");
    }
}
