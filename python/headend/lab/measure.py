"""Running scenarios between real hosts from Python: `headend lab`, with the results of `headend.run`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headend import _native
from headend.results import NativeColumn, Result, Table
from headend.simulation import _source, toml_value

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
"""What the kernel has."""


class LabError(RuntimeError):
    """The lab did not run, or its results are not to be relied on; the message is the command's."""


def run(
    scenario: str | os.PathLike[str] | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the command line's option
    sweep: Mapping[str, Sequence[Any]] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    together: int = 1,
    program: str | None = None,
    accept_late: bool = False,
    trace: bool = False,
    binary: str | os.PathLike[str] | None = None,
) -> Result:
    """Run a scenario in real time between Linux hosts, each in a network namespace. Takes root.

    Args:
        scenario: A path, TOML text (anything with a line break in it), or the same as a dict.
        set: Fields to change, by path, as for `headend.run`.
        sweep: Fields to vary, by path.
        runs: Runs of every point, instead of the scenario's.
        seed: Seed of the first run, instead of the scenario's.
        together: Runs of a point at a time.
        program: A real program that drives the flows: "iperf3" or "curl".
        accept_late: Take results also of a machine that did not keep up.
        trace: Also have what the kernel says of each sender, as `headend.run` has it. It takes polars.
        binary: The headend command; that of the PATH unless given.

    Returns:
        The tables of `headend.run`. `meta["lab"]` is JSON: of each run, whether the machine kept up.

    Raises:
        LabError: It could not run, or the machine did not keep up.
    """
    found = os.fspath(binary) if binary is not None else shutil.which("headend")
    if found is None:
        raise LabError("there is no command headend on the PATH; name it with binary=")
    kind, text = _source(scenario)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(text) if kind == "path" else Path(folder) / "scenario.toml"
        if kind == "toml":
            path.write_text(text, encoding="utf-8")
        elif kind == "json":
            lines = (
                f"{json.dumps(str(key))} = {toml_value(value) if not isinstance(value, str) else json.dumps(value)}\n"
                for key, value in json.loads(text).items()
            )
            path.write_text("".join(lines), encoding="utf-8")
        out = Path(folder) / "out"
        words = [found, "lab", str(path), "--quiet", "--format", "json", "--together", str(together), "--out", str(out)]
        words += [f"--set={field}={toml_value(value)}" for field, value in (set or {}).items()]
        words += [
            f"--sweep={field}={','.join(toml_value(value) for value in values)}"
            for field, values in (sweep or {}).items()
        ]
        words += [] if runs is None else ["--runs", str(runs)]
        words += [] if seed is None else ["--seed", str(seed)]
        words += [] if program is None else ["--with", program]
        words += ["--accept-late"] if accept_late else []
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise LabError(ended.stderr.strip() or f"headend lab ended with {ended.returncode}")
        tables = json.loads(ended.stdout)
        as_it_ran = next((file.read_text(encoding="utf-8") for file in out.glob("scenario.*")), "")
        followed = Result.load(out).trace if trace else None
        told = json.loads((out / "meta.json").read_text(encoding="utf-8"))
    optional = {
        name: Table(columns(tables[name])) if name in tables else None for name in ("circuits", "media", "intervals")
    }
    return Result(
        flows=Table(columns(tables["flows"])),
        links=Table(columns(tables["links"])),
        trace=followed,
        packets=None,
        captures=[],
        scenario=as_it_ran,
        seed=int(told.get("seed", 0)),
        meta={"version": _native.__version__, "commit": _native.__commit__, "lab": json.dumps(tables["runs"])},
        **optional,
    )


@contextmanager
def installed(binary: str | os.PathLike[str], controller: str) -> Iterator[None]:
    """The kernel has this congestion control of headend's, until this ends if it did not have it before. Takes root.

    Raises LabError if it cannot be had.
    """
    if controller in AVAILABLE.read_text(encoding="ascii").split():
        yield
        return
    words = [os.fspath(binary), "cc"]
    ended = subprocess.run([*words, "install", controller], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise LabError(ended.stderr.strip())
    try:
        yield
    finally:
        subprocess.run([*words, "remove", controller], stdout=subprocess.DEVNULL, check=True)


def columns(table: Mapping[str, Sequence[Any]]) -> dict[str, NativeColumn]:
    """The columns of a table in JSON, of the kinds that the simulator's have."""
    return {name: _column(values) for name, values in table.items()}


def _column(values: Sequence[Any]) -> NativeColumn:
    if any(isinstance(value, str) for value in values):
        names = list(dict.fromkeys(values))
        codes = {name: code for code, name in enumerate(names)}
        return np.array([codes[value] for value in values], dtype=np.uint32), names
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.uint64)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
