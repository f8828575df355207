"""What `headend compare` prints for one scenario file, as rows to judge and windows to draw."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEASURES = ("goodput", "rtt_p50", "rtt_p95", "segments_sent", "retransmits", "timeouts", "fast_retransmits")
_UNITS = {"goodput": "_bps", "rtt_p50": "_s", "rtt_p95": "_s"}


class ComparisonError(ValueError):
    """A file is no comparison."""


@dataclass(frozen=True, slots=True)
class Row:
    """A flow of a point: means over the runs, from the kernel and from the simulator. NaN where there is no value."""

    title: str
    """Of the scenario, such as "10 Mbit/s, 40 ms"."""
    settings: dict[str, str]
    """The swept fields by path."""
    flow: str
    runs: int
    linux: dict[str, float]
    """By measure, in bit/s, seconds or as a count."""
    sim: dict[str, float]
    strained: int
    """Runs in which the machine did not keep up with the links."""

    @property
    def name(self) -> str:
        """What tells it from the others of the grid."""
        return ", ".join([self.title, *self.settings.values()])

    @property
    def controller(self) -> str:
        """Congestion control, if it is swept."""
        return self._setting(".controller")

    @property
    def loses(self) -> bool:
        """Whether the links lose packets that no queue dropped."""
        return self._setting(".loss") not in ("", "0%", "0")

    def difference(self, measure: str = "goodput") -> float:
        """The simulator's value less the kernel's, in per cent of the kernel's."""
        linux, sim = self.linux[measure], self.sim[measure]
        return math.nan if linux == 0 else 100 * (sim - linux) / linux

    def _setting(self, ending: str) -> str:
        return next((value for path, value in self.settings.items() if path.endswith(ending)), "")


@dataclass(frozen=True, slots=True)
class Window:
    """A sender's congestion window over time, in one of the sides' first runs."""

    side: str
    """ "sim" or "linux"."""
    time_s: list[float] = field(default_factory=list)
    cwnd_bytes: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A scenario file, compared."""

    title: str
    rows: list[Row]
    windows: dict[int, list[Window]]
    """By row: of the flow's first instance."""
    seed: int

    @staticmethod
    def load(path: Path) -> Comparison:
        """Read what `headend compare --format json` printed.

        Raises ComparisonError, with the path, if it is something else; OSError if it cannot be read.
        """
        try:
            return _read(json.loads(path.read_text(encoding="utf-8")), path.stem)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ComparisonError(f"{path} is no comparison: {error!r}") from error


def _read(comparison: dict[str, Any], name: str) -> Comparison:
    title = str(comparison["title"]) or name
    columns, series = comparison["rows"], comparison["series"]
    paths = [name for name in columns if "." in name]
    late = [0 if run["kept_up"] else 1 for run in comparison["runs"]]
    rows = []
    first_run = 0
    windows: dict[int, list[Window]] = {}
    for index, (point, flow) in enumerate(zip(columns["point"], columns["flow"], strict=True)):
        runs = int(columns["runs"][index])
        # A point's runs come once, whatever the number of its flows.
        if index > 0 and point != columns["point"][index - 1]:
            first_run += int(columns["runs"][index - 1])
        rows.append(
            Row(
                title=title,
                settings={path: columns[path][index] for path in paths},
                flow=flow,
                runs=runs,
                linux={measure: _value(columns, measure, "linux", index) for measure in MEASURES},
                sim={measure: _value(columns, measure, "sim", index) for measure in MEASURES},
                strained=sum(late[first_run : first_run + runs]),
            )
        )
        windows[index] = [_window(series, side, point, flow) for side in ("linux", "sim")]
    return Comparison(title, rows, windows, int(comparison["seed"]))


def _value(columns: dict[str, list[Any]], measure: str, side: str, index: int) -> float:
    value = columns[f"{measure}_{side}{_UNITS.get(measure, '')}"][index]
    return math.nan if value is None else float(value)


def _window(series: dict[str, list[Any]], side: str, point: int, flow: str) -> Window:
    keys = zip(series["by"], series["point"], series["flow"], series["instance"], strict=True)
    chosen = [i for i, key in enumerate(keys) if key == (side, point, flow, 0)]
    return Window(side, [series["time_s"][i] for i in chosen], [series["cwnd_bytes"][i] for i in chosen])
