//! Bytes that tell where they belong: every word of a stream is a function of the stream and of its place in it.

/// The bytes that one end of one connection writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    key: u64,
}

/// The distance from the place of a mistake within which the bytes that came instead are looked for.
const SEARCH_BYTES: u64 = 4 << 20;
/// The number of bytes that name a place; fewer are found by chance.
const SAMPLE_BYTES: usize = 32;
const SAMPLE_BYTES_MIN: usize = 8;

impl Pattern {
    /// The bytes that the client (`end` 0) or the server (1) writes on a connection of the schedule with this seed.
    pub(crate) fn new(seed: u64, connection: usize, end: usize) -> Pattern {
        Pattern { key: mix(seed ^ mix(2 * connection as u64 + end as u64 + 1)) }
    }

    /// Fills `out` with the stream's bytes from `at` on.
    pub(crate) fn fill(self, at: u64, out: &mut [u8]) {
        let word = |index: u64| mix(self.key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes();
        let (mut index, offset) = (at / 8, (at % 8) as usize);
        let (head, body) = out.split_at_mut(out.len().min((8 - offset) % 8));
        if !head.is_empty() {
            head.copy_from_slice(&word(index)[offset..offset + head.len()]);
            index += 1;
        }
        for chunk in body.chunks_mut(8) {
            chunk.copy_from_slice(&word(index)[..chunk.len()]);
            index += 1;
        }
    }

    /// The place in `[from, to)` at which the stream has `sample`.
    fn find(self, sample: &[u8], from: u64, to: u64) -> Option<u64> {
        let mut text = vec![0; (to.saturating_sub(from) as usize) + sample.len()];
        self.fill(from, &mut text);
        let at = text.windows(sample.len()).position(|window| window == sample)?;
        Some(from + at as u64)
    }
}

/// SplitMix64's output function (Steele, Lea and Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The first difference between what came and what was sent. Places count from the stream's begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Bytes are missing, and the stream goes on behind them.
    Missing { at: u64, bytes: u64 },
    /// Bytes came before others that were sent earlier.
    Reordered { at: u64 },
    /// Bytes of an earlier place came again.
    Repeated { at: u64, from: u64 },
    /// Bytes of another stream came.
    Foreign { at: u64, whose: String },
    /// Bytes that nobody sent.
    Changed { at: u64 },
}

/// Compares what arrives with what was sent.
#[derive(Debug)]
pub(crate) struct Checker {
    stream: Pattern,
    /// The streams that could be mistaken for this one.
    others: Vec<(String, Pattern)>,
    /// Bytes that have arrived.
    received: u64,
    /// The place in the stream at which the next byte belongs; differs from `received` once something was missing.
    next: u64,
    difference: Option<Difference>,
    expected: Vec<u8>,
}

impl Checker {
    pub(crate) fn new(stream: Pattern, others: Vec<(String, Pattern)>) -> Checker {
        Checker { stream, others, received: 0, next: 0, difference: None, expected: Vec::new() }
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn difference(&self) -> Option<&Difference> {
        self.difference.as_ref()
    }

    /// The next bytes have arrived.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        let mut rest = bytes;
        // A difference of any other kind leaves no place to go on from; what was missing may still come.
        while !rest.is_empty() && matches!(self.difference, None | Some(Difference::Missing { .. })) {
            self.expected.resize(rest.len(), 0);
            self.stream.fill(self.next, &mut self.expected);
            if self.expected == rest {
                self.next += rest.len() as u64;
                return;
            }
            let same = rest.iter().zip(&self.expected).take_while(|(came, sent)| came == sent).count();
            self.next += same as u64;
            rest = &rest[same..];
            let found = self.locate(&rest[..rest.len().min(SAMPLE_BYTES)]);
            match (&self.difference, found) {
                (None, Difference::Missing { at, bytes }) => {
                    self.next = at + bytes;
                    self.difference = Some(Difference::Missing { at, bytes });
                }
                (None, other) => self.difference = Some(other),
                (Some(Difference::Missing { at, bytes }), Difference::Repeated { from, .. })
                    if (*at..at + bytes).contains(&from) =>
                {
                    self.difference = Some(Difference::Reordered { at: *at });
                }
                // One difference is enough.
                (Some(_), _) => return,
            }
        }
    }

    /// Tells what `sample` is, which came where the stream has something else.
    fn locate(&self, sample: &[u8]) -> Difference {
        let at = self.next;
        if sample.len() < SAMPLE_BYTES_MIN {
            return Difference::Changed { at };
        }
        if let Some(place) = self.stream.find(sample, at + 1, at + SEARCH_BYTES) {
            return Difference::Missing { at, bytes: place - at };
        }
        if let Some(from) = self.stream.find(sample, at.saturating_sub(SEARCH_BYTES), at) {
            return Difference::Repeated { at, from };
        }
        let foreign = |(_, stream): &&(String, Pattern)| stream.find(sample, 0, SEARCH_BYTES).is_some();
        match self.others.iter().find(foreign) {
            Some((whose, _)) => Difference::Foreign { at, whose: whose.clone() },
            None => Difference::Changed { at },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Pattern = Pattern { key: 7 };

    fn bytes(from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0; (to - from) as usize];
        STREAM.fill(from, &mut bytes);
        bytes
    }

    fn difference(parts: &[Vec<u8>]) -> Option<Difference> {
        let mut checker = Checker::new(STREAM, vec![("the other end".to_owned(), Pattern { key: 8 })]);
        for part in parts {
            checker.take(part);
        }
        checker.difference
    }

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let whole = bytes(0, 100);
        for cut in 0..100 {
            assert_eq!([bytes(0, cut), bytes(cut, 100)].concat(), whole, "cut at {cut}");
        }
        assert_eq!(difference(&[bytes(0, 1), bytes(1, 30), bytes(30, 100)]), None);
    }

    #[test]
    fn lost_repeated_swapped_strange_and_changed_bytes_are_told_apart() {
        assert_eq!(
            difference(&[bytes(0, 50), bytes(60, 100)]),
            Some(Difference::Missing { at: 50, bytes: 10 }),
            "ten bytes lost"
        );
        assert_eq!(
            difference(&[bytes(0, 50), bytes(40, 100)]),
            Some(Difference::Repeated { at: 50, from: 40 }),
            "ten bytes twice"
        );
        assert_eq!(
            difference(&[bytes(0, 50), bytes(80, 120), bytes(50, 80), bytes(120, 200)]),
            Some(Difference::Reordered { at: 50 }),
            "two pieces swapped"
        );
        let mut other = vec![0; 40];
        Pattern { key: 8 }.fill(16, &mut other);
        assert_eq!(
            difference(&[bytes(0, 50), other]),
            Some(Difference::Foreign { at: 50, whose: "the other end".to_owned() })
        );
        let mut flipped = bytes(0, 100);
        flipped[70] ^= 1;
        assert_eq!(difference(&[flipped]), Some(Difference::Changed { at: 70 }));
    }
}
