"""What the benches ask of the machine: commands in namespaces, conditions, CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 20.0


def run(*words: object, inside: str | None = None) -> str:
    """The output of a command, in a namespace or here."""
    prefix = ["ip", "netns", "exec", inside] if inside else []
    done = subprocess.run([*prefix, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def say(text: str) -> None:
    """A line for whoever waits."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def waited_for(what: str, is_so: Callable[[], bool]) -> None:
    """Waits for a condition."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.05)


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def machine_cpu_s() -> float:
    """All time of the machine's cores so far but idle, waiting and stolen."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _wait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / TICKS_PER_S
