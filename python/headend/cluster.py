"""A store filled by the workers of a Dask cluster: on one machine, on SSH hosts or below SLURM.

A task is given to a worker as the folder and a number; the worker reads from the folder what the study is, writes the
part there and returns nothing. So nothing of the results passes through the scheduler, and what a killed worker or
scheduler costs is the tasks that were under way.
"""

from __future__ import annotations

import functools
import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headend import _native

if TYPE_CHECKING:
    from distributed import Client

CONNECT_S = 20.0
"""How long a scheduler is looked for."""

UNDER_WAY_MAX = 2_000
"""Tasks that the scheduler is told of at a time: it takes some kilobytes for each."""


def fill(
    cluster: str | Client,
    store: _native.Store,
    folder: str,
    file: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Have every part of a store made that is not there.

    Args:
        cluster: The address of a scheduler, or a client of one.
        store: The store.
        folder: Its folder, by the path at which every worker finds it.
        file: The scenario's file, if it comes from one: recordings of rates are beside it.
        progress: Called with runs done and runs in all.

    Raises:
        SimulationError: A worker has another build of headend, or cannot write, or the scheduler is gone. What has been
            written stays: the same call goes on from there.
    """
    from distributed import as_completed

    done = 0
    tasks = iter(range(store.tasks))
    # Names of their own: what an earlier call had under way is none of this one's.
    call = uuid.uuid4().hex[:8]

    def submit(client: Client) -> Iterator[tuple[Any, int]]:
        for task in tasks:
            key = f"headend-{store.name(task)}-{call}"
            yield client.submit(_make, folder, file, task, store.name(task), key=key, pure=False), task

    with _client(cluster) as client:
        _refuse_others(client)
        waiting = submit(client)
        given = dict(itertools.islice(waiting, UNDER_WAY_MAX))
        under_way: Any = as_completed(list(given))  # type: ignore[no-untyped-call]
        for future in under_way:
            task = given.pop(future)
            if future.status == "error":
                raise future.exception()
            if future.status != "finished":
                raise _native.SimulationError(
                    "the scheduler is gone; the same call goes on from the parts that are there"
                )
            done += store.runs_of(task)
            if progress is not None:
                progress(done, store.runs)
            for following, number in itertools.islice(waiting, 1):
                given[following] = number
                under_way.add(following)
    missing = [store.name(task) for task in range(store.tasks) if not store.has(task)]
    if missing:
        text = f"{len(missing)} parts that workers have written are not in {folder}, such as {missing[0]}"
        raise _native.SimulationError(f"{text}: do they have the folder by this path?")


@contextmanager
def _client(cluster: str | Client) -> Iterator[Client]:
    """A client that the caller has, or one of its own for as long as it is needed."""
    from distributed import Client

    if not isinstance(cluster, str):
        with cluster.as_current():
            yield cluster
        return
    try:
        client = Client(cluster, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError) as error:
        raise _native.SimulationError(f"there is no scheduler at {cluster}: {error}") from error
    with client, client.as_current():
        yield client


def _refuse_others(client: Client) -> None:
    """Look before the work; workers that join later are refused by what the store says."""
    others = {
        address: build
        for address, build in client.run(_build, on_error="return").items()
        if build != _native.Store.build
    }
    if others:
        address, build = next(iter(others.items()))
        raise _native.SimulationError(
            f"{address} has headend {build}, and here is {_native.Store.build}: results of two builds are not mixed"
        )


def _build() -> str:
    return _native.Store.build


@functools.lru_cache(maxsize=4)
def _opened(folder: str, file: str | None) -> _native.Store:
    """A worker's own view of a store; the study's text is read once."""
    return _native.Store(folder, "path", os.path.join(folder, "scenario.toml"), [], [], None, file)


def _make(folder: str, file: str | None, task: int, name: str) -> None:
    """What a worker does: a task, unless its part is there."""
    if _opened(folder, file).name(task) != name:
        # The folder has been removed since, and begun for another study.
        _opened.cache_clear()
    store = _opened(folder, file)
    if store.name(task) != name:
        raise _native.SimulationError(
            f"{folder} on this worker is the store of another study: has it the folder by this path?"
        )
    store.make(task)
