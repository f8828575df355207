"""The README's commands, word by word: those that end soon are run, and of the others every word is looked up."""

import json
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
RUN = {("headend", name) for name in ("sim", "plot", "size", "doctor", "examples")} | {("headend.papers", "list")}
"""What ends soon and takes neither root nor the network."""
RUN_BY_ROOT = {("headend", name) for name in ("lab", "compare", "emulate")}
STARTED = {("headend", name) for name in ("proxy", "conform", "trunk", "tunnel", "cc")}
"""What has a test of its own below."""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
LATE = 3
"""The exit code that says that this machine did not keep up, which it says after all else."""
assert BINARY is not None, "the README's commands take the command: make target/release/headend"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder that looks like the repository to a command and that results may be written into."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("scenarios", "examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


PYTHON = {"HEADEND_PYTHON": sys.executable}


def started(words: list[str], place: Path) -> "subprocess.Popen[str]":
    """A command as the README has it, or a pipeline of them."""
    programs = {"headend": shlex.quote(str(BINARY)), "python": shlex.quote(sys.executable)}
    line = " ".join(word if word == "|" else programs.get(word) or shlex.quote(word) for word in words)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": {**os.environ, **PYTHON}}
    line = f"set -o pipefail; {line}" if "|" in words else f"exec {line}"
    return subprocess.Popen(["bash", "-c", line], cwd=place, **pipes)


def stopped(process: "subprocess.Popen[str]") -> str:
    """What a command said that Ctrl-C ends."""
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=60)[0]


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
        stopped(serving)


def test_every_command_has_a_test_that_runs_it():
    papers = {("headend.papers", "run")}  # test_papers runs figures of each, and `make validation` all
    known = RUN | RUN_BY_ROOT | STARTED | papers | {("make", "run"), ("make", "test")}
    assert {kind(words) for words in COMMANDS} <= known


@AS_ROOT
@pytest.mark.parametrize("words", [words for words in COMMANDS if kind(words) in RUN_BY_ROOT], ids=shlex.join)
def test_what_takes_root_does_what_it_says(words, place):
    process = started(words, place)
    said, _ = process.communicate(timeout=300)
    assert process.returncode in (0, LATE), f"{shlex.join(words)}\n{said}"
    assert {"lab": "goodput", "compare": "goodput", "emulate": "3 received"}[words[1]] in said


ETC = """
mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc
ip link set lo up && mkdir -p /etc/headend && echo 127.0.0.1 tunnel.example.org >>/etc/hosts
"""
"""An /etc and a network of one's own, in which a test may write what the README takes for granted."""


def in_a_place_of_its_own(script: str, place: Path) -> str:
    """What a script says that is run in namespaces of its own, where `headend` is the command."""
    body = f'set -eu\nheadend() {{ {shlex.quote(str(BINARY))} "$@"; }}\n{ETC}\n{script}'
    command = ["unshare", "--mount", "--net", "--fork", "--kill-child", "bash", "-c", body]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=place, timeout=120, check=False, **pipes)
    assert done.returncode == 0, done.stdout
    return done.stdout


UNTIL = """
until_said() { for _ in $(seq 600); do grep -q "$1" "$2" && return; sleep 0.1; done; cat "$2"; false; }
"""


@AS_ROOT
def test_the_trunk_comes_up_as_printed(place):
    up = next(words for words in COMMANDS if words[:2] == ["headend", "trunk"])
    assert up == ["headend", "trunk", "up", "/etc/headend/west.toml"]
    said = in_a_place_of_its_own(
        f"""{UNTIL}
        key=$(headend trunk keygen /etc/headend/east.key)
        headend trunk keygen /etc/headend/trunk.key
        headend examples trunk-west | sed "s|REPLACE-BY[A-Z-]*|$key|" >/etc/headend/west.toml
        ip address add 192.0.2.1/24 dev lo && mount -t tmpfs tmpfs /run
        {shlex.quote(str(BINARY))} {shlex.join(up[1:])} >up 2>&1 & trunk=$!
        until_said . up
        headend trunk status
        kill -INT $trunk && wait $trunk && cat up
        """,
        place,
    )
    assert "east" in said


@AS_ROOT
def test_the_tunnel_carries_a_request_as_printed(place):
    connect = next(words for words in COMMANDS if words[:2] == ["headend", "tunnel"])
    assert connect[3] == "tunnel.example.org:4433"
    (place / "page").write_text("through the tunnel\n")
    words = " ".join("$server" if word == "PUBLIC-KEY" else shlex.quote(word) for word in connect[1:])
    said = in_a_place_of_its_own(
        f"""{UNTIL}
        server=$(headend tunnel keygen server.key)
        headend tunnel keygen laptop.key >clients
        program={shlex.quote(str(BINARY))}
        $program tunnel serve --authorized clients --key server.key --allow 127.0.0.0/8 >serve 2>&1 &
        $program {words} >connect 2>&1 &
        {shlex.quote(sys.executable)} -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &
        for _ in $(seq 300); do
            curl --silent --fail --max-time 10 --socks5-hostname 127.0.0.1:1080 http://127.0.0.1:8000/page && exit
            sleep 0.2
        done
        cat serve connect
        exit 1
        """,
        place,
    )
    assert said.endswith("through the tunnel\n")


@AS_ROOT
@pytest.mark.parametrize("name", ["fast", "backfill"])
def test_a_congestion_control_goes_into_the_kernel_as_printed(name, place):
    install = next(words for words in COMMANDS if words[:4] == ["headend", "cc", "install", name])
    status = next(words for words in COMMANDS if words[:3] == ["headend", "cc", "status"])
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    if name in available.read_text().split():
        pytest.skip(f"{name} is in this kernel already, and whoever uses it must not lose it")
    doctor = json.loads(subprocess.check_output([BINARY, "doctor", "--format", "json"], text=True))
    if not all(each["here"] for each in doctor["findings"] if each["for"] == f"cc install {name}"):
        pytest.skip(f"this machine or this build has no {name} for the kernel: headend doctor says why")
    try:
        for words in (install, status):
            process = started(words, place)
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 0, said
            # The status is FAST's: of Backfill the kernel alone tells.
            assert name in said.lower() or (words == status and name != "fast"), said
        assert name in available.read_text().split()
    finally:
        subprocess.run([BINARY, "cc", "remove", name], check=True, capture_output=True)


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[0] == "headend"], ids=shlex.join)
def test_every_word_of_a_command_is_known(words):
    words = words[: words.index("|")] if "|" in words else words
    words = words[: words.index("--")] if "--" in words else words
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
