//! Quantiles of durations in little memory: a flow must stay below 16 KiB, and its round trips span few octaves.

use headend_engine::time::Duration;

/// Buckets that an octave is divided into: a quantile is off by at most 1/256 of its value.
const BUCKETS: usize = 128;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();

/// Counts durations in buckets of equal relative width (as HdrHistogram does), an octave's allocated when first hit.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Octaves by the position of the highest bit, less `BUCKET_BITS`; counts of 0..BUCKETS ns, in the first, are
    /// exact.
    octaves: Vec<Option<Box<[u32; BUCKETS]>>>,
    count: u64,
    min: Option<Duration>,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, value: Duration) {
        let (octave, bucket) = place(value.as_nanos());
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, None);
        }
        self.octaves[octave].get_or_insert_with(|| Box::new([0; BUCKETS]))[bucket] += 1;
        self.count += 1;
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
    }

    /// Counts all that `other` has counted.
    pub fn add(&mut self, other: &Histogram) {
        if self.octaves.len() < other.octaves.len() {
            self.octaves.resize(other.octaves.len(), None);
        }
        for (own, their) in self.octaves.iter_mut().zip(&other.octaves) {
            let Some(their) = their else { continue };
            let own = own.get_or_insert_with(|| Box::new([0; BUCKETS]));
            own.iter_mut().zip(their.iter()).for_each(|(own, their)| *own += their);
        }
        self.count += other.count;
        self.min = self.min.into_iter().chain(other.min).min();
    }

    /// The smallest duration, exactly.
    pub fn min(&self) -> Option<Duration> {
        self.min
    }

    /// The smallest duration and the quantiles 50, 95 and 99 per cent.
    pub fn summary(&self) -> Option<[Duration; 4]> {
        Some([self.min?, self.quantile(50)?, self.quantile(95)?, self.quantile(99)?])
    }

    /// The middle of the bucket in which the smallest duration lies that is not below `percent` per cent of all.
    pub fn quantile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (octave, buckets) in self.octaves.iter().enumerate() {
            for (bucket, &count) in buckets.iter().flat_map(|buckets| buckets.iter().enumerate()) {
                below += u64::from(count);
                if below >= rank {
                    return Some(Duration::from_nanos(middle(octave, bucket)).max(self.min?));
                }
            }
        }
        None
    }
}

fn place(nanos: u64) -> (usize, usize) {
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(BUCKET_BITS);
    // In octave 0 all low bits, in the others the bits after the highest.
    let bucket = if octave == 0 { nanos } else { (nanos >> (octave - 1)) - BUCKETS as u64 };
    (octave as usize, bucket as usize)
}

fn middle(octave: usize, bucket: usize) -> u64 {
    match octave {
        0 => bucket as u64,
        _ => {
            let width = 1u64 << (octave - 1);
            (BUCKETS as u64 + bucket as u64) * width + width / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_half_a_per_cent_over_the_whole_range() {
        for scale in [1, 1_000, 1_000_000, 1_000_000_000, 1 << 40] {
            let mut histogram = Histogram::default();
            (1..=1_000).for_each(|n| histogram.record(Duration::from_nanos(n * scale)));
            for percent in [50, 95, 99] {
                let read = histogram.quantile(percent).unwrap().as_nanos();
                let exact = percent * 10 * scale;
                assert!(read.abs_diff(exact) * 200 <= exact, "{percent}% of {scale}: {read} for {exact}");
            }
            assert_eq!(histogram.min(), Some(Duration::from_nanos(scale)));
        }
    }

    #[test]
    fn two_histograms_together_are_the_one_of_all_values() {
        let of = |values: &mut dyn Iterator<Item = u64>| {
            let mut histogram = Histogram::default();
            values.for_each(|value| histogram.record(Duration::from_nanos(value)));
            histogram
        };
        let (mut low, high) = (of(&mut (5..900)), of(&mut (700..400_000)));
        low.add(&high);
        assert_eq!(low.summary(), of(&mut (5..900).chain(700..400_000)).summary());
        low.add(&Histogram::default());
        assert_eq!(low.min(), Some(Duration::from_nanos(5)));
    }

    #[test]
    fn a_single_value_is_every_quantile_and_an_empty_histogram_has_none() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.min(), histogram.quantile(50)), (None, None));
        histogram.record(Duration::from_nanos(u64::MAX));
        assert!(histogram.quantile(1).is_some_and(|value| value == Duration::from_nanos(u64::MAX)));
    }
}
