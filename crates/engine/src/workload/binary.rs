//! Logarithms and powers of two in integers: floats need not give the same on every machine.

use std::sync::LazyLock;

/// One, in 2^-63.
pub(super) const ONE: u64 = 1 << 63;

/// The logarithm of `number`, which is not zero, to the base of two, in 2^-32, rounded down.
pub(super) fn log2(number: u64) -> u64 {
    let whole = number.ilog2();
    // From 1 to 2, in 2^-63.
    let mut rest = u128::from(number << (63 - whole));
    let mut log = u64::from(whole);
    for _ in 0..32 {
        rest = (rest * rest) >> 63;
        let bit = rest >> 64;
        rest >>= bit;
        log = log << 1 | bit as u64;
    }
    log
}

/// Two to the power of `-exponent`, which is in 2^-32; the power is in 2^-63.
pub(super) fn exp2_of_minus(exponent: u64) -> u64 {
    /// 2^(-1/2), 2^(-1/4) and so on, in 2^-63: each the root of the one before.
    static ROOTS: LazyLock<[u64; 32]> = LazyLock::new(|| {
        let mut power = ONE / 2;
        [(); 32].map(|()| {
            power = (u128::from(power) << 63).isqrt() as u64;
            power
        })
    });
    let (whole, rest) = (exponent >> 32, exponent as u32);
    let bits = ROOTS.iter().enumerate().filter(|(bit, _)| rest >> (31 - bit) & 1 == 1);
    let power = bits.fold(ONE, |power, (_, root)| ((u128::from(power) * u128::from(*root)) >> 63) as u64);
    power.checked_shr(u32::try_from(whole).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// `number` times two to the power of `exponent`, which is in 2^-32; `most` at most.
pub(super) fn scaled_up(number: u64, exponent: u64, most: u64) -> u64 {
    // Of the next whole power, what is too much is taken off.
    let (whole, rest) = ((exponent >> 32) + 1, exponent as u32);
    let less = exp2_of_minus((1 << 32) - u64::from(rest));
    let part = (u128::from(number) * u128::from(less)) >> 31;
    // `part` has 32 bits behind the point.
    let shift = u32::try_from(whole).unwrap_or(u32::MAX);
    let scaled = if shift > part.leading_zeros() { u128::MAX } else { part << shift } >> 32;
    u64::try_from(scaled).unwrap_or(u64::MAX).min(most)
}

/// `number` times two to the power of `-exponent`, which is in 2^-32.
pub(super) fn scaled_down(number: u64, exponent: u64) -> u64 {
    ((u128::from(number) * u128::from(exp2_of_minus(exponent))) >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_are_those_of_floats() {
        for number in [1, 2, 3, 10, 1_000, 999_999_937, 1 << 40, u64::MAX] {
            let exact = (number as f64).log2() * 2_f64.powi(32);
            assert!(
                (log2(number) as f64 - exact).abs() < 2.0 + exact * 1e-15,
                "{number}: {} for {exact}",
                log2(number)
            );
        }
        for exponent in [0.0, 0.25, 0.5, 1.0, 1.75, 7.125, 40.0, 62.5] {
            let found = exp2_of_minus((exponent * 2_f64.powi(32)) as u64) as f64 / ONE as f64;
            assert!((found / (-exponent).exp2() - 1.0).abs() < 0.3, "{exponent}: {found}");
            let is_small = exponent > 20.0;
            assert!(is_small || (found / (-exponent).exp2() - 1.0).abs() < 1e-9, "{exponent}: {found}");
            let up = scaled_up(1_000, (exponent * 2_f64.powi(32)) as u64, u64::MAX) as f64;
            let exact = (1_000.0 * exponent.exp2()).min(u64::MAX as f64);
            assert!((up / exact - 1.0).abs() < 1e-3, "{exponent}: {up} for {exact}");
            let down = scaled_down(1 << 40, (exponent * 2_f64.powi(32)) as u64) as f64;
            assert!((down - (40.0 - exponent).exp2()).abs() <= 1.0, "{exponent}: {down}");
        }
        assert_eq!((exp2_of_minus(64 << 32), exp2_of_minus(u64::MAX)), (0, 0));
        assert_eq!(scaled_up(5, u64::MAX, 77), 77);
    }
}
