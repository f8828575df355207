//! The input as a stream of small numbers, zeros once it is used up.

use headend_engine::cc::hystart::HyStart;
use headend_engine::tcp::personality::{EraRules, Personality};
use headend_engine::units::Bytes as Size;

pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(rest: &'a [u8]) -> Bytes<'a> {
        Bytes { rest }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        first
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    #[allow(dead_code, reason = "one target draws no whole numbers")]
    pub fn word(&mut self) -> u32 {
        u32::from(self.short()) << 16 | u32::from(self.short())
    }

    /// One of the personalities, with rules, buffers and a threshold of its own.
    pub fn personality(&mut self) -> Personality {
        let mut pick = |len: usize| usize::from(self.byte()) % len;
        let (_, make) = Personality::ALL[pick(Personality::ALL.len())];
        let (_, era) = EraRules::ALL[pick(EraRules::ALL.len())];
        let (_, hystart) = HyStart::ALL[pick(HyStart::ALL.len())];
        let dupack_threshold = 1 + pick(5) as u32;
        let window_in_segments = pick(2) == 0;
        let nagle = pick(2) == 0;
        let (send, receive) = (self.short(), self.short());
        Personality {
            era,
            hystart,
            dupack_threshold,
            window_in_segments,
            nagle,
            send_buffer: Size::new(2_000 + u64::from(send)),
            receive_buffer: Size::new(2_000 + u64::from(receive)),
            ..make()
        }
    }
}
