"""What a Dask cluster costs and what it survives: a study by two workers on this machine, some killed meanwhile.

The same study is run into a store by one process of two threads, then by a scheduler and two worker processes. At
random times a worker is killed and another started. Said are the CPU seconds of both ways, what the cluster's were
more, and whether every table is the same. It is one machine: a network, a shared disk and more workers are not tried.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TABLES = ("flows", "links")
FILL = """import sys, headend
file, runs, store, *cluster = sys.argv[1:]
more = {"cluster": cluster[0]} if cluster else {"threads": 2}
headend.run(file, runs=int(runs), store=store, **more)
"""


def children_cpu_s() -> float:
    """CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def started(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of Dask."""
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def worker(address: str) -> subprocess.Popen[bytes]:
    """A worker of one thread."""
    return started("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")


def together(fill: list[str], scratch: Path, kills: int, between_s: float, seed: int) -> int:
    """Runs the study on a cluster; returns how many workers were killed meanwhile."""
    file = scratch / "scheduler.json"
    scheduler = started(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
    )
    workers: list[subprocess.Popen[bytes]] = []
    chance = random.Random(seed)
    killed = 0
    try:
        while not file.exists():
            time.sleep(0.1)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        workers = [worker(address) for _ in range(2)]
        client = subprocess.Popen([*fill, address])
        while client.poll() is None:
            try:
                client.wait(chance.uniform(0.5, 1.5) * between_s)
            except subprocess.TimeoutExpired:
                if killed < kills:
                    place = chance.randrange(len(workers))
                    workers[place].kill()
                    workers[place].wait()
                    workers[place] = worker(address)
                    killed += 1
        if client.returncode != 0:
            sys.exit(f"the client failed with {client.returncode}")
    finally:
        for process in [*workers, scheduler]:
            process.kill()
            process.wait()
    return killed


def differing(one: Path, other: Path) -> list[str]:
    """Files of the tables that are not the same, byte for byte."""
    wrong = []
    for table in TABLES:
        ours, theirs = ({path.name: path for path in (store / table).glob("*.parquet")} for store in (one, other))
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in ours or name not in theirs or ours[name].read_bytes() != theirs[name].read_bytes():
                wrong.append(f"{table}/{name}")
    return wrong


def main() -> None:
    """Run both ways and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="scenarios/hfc.toml")
    parser.add_argument("--runs", type=int, default=25_000, help="runs of each point")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--between", type=float, default=8.0, help="seconds between kills, about")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="headend-cluster-"))
    fill = [sys.executable, "-c", FILL, asked.scenario, str(asked.runs)]
    try:
        begin = children_cpu_s()
        subprocess.run([*fill, str(scratch / "alone")], check=True)
        alone = children_cpu_s() - begin
        killed = together([*fill, str(scratch / "together")], scratch, asked.kills, asked.between, asked.seed)
        cluster = children_cpu_s() - begin - alone
        header = json.loads((scratch / "alone" / "store.json").read_text(encoding="utf-8"))
        runs = header["points"] * header["runs"]
        wrong = differing(scratch / "alone", scratch / "together")
    finally:
        shutil.rmtree(scratch)
    print(f"{runs} runs of {asked.scenario}, seed {asked.seed}")
    print(f"one process: {alone:.1f} CPU s, {alone / runs * 1e6 / 3600:.2f} CPU h for a million runs (extrapolated)")
    print(
        f"scheduler, client and two workers, {killed} workers killed: {cluster:.1f} CPU s, {cluster / alone - 1:+.1%}"
    )
    print("files that differ: " + (", ".join(wrong) or "none"))
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
