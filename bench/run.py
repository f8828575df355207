"""How fast headend simulates, beside ns-2 on the same dumbbell in the same run.

The dumbbell: SACK connections, each between its own two hosts on 1 Gbit/s access links, share 100 Mbit/s with a round
trip of 20 ms. What counts is data packets delivered in order, per CPU second of the whole process, start-up and output
included; instructions per packet under callgrind are steadier: they do not depend on what else the machine does.

With `--htsim PROGRAM` also beside htsim (Broadcom's csg-htsim), of which PROGRAM is a driver: `PROGRAM FLOWS SECONDS 3`
prints the data packets delivered in order over the same three links each way. Its receivers acknowledge each packet, so
headend runs with such receivers, too; its TCP is NewReno, without SACK.

And the ring: experiment TT3 (a), case (d), of the decoupling thesis, five sites with trunks among them for 300 s.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

import headend
from headend.papers.decoupling import ring

HERE = Path(__file__).parent
RATE_BPS = 100_000_000
DATA_BYTES = 1460
PACKET_BYTES = DATA_BYTES + 40

LOSSLESS_SHARE_MIN = 0.9
"""Ten or more SACK connections with a queue of one bandwidth-delay product fill the link; less is no dumbbell."""


RING_CPU_S_MAX = 10.0
RING_CASES = ("(d)", "(d), testbed")
"""As in the study; on the testbed answers and processors take their time."""
RING_BUSY_MIN = 0.5
"""Of the ring's last link, which all but one of the flows cross; less is no ring with trunks."""


@dataclass(frozen=True)
class Run:
    """What one process did and cost."""

    packets: int
    cpu_s: float


def scenario(flows: int, seconds: float, pairs: int | None = None, tcp: Mapping[str, object] | None = None) -> str:
    """The dumbbell as a scenario file; `dumbbell.tcl` says the same to ns-2.

    Without `pairs` each flow has its own pair of hosts; otherwise that many pairs take turns. `tcp` is what all TCPs
    have besides.
    """
    pairs = pairs or flows
    options = toml({"timestamps": False, **(tcp or {})})

    def lines() -> Iterator[str]:
        yield f'title = "Dumbbell of {flows} SACK flows"\nduration = "{seconds}s"\n'
        yield '[nodes]\nleft = { kind = "router" }\nright = { kind = "router" }'
        # ns-2's TCP has no timestamps; everything else is the personality's, and its own defaults agree.
        for i in range(pairs):
            for end in ("from", "to"):
                yield f'{end}{i} = {{ personality = "sack", tcp = {options} }}'
        yield '\n[links.bottleneck]\nbetween = ["left", "right"]\nrate = "100Mbit/s"\ndelay = "8ms"'
        yield 'queue = "167 packets"\nback = { queue = "10000 packets" }'
        for i in range(pairs):
            yield f'\n[links.access{i}]\nbetween = ["from{i}", "left"]\nrate = "1Gbit/s"\ndelay = "1ms"'
            yield f'\n[links.exit{i}]\nbetween = ["right", "to{i}"]\nrate = "1Gbit/s"\ndelay = "1ms"'
        for i in range(flows):
            ends = f'from = "from{i % pairs}"\nto = "to{i % pairs}"'
            yield f'\n[flows.flow{i}]\nkind = "bulk"\n{ends}\nhandshake = false'
            yield f'start = "{i * 1_000_000 // flows}us"'

    return "\n".join(lines()) + "\n"


class Headend:
    """This project's binary."""

    def __init__(
        self, binary: Path, scratch: Path, name: str = "headend", tcp: Mapping[str, object] | None = None
    ) -> None:
        self.binary = binary
        self.scratch = scratch
        self.name = name
        self.tcp = tcp

    def command(self, flows: int, seconds: float, pairs: int | None = None) -> list[str]:
        """Writes the scenario and says how to run it."""
        file = self.scratch / f"{self.name.replace(' ', '-')}-{flows}-{seconds}s.toml"
        file.write_text(scenario(flows, seconds, pairs, self.tcp))
        return [str(self.binary), "sim", str(file), "--format", "json"]

    @staticmethod
    def packets(output: str) -> int:
        """Data packets delivered in order, from what the command printed."""
        return sum(json.loads(output)["flows"]["bytes"]) // DATA_BYTES


class Ns2:
    """ns-2.35, Debian's package ns2."""

    name = "ns-2"

    def command(self, flows: int, seconds: float) -> list[str]:
        """How to run it."""
        return ["ns", str(HERE / "dumbbell.tcl"), str(flows), str(seconds)]

    @staticmethod
    def packets(output: str) -> int:
        """Data packets delivered in order, from what the command printed."""
        return int(output.split()[-1])


class Htsim:
    """htsim, through a driver for the dumbbell."""

    name = "htsim"

    def __init__(self, program: Path) -> None:
        self.program = program

    def command(self, flows: int, seconds: float) -> list[str]:
        """How to run it."""
        return [str(self.program), str(flows), str(seconds), "3"]

    @staticmethod
    def packets(output: str) -> int:
        """Data packets delivered in order, from what the command printed."""
        return int(output.split()[-1])


Simulator = Headend | Ns2 | Htsim

EACH = {"delayed_ack": 1}
"""Receivers that acknowledge each packet, as htsim's do."""


def run(simulator: Simulator, flows: int, seconds: float) -> Run:
    """Runs it once."""
    output, cpu_s = timed(simulator.command(flows, seconds))
    packets = simulator.packets(output)
    share = packets * PACKET_BYTES * 8 / (RATE_BPS * seconds)
    if not LOSSLESS_SHARE_MIN <= share <= 1:
        sys.exit(f"{simulator.name} delivered {share:.1%} of what {flows} flows should: not the same dumbbell")
    return Run(packets, cpu_s)


def toml(value: object) -> str:
    """A value of a scenario on one line; strings and numbers are as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {toml(item)}" for name, item in value.items()) + " }"
    return json.dumps(value)


def ring_file(name: str, scratch: Path) -> Path:
    """A case of TT3 (a) as a scenario file."""
    scenario = next(case for case in ring.TT3A.cases if case.name == name).scenario()
    lines = [f"{field} = {toml(value)}" for field, value in scenario.items() if not isinstance(value, Mapping)]
    for table, entries in scenario.items():
        if isinstance(entries, Mapping):
            lines += [f"[{table}]", *(f"{entry} = {toml(value)}" for entry, value in entries.items())]
    file = scratch / f"ring-{RING_CASES.index(name)}.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def run_ring(binary: Path, file: Path) -> Run:
    """Packets that all links delivered, and the CPU time of the process."""
    output, cpu_s = timed([str(binary), "sim", str(file), "--format", "json"])
    links = json.loads(output)["links"]
    last = [links["link"][i] == "r5r1" and links["direction"][i] == "r5->r1" for i in range(len(links["link"]))]
    busy = links["utilisation"][last.index(True)]
    if busy < RING_BUSY_MIN:
        sys.exit(f"the ring's last link was busy for {busy:.0%} of the time: {file}")
    return Run(sum(links["delivered"]), cpu_s)


def timed(command: Sequence[str]) -> tuple[str, float]:
    """What a command printed, and the CPU time, user and system, of its process."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"exit code {process.returncode}: {command}")
    return output, usage.ru_utime + usage.ru_stime


def instructions(simulator: Simulator, flows: int, seconds: float) -> tuple[int, int]:
    """Instructions that callgrind counts in one run, and the packets delivered in it."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *simulator.command(flows, seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or collected is None:
        sys.exit(f"callgrind failed on {simulator.name}: {done.stderr[-2000:]}")
    return int(collected[1]), simulator.packets(done.stdout)


def instructions_per_packet(simulator: Simulator, flows: int) -> float:
    """Instructions that one more packet costs, so that start-up does not count."""
    short, few = instructions(simulator, flows, 2)
    long, many = instructions(simulator, flows, 4)
    return (long - short) / (many - few)


def memory_per_flow_bytes(headend: Headend, shared: bool) -> float:
    """What one more flow adds to the most memory that the process ever holds.

    With `shared` hosts that is the flow alone, otherwise its two hosts and two links as well.
    """
    few, many = (resident_bytes_max(headend.command(flows, 10, pairs=1 if shared else flows)) for flows in (100, 1100))
    return (many - few) / 1000


def resident_bytes_max(command: Sequence[str]) -> int:
    """The most memory the process ever held, read while it runs.

    Not wait4's ru_maxrss: that survives exec, so it would be at least this interpreter's own size.
    """
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        most = 0
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            if high_water := re.search(r"VmHWM:\s+(\d+) kB", status):
                most = max(most, int(high_water[1]) * 1024)
            time.sleep(0.001)
    if process.returncode != 0 or most == 0:
        sys.exit(f"exit code {process.returncode}, {most} bytes of memory seen: {command}")
    return most


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints the table and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--htsim", type=Path, help="htsim's driver for the dumbbell, to run beside")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each simulator, in turns (default: 5)")
    parser.add_argument("--seconds", type=float, default=60, help="virtual time of each run (default: 60)")
    options = parser.parse_args(arguments)

    scratch = options.out.parent / "bench"
    scratch.mkdir(parents=True, exist_ok=True)
    ours = Headend(options.binary, scratch)
    simulators: list[Simulator] = [ours]
    if shutil.which("ns"):
        simulators.append(Ns2())
    if options.htsim:
        simulators.append(Headend(options.binary, scratch, "headend, each acknowledged", EACH))
        rack = {**EACH, "recovery": "rack-tlp"}
        simulators.append(Headend(options.binary, scratch, "headend, each acknowledged, RACK", rack))
        simulators.append(Htsim(options.htsim.resolve()))
    callgrind = shutil.which("valgrind") is not None

    report: dict[str, object] = {
        "headend": headend.__version__,
        "machine": {"system": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
        "seconds": options.seconds,
    }
    table = Table("flows", "program", "packets", "CPU s", "Mpkt/s", "range", "instr/pkt", "ratio", box=box.SIMPLE)
    for flows in (10, 100, 1_000) if options.htsim else (10, 100):
        runs: dict[str, list[Run]] = {simulator.name: [] for simulator in simulators}
        for _ in range(options.repeats):
            for simulator in simulators:
                runs[simulator.name].append(run(simulator, flows, options.seconds))
        rates = {name: [r.packets / r.cpu_s for r in done] for name, done in runs.items()}
        headline = {name: statistics.median(values) for name, values in rates.items()}
        counts = {s.name: instructions_per_packet(s, flows) for s in simulators} if callgrind else {}
        for name, done in runs.items():
            table.add_row(
                str(flows),
                name,
                f"{done[0].packets:,}",
                f"{statistics.median(r.cpu_s for r in done):.3f}",
                f"{headline[name] / 1e6:.2f}",
                f"{min(rates[name]) / 1e6:.2f}..{max(rates[name]) / 1e6:.2f}",
                f"{counts[name]:,.0f}" if counts else "-",
                f"{headline['headend'] / headline[name]:.1f}",
            )
        report[f"dumbbell_{flows}"] = {
            name: {
                "packets_per_cpu_s": headline[name],
                "instructions_per_packet": counts.get(name),
                "runs": [asdict(r) for r in done],
            }
            for name, done in runs.items()
        }

    alone, with_hosts = (memory_per_flow_bytes(ours, shared) for shared in (True, False))
    report["memory_per_flow_bytes"] = {"alone": alone, "with_its_hosts_and_links": with_hosts}

    rings = {}
    for name in RING_CASES:
        file = ring_file(name, scratch)
        rings[name] = [run_ring(options.binary, file) for _ in range(options.repeats)]
    report["ring"] = {name: [asdict(r) for r in done] for name, done in rings.items()}

    options.out.write_text(json.dumps(report, indent=2) + "\n")
    console = Console()
    console.print(table)
    console.print("Mpkt/s: million data packets delivered per CPU second, median of runs in turns")
    console.print("ratio: headend's Mpkt/s over that simulator's")
    console.print(f"Memory per flow: {alone / 1024:.1f} KiB; with two hosts and two links: {with_hosts / 1024:.1f} KiB")
    for name, done in rings.items():
        cpu_s = [r.cpu_s for r in done]
        verdict = "below" if max(cpu_s) < RING_CPU_S_MAX else "NOT below"
        each = done[0].packets / statistics.median(cpu_s) / 1e6
        console.print(
            f"Ring TT3 (a), {name}, 300 s: {statistics.median(cpu_s):.2f} CPU s ({min(cpu_s):.2f}..{max(cpu_s):.2f}), "
            f"{verdict} {RING_CPU_S_MAX:g}; {each:.1f} million packets over links a CPU s"
        )
    if not shutil.which("ns"):
        console.print("ns-2 is not installed (Debian package ns2): no ratio")
    console.print(f"Written to {options.out}")


def processor() -> str:
    """The processor's name, as Linux tells it."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


if __name__ == "__main__":
    main()
