//! Sequence numbers at the edge, stream positions inside.
//!
//! Position 0 is the SYN, position 1 the first byte, and the FIN follows the last. Positions are 64 bits and never
//! wrap; sequence numbers are 32 bits and do (RFC 9293 s3.4).

/// The sequence number of `position` in a stream whose SYN has the number `isn`.
pub fn number(isn: u32, position: u64) -> u32 {
    isn.wrapping_add(position as u32)
}

/// The position of sequence number `seq`, taken to be the one nearest to `near`; `None` if that lies before the SYN.
pub fn position(isn: u32, seq: u32, near: u64) -> Option<u64> {
    let ahead = seq.wrapping_sub(number(isn, near)) as i32;
    near.checked_add_signed(i64::from(ahead))
}

/// True if timestamp `a` is older than `b`, modulo 2^32 (RFC 7323 s5.2).
pub fn older(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_the_wrap_of_its_sequence_number() {
        let isn = 0xffff_fff0;
        for near in [0_u64, 10, 0x1_0000_0000, 0x7_ffff_ffff] {
            for p in [near, near + 1, near + 0x7fff_ffff, near.saturating_sub(1000)] {
                assert_eq!(position(isn, number(isn, p), near), Some(p), "position {p} near {near}");
            }
        }
        assert_eq!(position(100, 99, 0), None, "one before the SYN");
    }
}
