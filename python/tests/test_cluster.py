"""A store filled by a real scheduler and worker processes on loopback, which are killed meanwhile."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import distributed
import pytest
from test_store import SCENARIO

import headend
import headend.cluster

LIMIT_S = 120
"""How long is waited for a process to come up; it takes some seconds."""


@contextmanager
def process(module, *arguments):
    """A process of Dask that is killed at the end, if not before."""
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def scheduler(folder, name):
    """A scheduler on a port that is free, and its address."""
    file = folder / name
    listening = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file", str(file))
    with process("dask_scheduler", *listening) as started:
        until = time.monotonic() + LIMIT_S
        while True:
            assert started.poll() is None, "the scheduler has ended"
            assert time.monotonic() < until, "waited for the scheduler's file"
            try:
                yield started, json.loads(file.read_text())["address"]
                return
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.05)


def worker(address):
    return process("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")


def test_killed_workers_and_schedulers_cost_no_result(tmp_path, monkeypatch):
    whole = headend.run(SCENARIO, store=tmp_path / "whole", runs=60, task_runs=2)
    # So that most tasks are still to be given when the scheduler is killed.
    monkeypatch.setattr(headend.cluster, "UNDER_WAY_MAX", 4)

    def run(address, progress=None):
        return headend.run(
            SCENARIO, store=tmp_path / "together", runs=60, task_runs=2, cluster=address, progress=progress
        )

    with scheduler(tmp_path, "first.json") as (first, address), ExitStack() as stack:
        workers = [stack.enter_context(worker(address)) for _ in range(2)]
        seen = []

        def kill(done, total):
            seen.append((done, total))
            if len(seen) == 1:
                workers[0].kill()
            if len(seen) == 10:
                # It would look for it as long as it had for connecting.
                client._timeout = 1
                first.kill()

        client = stack.enter_context(distributed.Client(address, timeout=LIMIT_S, set_as_default=False))
        with pytest.raises(headend.SimulationError, match="the scheduler is gone"):
            run(client, kill)
        assert seen[0] == (2, 120)
    with scheduler(tmp_path, "second.json") as (_, address), worker(address):
        together = run(address)
    assert together.is_whole
    for table in ("flows", "links", "intervals"):
        assert together.scan(table).collect().equals(whole.scan(table).collect())


def test_no_scheduler_is_told_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(headend.cluster, "CONNECT_S", 0.5)
    with pytest.raises(headend.SimulationError, match="no scheduler at"):
        headend.run(SCENARIO, store=tmp_path / "store", cluster="tcp://127.0.0.1:1")
    assert headend.Store.open(tmp_path / "store").parts == []
