//! Quantities as people write them: a decimal number and its unit, read without rounding.

use super::{Bytes, Capacity, Chance, Rate};
use crate::time::Duration;

/// The words for what is expected where a rate is.
pub const RATE: &str = "a rate such as \"25Mbit/s\" or \"3kbit/s\"";
/// The words for what is expected where a size is.
pub const SIZE: &str = "a size such as \"8KB\" (8000 bytes), \"8760B\" or \"10KiB\"";
/// The words for what is expected where a span of time is.
pub const SPAN: &str = "a time such as \"20ms\", \"500us\" or \"1000s\"";
/// The words for what is expected where a capacity is.
pub const CAPACITY: &str = "\"unlimited\", a number of packets such as \"7 packets\", or a size such as \"10KB\"";
/// The words for what is expected where a probability is.
pub const CHANCE: &str = "a probability such as \"1%\", 0.01 or 1e-7";

const RATE_UNITS: &[(&str, u64)] =
    &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000), ("Tbit/s", 1_000_000_000_000)];
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const SPAN_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A rate such as `25Mbit/s`; `None` if the text is not one or not a whole number of bit/s.
pub fn rate(text: &str) -> Option<Rate> {
    in_units(text, RATE_UNITS).map(Rate::bit)
}

/// A size such as `8KB`, `8760B`, `10KiB`; decimal prefixes unless they have an `i`.
pub fn size(text: &str) -> Option<Bytes> {
    in_units(text, SIZE_UNITS).map(Bytes::new)
}

/// A span of time such as `20ms`; `None` if the text is not one or not a whole number of nanoseconds.
pub fn span(text: &str) -> Option<Duration> {
    in_units(text, SPAN_UNITS).map(Duration::from_nanos)
}

/// A number of packets such as `7 packets`.
pub fn packets(text: &str) -> Option<u64> {
    in_units(text, &[("packets", 1), ("packet", 1)])
}

/// A capacity: `unlimited`, a number of packets such as `7 packets`, or a size such as `10KB`.
pub fn capacity(text: &str) -> Option<Capacity> {
    if text == "unlimited" {
        return Some(Capacity::Unlimited);
    }
    packets(text).map(Capacity::Packets).or_else(|| size(text).map(Capacity::Bytes))
}

/// A probability such as `1%` or `0.01`, the nearest that [`Chance`] can tell.
pub fn chance(text: &str) -> Option<Chance> {
    let (number, percent) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 2),
        None => (text, 0),
    };
    let Decimal { digits, exponent } = Decimal::read(number)?;
    let exponent = exponent - percent;
    if digits == 0 {
        return Some(Chance::NEVER);
    }
    if exponent >= 0 {
        return (digits == 1 && exponent == 0).then_some(Chance::ALWAYS);
    }
    // digits < 10^18 < 2^60, so the product stays under 2^124; a divisor beyond u128 is a chance under 2^-64.
    let Some(divisor) = 10_u128.checked_pow(exponent.unsigned_abs()) else { return Some(Chance::NEVER) };
    let product = u128::from(digits) << 64;
    let raw = product / divisor + u128::from(product % divisor >= divisor.div_ceil(2));
    match raw.cmp(&(1 << 64)) {
        std::cmp::Ordering::Less => Some(Chance::from_raw(raw as u64)),
        std::cmp::Ordering::Equal => Some(Chance::ALWAYS),
        std::cmp::Ordering::Greater => None,
    }
}

/// A decimal number times `factor`, rounded to the nearest whole number: of what was measured, not of what was asked for.
pub fn nearest(text: &str, factor: u64) -> Option<u64> {
    let Decimal { digits, exponent } = Decimal::read(text)?;
    let scaled = u128::from(digits) * u128::from(factor);
    let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
    let whole = if exponent < 0 { (scaled + power / 2) / power } else { scaled.checked_mul(power)? };
    u64::try_from(whole).ok()
}

/// A rate as on a command line, where `25M` is short for `25Mbit/s`.
pub fn short_rate(text: &str) -> Option<Rate> {
    let short = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    rate(text).or_else(|| in_units(text, &short).map(Rate::bit))
}

fn in_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let Decimal { digits, exponent } = Decimal::read(number)?;
    let scaled = u128::from(digits) * u128::from(factor);
    let divisor = 10_u128.checked_pow(exponent.min(0).unsigned_abs())?;
    let whole = scaled.is_multiple_of(divisor).then(|| scaled / divisor)?;
    u64::try_from(whole).ok()
}

/// `digits * 10^exponent`, with no trailing zero in `digits` after the point and at most 18 digits.
struct Decimal {
    digits: u64,
    exponent: i32,
}

impl Decimal {
    fn read(text: &str) -> Option<Decimal> {
        let (mantissa, power) = match text.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i16>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let fraction = fraction.trim_end_matches('0');
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.len() > 18 {
            return None;
        }
        let mut digits = if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? };
        let mut exponent = i32::from(power) - i32::try_from(fraction.len()).ok()?;
        // So that 100% and 10e-1 are told to be one.
        while exponent < 0 && digits != 0 && digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Some(Decimal { digits, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_prefixes_are_powers_of_ten_and_binary_ones_of_two() {
        assert_eq!(size("8KB"), Some(Bytes::new(8_000)));
        assert_eq!(size("10KiB"), Some(Bytes::new(10_240)));
        assert_eq!(size("1.5 MB"), Some(Bytes::new(1_500_000)));
        assert_eq!(rate("25Mbit/s"), Some(Rate::mbit(25)));
        assert_eq!(rate("0.5kbit/s"), Some(Rate::bit(500)));
        assert_eq!(span("500us"), Some(Duration::from_micros(500)));
        assert_eq!(span("1.000000001s"), Some(Duration::from_nanos(1_000_000_001)));
        assert_eq!(packets("7 packets"), Some(7));
    }

    #[test]
    fn a_capacity_is_a_number_of_packets_a_size_or_no_limit() {
        assert_eq!(capacity("unlimited"), Some(Capacity::Unlimited));
        assert_eq!(capacity("7 packets"), Some(Capacity::Packets(7)));
        assert_eq!(capacity("10KB"), Some(Capacity::Bytes(Bytes::new(10_000))));
        assert_eq!(capacity("7"), None);
    }

    #[test]
    fn what_is_not_a_whole_number_of_the_smallest_unit_is_refused() {
        assert_eq!(size("0.5B"), None);
        assert_eq!(rate("0.1bit/s"), None);
        assert_eq!(span("0.1ns"), None);
    }

    #[test]
    fn what_was_measured_is_rounded_to_the_nearest() {
        assert_eq!(nearest("0.30000000000000004", 1_000), Some(300));
        assert_eq!(nearest("12.3456789", 1_000_000), Some(12_345_679));
        assert_eq!(nearest("1.5e3", 10), Some(15_000));
        assert_eq!((nearest("0.0004", 1_000), nearest("0.0005", 1_000)), (Some(0), Some(1)));
        assert_eq!((nearest("-1", 1), nearest("nan", 1), nearest("1e30", 1)), (None, None, None));
    }

    #[test]
    fn what_is_not_a_number_with_its_unit_is_refused() {
        for text in
            ["", "25", "Mbit/s", "25Mbits", "-1Mbit/s", "1e3Mbit/s", ".5Mbit/s", "5.Mbit/s", "1.2.3Mbit/s", "٣Mbit/s"]
        {
            assert_eq!(rate(text), None, "{text:?} is not a rate");
        }
        assert_eq!(size("99999999999999999999B"), None, "more than 64 bits");
        assert_eq!(span("100000000000000h"), None, "more than 64 bits of nanoseconds");
    }

    #[test]
    fn a_percentage_and_its_fraction_are_the_same_chance() {
        assert_eq!(chance("1%"), chance("0.01"));
        assert_eq!(chance("1e-7"), chance("0.00001%"));
        assert_eq!(chance("100%"), Some(Chance::ALWAYS));
        assert_eq!(chance("1.0"), Some(Chance::ALWAYS));
        assert_eq!(chance("0"), Some(Chance::NEVER));
        assert_eq!(chance("50%"), Some(Chance::from_raw(1 << 63)));
        assert_eq!(chance("1e-400"), Some(Chance::NEVER));
    }

    #[test]
    fn a_chance_is_within_half_a_step_of_the_decimal() {
        let raw = chance("0.01").expect("a chance").raw();
        let exact = (1_u128 << 64) / 100;
        assert!(u128::from(raw).abs_diff(exact) <= 1, "{raw} for 2^64 / 100 = {exact}");
    }

    #[test]
    fn more_than_certain_and_less_than_never_are_refused() {
        for text in ["101%", "1.01", "2", "-1%", "nan", "inf", "1e5", "%", ""] {
            assert_eq!(chance(text), None, "{text:?} is not a probability");
        }
    }
}
