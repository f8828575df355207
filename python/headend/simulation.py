"""Running scenarios from Python."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from headend import _native
from headend.controller import Controller
from headend.progress import bar
from headend.results import Capture, Result, Table
from headend.section import Section
from headend.store import Store


@overload
def run(
    scenario: str | os.PathLike[str] | Mapping[str, Any] | Section,
    *,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    trace: bool = False,
    progress: Callable[[int, int], None] | bool | None = None,
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
    store: None = None,
    controllers: Mapping[str, Callable[[_native.Setup], Controller]] | None = None,
) -> Result: ...
@overload
def run(
    scenario: str | os.PathLike[str] | Mapping[str, Any] | Section,
    *,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
    store: str | os.PathLike[str],
    shard: str = "1/1",
    task_runs: int | None = None,
    cluster: Any = None,
) -> Store: ...
def run(
    scenario: str | os.PathLike[str] | Mapping[str, Any] | Section,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the command line's option
    sweep: Mapping[str, Sequence[Any]] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    trace: bool = False,
    progress: Callable[[int, int], None] | bool | None = None,
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
    store: str | os.PathLike[str] | None = None,
    shard: str = "1/1",
    task_runs: int | None = None,
    cluster: Any = None,
    controllers: Mapping[str, Callable[[_native.Setup], Controller]] | None = None,
) -> Result | Store:
    """Simulate a scenario: every point of its sweep, every run, on all cores.

    Args:
        scenario: A path, TOML text (anything with a line break in it), the same as a dict, or a `headend.Scenario`.
        set: Fields to change, by path: `{"links.cable.down.loss": "1%"}`. A probability of 1 is refused here and in
            `sweep`, as an integer and as a float: it is "1%" or "100%".
        sweep: Fields to vary, by path, each with a list or array of values; in place of the scenario's own axis of that
            path, or beside the others.
        runs: Runs of every point, instead of the scenario's.
        seed: Seed of the first run, instead of the scenario's.
        threads: Worker threads; as many as there are cores unless given. Results do not depend on it.
        trace: Also record the senders' state, every packet, and captures.
        progress: Called with runs done and runs in all, on this thread; True for a bar in a notebook or a terminal.
        journal: A folder in which each run is kept as soon as it has ended, without its trace; the caller removes it.
        resume: Take up the runs that are in `journal` instead of refusing to overwrite them.
        store: A folder for the results, written as they come, as Parquet; what is there already is not run again.
        shard: With `store`, one of N shares of the study, "1/N" to "N/N".
        task_runs: With `store`, the runs of a part; as many as take some seconds unless given.
        cluster: With `store`, the address of a Dask scheduler or a `distributed.Client`: its workers do the work. They
            need this build of headend, and the folder by the same path.
        controllers: Congestion controls of one's own by name, each a class as `headend.controller.Controller` says. A
            host takes one as a personality of that name, which is Linux's but for it. What they raise is
            raised here. Runs are then one after the other unless `threads` says otherwise.

    Returns:
        The tables of results; number columns share the simulator's memory. With `store`, the `headend.Store`.

    Raises:
        ScenarioError: The scenario or a setting is wrong; the message names file, line and field.
        SimulationError: A simulation could not be run, or the journal or the store does not serve.
        TypeError: A value is of a kind that a scenario cannot hold, or one that is swept has no list of values.
        OSError: The file cannot be read.
        KeyboardInterrupt: Ctrl-C; what is not in a journal is lost.
    """
    settings = dict(set or {})
    if runs is not None:
        settings["runs"] = runs
    if seed is not None:
        settings["seed"] = seed
    kind, text = _source(scenario)
    changes = [(path, toml_value(value)) for path, value in settings.items()]
    axes = [(path, _swept(path, values)) for path, values in (sweep or {}).items()]
    shown = bar() if progress is True else progress or None
    beside = getattr(scenario, "_file", None) if isinstance(scenario, Section) else None
    if controllers and threads is None:
        # Objects of one class may share what they like.
        threads = 1
    if store is None:
        if shard != "1/1" or task_runs is not None or cluster is not None:
            raise TypeError("shard, task_runs and cluster divide what is written to a store: name one with store=")
    elif controllers:
        raise TypeError("controllers written in Python have no store: their code is no part of its key")
    elif trace or journal is not None or resume:
        raise TypeError("a store keeps no traces, and is its own journal: leave out trace, journal and resume")
    else:
        if cluster is not None and (shard != "1/1" or threads is not None):
            raise TypeError("a cluster divides the work itself: leave out shard and threads")
        if not isinstance(shard, str) or not _is_share(shard):
            raise ValueError(f'shard={shard!r}: expected "I/N", one of N shares from "1/N" to "N/N"')
        if cluster is not None and not isinstance(cluster, str) and not hasattr(cluster, "as_current"):
            raise TypeError(f"cluster={cluster!r}: expected the address of a scheduler, or a distributed.Client")
        native_store = _native.Store(store, kind, text, changes, axes, task_runs, beside)  # type: ignore[arg-type]
        if cluster is None:
            native_store.fill(shard, threads, shown)
        else:
            from headend.cluster import fill

            file = os.path.abspath(text) if kind == "path" else beside
            fill(cluster, native_store, os.path.abspath(store), file, shown)
        return Store.open(store)
    native = _native.run(
        kind,  # type: ignore[arg-type]
        text,
        changes,
        axes,
        threads,
        trace,
        shown,
        journal,
        resume,
        beside,
        list((controllers or {}).items()),
    )
    circuits, media, intervals = native.circuits(), native.media(), native.intervals()
    series, packets = native.series(), native.packets()
    return Result(
        flows=Table(native.flows()),
        links=Table(native.links()),
        circuits=None if circuits is None else Table(circuits),
        media=None if media is None else Table(media),
        intervals=None if intervals is None else Table(intervals),
        trace=None if series is None else Table(series),
        packets=None if packets is None else Table(packets),
        captures=[Capture(*capture) for capture in native.captures()],
        scenario=native.scenario,
        seed=native.seed,
        meta={"version": _native.__version__, "commit": _native.__commit__},
    )


def _swept(path: str, values: Any) -> list[str]:
    """The values of a swept field, each as text."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"sweep of {path}: a list of values is needed, such as [{values!r}], not {values!r}")
    return [toml_value(value) for value in values]


def toml_value(value: Any) -> str:
    """A Python value as it would be written after `--set path=`.

    Raises TypeError for what a scenario cannot hold.
    """
    if isinstance(value, str):
        return str(value)
    return _toml(value)


def _toml(value: Any) -> str:
    """A value as TOML on one line; NumPy's numbers and arrays are those of Python."""
    if isinstance(value, np.generic | np.ndarray):
        return _toml(value.tolist())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    raise TypeError(f"a scenario cannot hold {value!r}, a {type(value).__name__}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a scenario cannot hold {value!r}, a {type(value).__name__}")


def _source(scenario: str | os.PathLike[str] | Mapping[str, Any] | Section) -> tuple[str, str]:
    if isinstance(scenario, Section):
        scenario = scenario.to_dict()
    if isinstance(scenario, Mapping):
        return "json", json.dumps(scenario, allow_nan=False, default=_plain)
    text = os.fspath(scenario)
    return ("toml" if isinstance(scenario, str) and "\n" in text else "path"), text


def _is_share(text: str) -> bool:
    """True for "I/N" with 1 <= I <= N."""
    number, slash, count = text.partition("/")
    return bool(slash) and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)
