//! The buffer that a router needs so that no user's packet is dropped (thesis s2.2.7, equations 1 and 2).

use crate::units::{Bytes, Rate};

/// The circuits and rates that use the buffer of one outgoing link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trunks {
    /// Packets that a control TCP's window needs for its fast retransmit to work: alpha. The thesis takes 8.
    pub alpha: u64,
    /// Control TCPs that use the buffer at the same time: N.
    pub connections: u64,
    /// The largest VMSS among them.
    pub vmss: Bytes,
    /// A header packet: HP_Sz, 52 bytes with timestamps.
    pub header: Bytes,
    /// All guaranteed minimum bandwidths together.
    pub gmb: Rate,
    /// The link's rate, above `gmb`; beta is the one divided by the other.
    pub link: Rate,
}

/// The parts of the buffer, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Header packets that may wait: HP_Th, in packets.
    pub headers: u64,
    /// Bytes for header packets: HP_BS.
    pub header_bytes: Bytes,
    /// Bytes for users' packets sent under the control of control TCPs: UP_BS_TCP.
    pub controlled: Bytes,
    /// Bytes for users' packets sent at a guaranteed rate: UP_BS_GMB.
    pub guaranteed: Bytes,
}

impl Trunks {
    /// Works the equations out.
    ///
    /// # Panics
    /// If `gmb` is not below `link`.
    pub fn buffer(&self) -> Buffer {
        let Trunks { alpha, connections, vmss, header, gmb, link } = *self;
        assert!(gmb < link, "a link carries more than what is guaranteed: {self:?}");
        let headers = alpha.saturating_mul(connections);
        let header_bytes = header * headers;
        // HP_BS VMSS / HP_Sz + N VMSS: a packet of a VMSS for each header, and for each TCP what it has not sent one for.
        let controlled = vmss * headers + vmss * connections;
        // beta / (1 - beta) = gmb / (link - gmb), rounded up.
        let paid = u128::from((header_bytes + controlled).get()) * u128::from(gmb.get());
        let guaranteed = paid.div_ceil(u128::from(link.get() - gmb.get()));
        let guaranteed = Bytes::new(u64::try_from(guaranteed).unwrap_or(u64::MAX));
        Buffer { headers, header_bytes, controlled, guaranteed }
    }
}

impl Buffer {
    /// The buffer that is needed in all, Required_BS. A few per cent more are wise: a header that was dropped had its data sent
    /// before it.
    pub fn required(&self) -> Bytes {
        self.header_bytes + self.controlled + self.guaranteed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Experiment TT1 (c) of the thesis, s3.7.1.
    const TT1C: Trunks = Trunks {
        alpha: 8,
        connections: 8,
        vmss: Bytes::new(1_500),
        header: Bytes::new(52),
        gmb: Rate::kbit(4_800),
        link: Rate::kbit(9_600),
    };

    #[test]
    fn the_thesis_experiment_needs_what_equation_2_says_before_rounding() {
        let buffer = TT1C.buffer();
        assert_eq!(buffer.headers, 64);
        assert_eq!(buffer.required(), Bytes::new(222_656), "the thesis prints 222,348, with 1500/52 rounded to 28.8");
    }

    #[test]
    fn without_a_guarantee_half_as_much_is_needed_as_with_half_the_link() {
        let free = Trunks { gmb: Rate::bit(0), ..TT1C }.buffer();
        assert_eq!(free.guaranteed, Bytes::ZERO);
        assert_eq!(free.required() * 2, TT1C.buffer().required());
    }

    #[test]
    fn no_numbers_overflow() {
        let huge = Trunks { alpha: u64::MAX, connections: u64::MAX, vmss: Bytes::MAX, ..TT1C };
        assert_eq!(huge.buffer().required(), Bytes::MAX);
    }
}
