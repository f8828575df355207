"""The abscissa that a scenario's value stands for."""

from __future__ import annotations

import re
from typing import Any

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|B|KB|MB|GB|s|ms|packets)?\s*")

_SCALE = {"": 1.0, "%": 1.0, "B": 1e-3, "KB": 1.0, "MB": 1e3, "GB": 1e6, "s": 1.0, "ms": 1e-3, "packets": 1.0}


def abscissa(value: Any, packet_bytes: int | None = None) -> float:
    """A value of a scenario as a number: percent for chances, decimal kilobytes for sizes, seconds for times.

    With `packet_bytes`, a size counts in packets. Raises ValueError for anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a number with a unit that an axis can show")
    number, unit = float(match[1]), match[2] or ""
    if packet_bytes is not None and unit.endswith("B"):
        return number * _SCALE[unit] * 1000 / packet_bytes
    return number * _SCALE[unit]
