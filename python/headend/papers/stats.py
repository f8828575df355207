"""95% intervals with NumPy alone. Bootstraps use a fixed seed: the same data give the same interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

BOOTSTRAP_RESAMPLES = 2000
BOOTSTRAP_SEED = 1996
Z95 = 1.959963984540054

# Student's t, two-sided 95%, for 1 to 4 degrees of freedom; from 5 on the expansion in `student_t95` is within 0.1%.
_T95 = (math.inf, 12.7062, 4.3027, 3.1824, 2.7764)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95% interval."""

    value: float
    lo: float
    hi: float

    @staticmethod
    def exact(value: float) -> Estimate:
        """A value without uncertainty."""
        return Estimate(value, value, value)


def student_t95(degrees: int) -> float:
    """The 97.5% point of Student's t (Abramowitz and Stegun 26.7.5)."""
    if degrees < len(_T95):
        return _T95[degrees]
    z, n = Z95, float(degrees)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )


def mean(sample: ArrayLike) -> Estimate:
    """The mean with Student's interval; exact if all values are equal, as in runs without chance."""
    values = _finite(sample)
    middle = float(values.mean())
    if values.size < 2 or np.ptp(values) == 0.0:
        return Estimate.exact(middle)
    half = student_t95(values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return Estimate(middle, middle - half, middle + half)


def quantile(sample: ArrayLike, q: float) -> Estimate:
    """A quantile between order statistics that cover it in 95% of samples, whatever the distribution."""
    values = np.sort(_finite(sample))
    middle = float(np.quantile(values, q))
    lo, hi = _order_statistics(values.size, q)
    return Estimate(middle, min(middle, float(values[lo])), max(middle, float(values[hi])))


def median(sample: ArrayLike) -> Estimate:
    """The median, as `quantile`."""
    return quantile(sample, 0.5)


def proportion(hits: ArrayLike) -> Estimate:
    """The share of true values with Wilson's interval."""
    flags = np.asarray(hits, dtype=bool)
    n, p = flags.size, float(flags.mean())
    centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2))
    return Estimate(p, max(0.0, centre - half), min(1.0, centre + half))


def bootstrap(statistic: Callable[..., Floats], *samples: ArrayLike) -> Estimate:
    """The 95% percentile interval of a statistic of one or more samples, each resampled on its own.

    `statistic` takes one array for each sample and reduces the last axis, so that all resamples go in one call. Runs
    of two settings share seeds; to resample them apart ignores the correlation and can only widen a ratio's interval.
    """
    arrays = [_finite(sample) for sample in samples]
    value = float(statistic(*arrays))
    if all(array.size == 1 or np.ptp(array) == 0.0 for array in arrays):
        return Estimate.exact(value)
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    resampled = [array[rng.integers(0, array.size, (BOOTSTRAP_RESAMPLES, array.size))] for array in arrays]
    lo, hi = np.quantile(statistic(*resampled), (0.025, 0.975))
    return Estimate(value, float(lo), float(hi))


def ratio_of_means(above: ArrayLike, below: ArrayLike) -> Estimate:
    """The mean of one sample over that of another."""
    return bootstrap(lambda a, b: a.mean(axis=-1) / b.mean(axis=-1), above, below)


def harmonic_mean(sample: ArrayLike) -> Estimate:
    """Total bits over total time, if the values are rates of equally long transfers."""
    return bootstrap(lambda a: 1.0 / (1.0 / a).mean(axis=-1), sample)


def _finite(sample: ArrayLike) -> Floats:
    values = np.asarray(sample, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"a sample is a non-empty row of numbers, not an array of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"a sample has {int((~np.isfinite(values)).sum())} values that are not finite")
    return values


def _order_statistics(n: int, q: float) -> tuple[int, int]:
    """Indices into a sorted sample whose values enclose the quantile with a chance of at least 95%, if n allows."""
    if n == 1 or q in (0.0, 1.0):
        return 0, n - 1
    k = np.arange(n + 1)
    log_factorial = np.array([math.lgamma(i + 1) for i in k])
    log_chance = log_factorial[n] - log_factorial - log_factorial[::-1] + k * math.log(q) + (n - k) * math.log1p(-q)
    below = np.cumsum(np.exp(log_chance))  # below[i]: chance that at most i values lie below the quantile
    lo = int(np.searchsorted(below, 0.025))
    hi = int(np.searchsorted(below, 0.975))
    return max(lo - 1, 0), min(hi, n - 1)
