#!/usr/bin/env python3
"""Runs every Rust test of the workspace; those in real time that failed are run once more with nothing beside them.

Tests of the packages in REAL_TIME start processes, namespaces and sockets, several at once. One that fails there and
passes alone was disturbed by its neighbours or by the machine: that is printed, and is a fault to be found, but stops
nobody. A test of another package is deterministic: where it fails once it has failed. Options are passed on to cargo.
"""

import re
import subprocess
import sys

REAL_TIME = {"headend-host", "headend-cli", "headend-conform", "headend-socket"}


def main() -> int:
    """Runs all, and what failed again. Returns what this process is to exit with."""
    options = sys.argv[1:]
    failed = run(["--no-fail-fast", *options])
    if failed is None:
        return 0
    for package, *target in failed:
        if package not in REAL_TIME or "--doc" in target:
            say(f"{package} {' '.join(target)} failed, and is not run again: nothing in it hangs on time")
            return 1
    for package, *target in failed:
        say(f"{package} {' '.join(target)} failed; once more, alone")
        # Of the whole workspace, so that nothing is built anew for other features.
        if run([*target, *options, "--", "--test-threads=1"]) is not None:
            return 1
    for package, *target in failed:
        say(f"{package} {' '.join(target)} FAILED IN COMPANY and passed alone: see its output above")
    return 0 if failed else 1


def run(arguments: list[str]) -> list[list[str]] | None:
    """Runs cargo's tests. Returns None if all passed, else the package of each target that failed and its option."""
    failed = []
    command = ["cargo", "test", "--workspace", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stderr or ():
            sys.stderr.write(line)
            if named := re.fullmatch(r"\s+`-p ([^`]+)`\s*", line):
                failed.append(named[1].split())
    return None if process.returncode == 0 else failed


def say(message: str) -> None:
    """Prints a line of this script among cargo's."""
    print(f"scripts/test.py: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
