"""Pictures on time over a line that loses packets, a CUBIC of the kernel beside: frames, plain UDP, TCP and SRT.

Two namespaces, and between them a line of `headend emulate`. `crates/socket/examples/media.rs` sends and receives the
pictures of a synthetic encoder; through Debian's srt-tools, if they are there, it sends and receives as over plain UDP.
iperf3 is beside from before the film to after it, and its server says what CUBIC had. It takes root and iperf3.

A picture is on time if all of it has come within the deadline from when it was captured; one that the encoder left out
is not. A freeze is a fifth of a second or more in which no picture came on time. A goal that is missed is printed as
missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import page
from machine import run, say, waited_for
from tunnel import LEFT, RIGHT, THERE, iperf_servers, joined_by, listens, process, two_namespaces

LINE_BPS = 10e6
DELAY_MS = 20
QUEUE = "50KB"
FILM_BPS = 2_000_000
DEADLINE_MS = 150
SRT_LATENCY_MS = 90
"""With the way there and a queue that is full it is within the deadline; SRT's default, 120, is not."""
FREEZE_MS = 200
PICTURES_PER_S = 30
GOAL_PERCENT = 97
PORT, SRT_PORT = 9100, 9101
BEFORE_S = 3
"""CUBIC has begun by then."""


@contextmanager
def line(binary: Path, folder: Path, loss_percent: float) -> Iterator[None]:
    """The two namespaces, with the line between them."""
    link = (
        f'rate = "{LINE_BPS / 1e6:g}Mbit/s"\ndelay = "{DELAY_MS}ms"\nqueue = "{QUEUE}"\n'
        f'loss = "{loss_percent:g}%"\nback = {{ loss = "0%" }}'
    )
    with two_namespaces(), joined_by(binary, link, folder):
        yield


def inside(name: str, *words: object) -> list[str]:
    """A command in a namespace."""
    return ["ip", "netns", "exec", name, *map(str, words)]


@dataclass(frozen=True)
class Shown:
    """What became of a film."""

    captured: int
    on_time: int
    late: int
    freezes: int
    mean_bps: float
    cubic_bps: float

    @property
    def percent(self) -> float:
        """Pictures on time."""
        return 100 * self.on_time / max(1, self.captured)


def judged(sent: dict[str, float], seen: dict[str, list[list[float]]], cubic_bps: float) -> Shown:
    """Counts pictures by when they came."""
    on_time = sorted(number for number, took_ms in seen["pictures_ms"] if took_ms <= DEADLINE_MS)
    gaps = zip([-1, *on_time], [*on_time, int(sent["captured"])], strict=True)
    freezes = sum((after - before - 1) * 1000 / PICTURES_PER_S >= FREEZE_MS for before, after in gaps)
    late = len(seen["pictures_ms"]) - len(on_time)
    return Shown(int(sent["captured"]), len(on_time), late, freezes, sent["mean_bps"], cubic_bps)


@contextmanager
def srt(folder: Path) -> Iterator[None]:
    """SRT from a port of plain UDP on the left to one on the right."""
    program = "srt-live-transmit"
    query = f"latency={SRT_LATENCY_MS}"
    there = [program, "-q", f"srt://:{SRT_PORT}?mode=listener&{query}", f"udp://127.0.0.1:{PORT}"]
    here = [program, "-q", f"udp://127.0.0.1:{PORT}?mode=listener", f"srt://{THERE}:{SRT_PORT}?mode=caller&{query}"]
    with ExitStack() as stack:
        stack.enter_context(process(there, RIGHT, folder / "srt-there.log"))
        waited_for("SRT's listener", lambda: listens(RIGHT, SRT_PORT, "u"))
        stack.enter_context(process(here, LEFT, folder / "srt-here.log"))
        waited_for("SRT's caller", lambda: listens(LEFT, PORT, "u"))
        yield


@contextmanager
def cubic(seconds: float) -> Iterator[list[float]]:
    """One transfer of the kernel's CUBIC, in the direction of the film; its rate [bit/s] is there after the block."""
    rates: list[float] = []
    words = ["iperf3", "-J", "-c", THERE, "-p", 5201, "-t", seconds, "-O", BEFORE_S, "-C", "cubic"]
    with subprocess.Popen(inside(LEFT, *words), stdout=subprocess.PIPE, text=True) as transfer:
        yield rates
        told, _ = transfer.communicate(timeout=seconds + 60)
    rates.append(json.loads(told)["end"]["sum_received"]["bits_per_second"])


def film(way: str, options: argparse.Namespace, folder: Path) -> Shown:
    """Shows a film over one of them, with CUBIC beside."""
    kind = "udp" if way == "srt" else way
    with ExitStack() as stack:
        if way == "srt":
            stack.enter_context(srt(folder))
        at = f"127.0.0.1:{PORT}" if way == "srt" else f"{THERE}:{PORT}"
        receive = inside(RIGHT, options.media, "receive", kind, at, options.seconds + BEFORE_S + 6)
        receiver = stack.enter_context(subprocess.Popen(receive, stdout=subprocess.PIPE, text=True))
        stack.callback(receiver.kill)
        waited_for("the receiver", lambda: listens(RIGHT, PORT, "t" if kind == "tcp" else "u"))
        assert receiver.stdout
        more = [receiver.stdout.readline().strip()] if kind == "frames" else []
        rates = stack.enter_context(cubic(options.seconds))
        waited_for("CUBIC", lambda: "ESTAB" in run("ss", "-tn", "dport = :5201", inside=LEFT))
        to = f"127.0.0.1:{PORT}" if way == "srt" else f"{THERE}:{PORT}"
        send = inside(LEFT, options.media, "send", kind, to, options.seconds, FILM_BPS, DEADLINE_MS, *more)
        sent = json.loads(subprocess.run(send, check=True, capture_output=True, text=True, timeout=600).stdout)
        seen = json.loads(receiver.stdout.readline())
        took_ms = sorted(took for _, took in seen["pictures_ms"])
        middle = f", half of those that came took {statistics.median(took_ms):.0f} ms" if took_ms else ""
        say(f"{way}: {json.dumps(sent)}{middle}")
    return judged(sent, seen, rates[0])


def alone(options: argparse.Namespace) -> float:
    """What CUBIC has without a film [bit/s]."""
    with cubic(options.seconds) as rates:
        pass
    return rates[0]


def measure(options: argparse.Namespace) -> str:
    """Each way in turns, and CUBIC alone."""
    ways = ["frames", "udp", "tcp"]
    if shutil.which("srt-live-transmit"):
        ways.append("srt")
    else:
        say("no srt-live-transmit on this machine (apt install srt-tools): SRT is left out")
    shown: dict[str, list[Shown]] = {way: [] for way in ways}
    cubics = []
    for turn in range(options.rounds):
        for way in ["alone", *ways[turn % len(ways) :], *ways[: turn % len(ways)]]:
            with tempfile.TemporaryDirectory(prefix="headend-media-") as folder, ExitStack() as stack:
                stack.enter_context(line(options.binary, Path(folder), options.loss))
                stack.enter_context(iperf_servers([5201]))
                if way == "alone":
                    cubics.append(alone(options))
                    say(f"CUBIC alone: {cubics[-1] / 1e6:.2f} Mbit/s")
                    continue
                shown[way].append(film(way, options, Path(folder)))
            newest = shown[way][-1]
            say(f"round {turn + 1}, {way}: {newest.percent:.1f}% on time, CUBIC {newest.cubic_bps / 1e6:.2f} Mbit/s")
    lines = [
        "| way | on time [%] | came late [%] | freezes | pictures [Mbit/s] | CUBIC beside [Mbit/s] |",
        "|---|---|---|---|---|---|",
    ]
    middle = {way: statistics.median(one.percent for one in rows) for way, rows in shown.items()}
    for way, rows in shown.items():
        late = statistics.median(100 * one.late / max(1, one.captured) for one in rows)
        freezes = statistics.median(one.freezes for one in rows)
        mean, beside = (statistics.median(getattr(one, key) for one in rows) / 1e6 for key in ("mean_bps", "cubic_bps"))
        lines.append(f"| {way} | {middle[way]:.1f} | {late:.1f} | {freezes:g} | {mean:.2f} | {beside:.2f} |")
    lines.append(f"| no film | | | | | {statistics.median(cubics) / 1e6:.2f} |")
    goal = "met" if middle["frames"] >= GOAL_PERCENT else "missed"
    kernel = ".".join(platform.release().split(".")[:2])
    about = (
        f"Medians of {options.rounds} rounds of {options.seconds:g} s, {LINE_BPS / 1e6:g} Mbit/s, {2 * DELAY_MS} ms, a "
        f"queue of {QUEUE}, {options.loss:g}% loss; pictures of {FILM_BPS / 1e6:g} Mbit/s at most, worth something for "
        f"{DEADLINE_MS} ms. The goal, {GOAL_PERCENT}% of frames on time, is {goal}."
    )
    return "\n".join([*lines, "", f"{about} {os.cpu_count()} cores, Linux {kernel}."])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--media", type=Path, default=Path("target/release/examples/media"))
    parser.add_argument("--loss", type=float, default=2, help="percent of the packets of all (default: 2)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30, help="of a film (default: 30)")
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench-media: takes root, for namespaces")
    for program in (options.binary, options.media):
        if not program.is_file():
            sys.exit(
                f"{program}: no such file; expected what `cargo build --release -p headend-cli` and "
                "`cargo build --release -p headend-socket --example media` make (--binary, --media)"
            )
    options.binary, options.media = options.binary.resolve(), options.media.resolve()
    for name in ("SIGTERM", "SIGINT"):
        signal.signal(getattr(signal, name), lambda *_: sys.exit("ended"))
    text = measure(options)
    print(f"\n{text}\n", flush=True)
    if options.page:
        page.write(options.page, f"bench-media-{options.loss:g}", text)
        say(f"written into {options.page}")


if __name__ == "__main__":
    main()
