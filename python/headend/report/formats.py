"""Numbers for the page: short in the data it carries, shorter still in what a reader sees."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

CARRIED_DIGITS = 5
"""Significant digits of a value in the page: a plot 1000 pixels high shows three, a read-out four."""

SHOWN_DIGITS = 4

_UNIT = re.compile(r"^(?P<name>.*?)\s*[\[(](?P<unit>[^\[\]()]+)[\])]\s*$")


def carried(value: float, digits: int = CARRIED_DIGITS) -> float | int:
    """`value` as short as the page may carry it."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def carried_all(values: Iterable[float], digits: int = CARRIED_DIGITS) -> list[float | int]:
    """Every one of `values` as short as the page may carry it."""
    return [carried(value, digits) for value in values]


def shown(value: float, digits: int = SHOWN_DIGITS) -> str:
    """`value` for a reader: no exponent where digits say it, a real minus sign, no digits that mean nothing."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    if 1e-4 <= abs(value) < 1e7:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:.{digits - 1}e}"
    return text.replace("-", "\N{MINUS SIGN}")


def interval(lo: float, hi: float) -> str:
    """A 95% interval for a reader; empty where the value is exact."""
    return "" if lo == hi else f"{shown(lo, 3)} to {shown(hi, 3)}"


def span(seconds: float) -> str:
    """A duration as a person says it."""
    if seconds < 60:
        return f"{shown(seconds, 2 if seconds < 10 else 3)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def name_and_unit(label: str) -> tuple[str, str]:
    """An axis label `Throughput [Mbit/s]` as its name and its unit; the unit is empty if there is none."""
    match = _UNIT.match(label)
    return (match["name"], match["unit"]) if match else (label, "")
