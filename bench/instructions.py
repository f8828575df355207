"""Holds the simulator to the instructions that it takes for a packet, so that they do not rise unseen.

Callgrind counts them, whatever else the machine does, in two runs of the dumbbell of `bench/run.py`; what the longer
one takes more is the cost of its further packets, start-up apart. Only instructions of the binary itself count: which
copy of `memcpy` the C library chooses depends on the processor. They depend on the compiler, too, so a figure is
compared with one of the same compiler alone.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from run import Headend

ACCEPTED = Path(__file__).with_suffix(".toml")
TOLERANCE = 0.03
FLOWS = 10
SECONDS = (1, 2)


def own_instructions(profile: Path, binary: Path) -> int:
    """Instructions executed in the binary, of a profile of callgrind; what it calls elsewhere is not its own."""
    names: dict[str, str] = {}
    total, is_own, is_call = 0, False, False
    for line in profile.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"(c?ob)=\((\d+)\)(?: (.*))?", line):
            kind, number, name = found.groups()
            names.setdefault(number, name or "")
            if kind == "ob":
                is_own = names[number] == str(binary)
        elif line.startswith("calls="):
            # The next line is what was called, inclusive.
            is_call = True
        elif re.match(r"[0-9+*-]", line):
            total += int(line.split()[1]) if is_own and not is_call else 0
            is_call = False
    return total


def measure(binary: Path, scratch: Path) -> float:
    """Instructions for one more packet."""
    ours = Headend(binary, scratch)
    runs = []
    for seconds in SECONDS:
        profile = scratch / f"{seconds}.callgrind"
        command = [*ours.command(FLOWS, seconds), "--threads", "1"]
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", *command]
        done = subprocess.run(valgrind, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"callgrind failed: {done.stderr[-2000:]}")
        runs.append((own_instructions(profile, binary), ours.packets(done.stdout)))
    (few, few_packets), (many, many_packets) = runs
    if few == 0 or many_packets <= few_packets:
        sys.exit(f"{few} instructions of {binary} were counted in {few_packets} packets: that is no profile of it")
    return (many - few) / (many_packets - few_packets)


def main() -> None:
    """Measures and compares, or writes what is accepted from now on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--accept", action="store_true", help="accept what is measured now; say why in the commit")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("No valgrind: instructions per packet are not checked (Debian package valgrind)")
        return
    with tempfile.TemporaryDirectory() as scratch:
        measured = measure(options.binary.resolve(), Path(scratch))
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if options.accept:
        text = f'# Written by `bench/instructions.py --accept`.\ncompiler = "{compiler}"\nper_packet = {measured:.0f}\n'
        ACCEPTED.write_text(text, encoding="utf-8")
    accepted = tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))
    figure = f"{measured:,.0f} instructions per packet with {FLOWS} flows; accepted are {accepted['per_packet']:,}"
    if compiler != accepted["compiler"]:
        print(f"{figure}, with {accepted['compiler']}. This is {compiler}: not compared")
    elif measured > accepted["per_packet"] * (1 + TOLERANCE):
        sys.exit(f"{figure}. Find what costs more, or accept it with `bench/instructions.py --accept` and say why")
    elif measured < accepted["per_packet"] * (1 - TOLERANCE):
        print(f"{figure}. That is better: keep it with `bench/instructions.py --accept`")
    else:
        print(figure)


if __name__ == "__main__":
    main()
