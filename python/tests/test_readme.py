"""The README's commands, word by word: those that end soon are run, and of the others every word is looked up."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
BINARY = next((path for kind in ("release", "debug") if (path := TARGET / kind / "headend").exists()), None)
BLOCKS = re.findall(r"(?:^    .*\n|^\n(?=    ))+", README, flags=re.MULTILINE)
LINES = [line.strip().removeprefix("$ ") for block in BLOCKS for line in block.splitlines()]
COMMANDS = [shlex.split(line, comments=True) for line in LINES if line.startswith(("headend ", "python -m ", "make "))]
RUN = {("headend", "sim"), ("headend", "size"), ("headend", "doctor"), ("headend.papers", "list"), ("headend.plot",)}
"""What ends soon and takes neither root nor the network."""
assert BINARY is not None, "the README's commands take the command: make target/release/headend"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder that looks like the repository to a command and that results may be written into."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("scenarios", "examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def started(words: list[str], place: Path) -> "subprocess.Popen[str]":
    program = {"headend": str(BINARY), "python": sys.executable}[words[0]]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([program, *words[1:]], cwd=place, **pipes)


def listens(host: str, port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex((host, port)) == 0


def kind(words: list[str]) -> tuple[str, ...]:
    if words[0] == "python":
        return tuple(words[2:4]) if words[2] == "headend.papers" else (words[2],)
    return words[0], words[1]


def test_the_commands_that_end_soon_do_what_they_say(place):
    run = [words for words in COMMANDS if kind(words) in RUN]
    assert len(run) >= 7, "or the README is read wrongly"
    for words in run:
        process = started(words, place)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, f"{shlex.join(words)}\n{said}"


def test_the_python_of_the_readme_runs(place, monkeypatch):
    code = next(block for block in BLOCKS if "import headend" in block)
    monkeypatch.chdir(place)
    monkeypatch.setenv("MPLBACKEND", "agg")
    exec(compile("\n".join(line[4:] for line in code.splitlines()), "README.md", "exec"), {})


def test_the_proxy_and_its_judge_work_together_as_printed(place):
    proxy = next(words for words in COMMANDS if words[:2] == ["headend", "proxy"])
    judge = next(words for words in COMMANDS if words[:2] == ["headend", "conform"])
    host, _, port = judge[2].partition(":")
    if listens(host, int(port)):
        pytest.fail(f"something else listens on {judge[2]} here, and the README's proxy wants that address")
    serving = started(proxy, place)
    try:
        end = time.monotonic() + 60
        while not listens(host, int(port)):
            assert serving.poll() is None, serving.communicate()[0]
            assert time.monotonic() < end, "the proxy listens"
            time.sleep(0.05)
        judging = started(judge, place)
        said, _ = judging.communicate(timeout=300)
        assert judging.returncode == 0, said
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=60)


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[0] == "headend"], ids=shlex.join)
def test_every_word_of_a_command_is_known(words):
    names = words[1 : 3 if words[1] in ("cc", "trunk", "tunnel") else 2]
    asked = subprocess.run([BINARY, *names, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    for word in words[1 + len(names) :]:
        if word.startswith("--"):
            assert re.search(rf"{word.split('=')[0]}\b", asked.stdout), (
                f"{word} is not an option of {shlex.join(names)}"
            )
        elif word.startswith(("scenarios/", "examples/")):
            assert (ROOT / word).exists(), word


def test_every_target_of_make_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {word for words in COMMANDS if words[0] == "make" for word in words[1:2]} <= targets


def test_every_page_names_the_same_rust_as_cargo_does():
    needed = re.search(r'^rust-version = "([0-9.]+)"', (ROOT / "Cargo.toml").read_text(), flags=re.MULTILINE)[1]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "scripts").glob("[!_]*")]
    named = {page.name: set(re.findall(r"Rust (1\.\d+)", page.read_text())) for page in pages}
    assert {version for versions in named.values() for version in versions} == {needed}, named


def test_every_link_leads_to_a_file_that_is_there():
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README):
        assert (ROOT / link).exists(), link
