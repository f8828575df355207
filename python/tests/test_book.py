"""The book's commands: those of the pages for beginners are run, and of all pages every word is looked up."""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
BINARY = next((path for kind in ("release", "debug") if (path := TARGET / kind / "headend").exists()), None)
assert BINARY is not None, "the book's commands take the command: make target/release/headend"
SOON = ("sim", "size", "examples", "personalities")
"""Subcommands that end soon and take neither root nor the network."""
RUN = ("explanation/loss.md", "tutorial/exercises.md", "howto/choose.md", "howto/papers.md")


def commands(page: Path) -> list[str]:
    """The commands in a page's indented blocks, continued lines joined."""
    text = re.sub(r"\\\n\s+", "", page.read_text())
    lines = (line.strip() for line in re.findall(r"^    (.*)$", text, flags=re.MULTILINE))
    bare = (re.sub(r"^(\$ |sudo (--\S+ )*)+", "", line) for line in lines)
    return [line for line in bare if line.startswith("headend ")]


@cache
def help_of(*names: str) -> str:
    asked = subprocess.run([BINARY, *names, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout


def subcommand(words: list[str]) -> tuple[str, ...]:
    """The names with which a command begins, such as `proxy rules show`."""
    names: tuple[str, ...] = ()
    for word in words[1:]:
        if not re.search(rf"^  {re.escape(word)}\s", help_of(*names).split("\nOptions:")[0], flags=re.MULTILINE):
            break
        names += (word,)
    return names


@pytest.mark.parametrize("page", RUN)
def test_the_commands_for_beginners_do_what_they_say(page, tmp_path):
    for name in ("scenarios", "examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{BINARY.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = [line for line in commands(DOCS / page) if line.split()[1] in SOON]
    assert run, "or the page is read wrongly"
    for line in run:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_every_option_of_a_command_is_known(page):
    for line in commands(page):
        line = re.split(r"\s#|\s--\s|\s\||\s>|;", line)[0]
        try:
            words = shlex.split(line)
        except ValueError:
            continue  # the page shows a part of a command
        names = subcommand(words)
        for word in words[1 + len(names) :]:
            option = re.match(r"--[a-z-]+", word)
            if option:
                assert re.search(rf"{option[0]}\b", help_of(*names)), f"{option[0]} is not known: {line}"
            elif word.startswith(("scenarios/", "examples/", "docs/")) and not re.search(r"[*\[\]]", word):
                assert (ROOT / word).exists(), line
