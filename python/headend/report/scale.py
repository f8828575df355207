"""Where a measured value lies against what would have been accepted: a strip as wide as the page gives it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headend.papers.model import Criterion


@dataclass(frozen=True, slots=True)
class Strip:
    """Positions in percent of the strip's width, left to right."""

    accept_from: float
    accept_to: float
    interval_from: float
    interval_to: float
    measured: float


def strip(criterion: Criterion) -> Strip:
    """Place a criterion so that the accepted range, the measured value and its interval are all in view."""
    bounds = [bound for bound in (criterion.accept_lo, criterion.accept_hi) if bound is not None]
    landmarks = [criterion.measured, criterion.lo, criterion.hi, *bounds]
    low, high = min(landmarks), max(landmarks)
    if low >= 0 and low < 0.5 * high:
        low = 0.0  # a ratio or a rate reads best from nought, if that costs little
    room = (high - low) or abs(high) or 1.0
    # An open side gets room to be seen as such.
    start = low - room * (0.5 if criterion.accept_lo is None and low > 0 else 0.12)
    end = high + room * (0.5 if criterion.accept_hi is None else 0.12)

    def place(value: float | None, open_end: float) -> float:
        at = open_end if value is None else 100 * (value - start) / (end - start)
        return round(min(max(at, 0.0), 100.0), 2)

    # A single accepted value is still a thing to see.
    hair = 1.0 if criterion.accept_lo is not None and criterion.accept_lo == criterion.accept_hi else 0.0
    return Strip(
        accept_from=place(criterion.accept_lo, 0.0) - hair,
        accept_to=place(criterion.accept_hi, 100.0) + hair,
        interval_from=place(criterion.lo, math.nan),
        interval_to=place(criterion.hi, math.nan),
        measured=place(criterion.measured, math.nan),
    )
