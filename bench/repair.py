"""What repair gives users of a trunk over a path that damages packets: pages by HTTP/3 and HTTP/2, and media on time.

A server, 100 ms of an undamaged path, a site, a damaged path of 20 ms and 25 Mbit/s down, a site, a client: both paths
are `headend emulate`'s. Between the sites take turns: plain forwarding, a sealed trunk, and a sealed trunk that
repairs. A page is 20 objects, 345 kB in all, on one new connection: HTTP/3 by aioquic at both ends, HTTP/2 by curl and
nginx. Media are datagrams at a constant rate; each tells when it left, and is on time within DEADLINE_MS. It takes
root, nginx, curl, openssl and, for HTTP/3, aioquic for the Python that runs it (`pip install aioquic`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import page
import quic
import trunk
from ends import ended, until
from machine import run, say

SERVER, CLIENT = trunk.USERS
SERVER_ADDRESS, CLIENT_ADDRESS = trunk.USER_ADDRESSES
MIDDLE = f"{trunk.ME}-m"
SIZES = tuple(3_000 + 1_500 * index for index in range(20))
RATE = "25Mbit/s"
WITHIN_MS, TRIES = 40, 2
MEDIA_PORT, MEDIA_BYTES, MEDIA_EVERY_S = 9400, 1_000, 0.004
DEADLINE_MS = 100
"""The way there takes 60 ms, and a repaired packet a round trip of the damaged path more."""
WAYS = {
    "no trunk": None,
    "trunk": 'losses = "delayed"',
    "trunk that repairs": f'repair = {{ within = "{WITHIN_MS}ms", tries = {TRIES} }}',
}
PATIENCE_S = 90
LINK = """[nodes.near]
[nodes.far]
[links.path]
between = ["near", "far"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue}"
loss = "{loss}%"
back = {{ loss = "{loss}%" }}
[flows.f]
from = "near"
to = "far"
"""


def inside(name: str, *words: object) -> list[str]:
    """A command in a namespace."""
    return ["ip", "netns", "exec", name, *map(str, words)]


@contextmanager
def emulated(program: Sequence[object], ends: Sequence[str], scenario: Path, **link: object) -> Iterator[None]:
    """A link between the ends that these options name."""
    scenario.write_text(LINK.format(**link))
    command = [*map(str, program), "emulate", str(scenario), *ends]
    with subprocess.Popen(
        [*command, "--format", "json", "--accept-late"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            assert running.stdout
            if '"start"' not in (line := running.stdout.readline()):
                sys.exit(f"headend emulate said {line!r}")
            yield
        finally:
            running.stdout.close()
            running.terminate()
            running.wait()


@contextmanager
def far_server(binary: Path, folder: Path) -> Iterator[None]:
    """Moves the server 100 ms away from its site: its cable goes to a namespace between, and from there on."""
    run("ip", "netns", "add", MIDDLE)
    try:
        run("ip", "-n", SERVER, "link", "set", "u0", "netns", MIDDLE)
        run("ip", "link", "add", "u0", "netns", SERVER, "type", "veth", "peer", "name", "s0", "netns", MIDDLE)
        for device in ("u0", "s0"):
            run("ip", "-n", MIDDLE, "link", "set", device, "up")
        run("ip", "-n", SERVER, "addr", "add", f"{SERVER_ADDRESS}/24", "dev", "u0")
        run("ip", "-n", SERVER, "link", "set", "u0", "up")
        run("ip", "-n", SERVER, "route", "add", "default", "via", "10.77.1.1", "congctl", "cubic")
        link = {"rate": "200Mbit/s", "delay": "50ms", "queue": "2MB", "loss": 0}
        with emulated(inside(MIDDLE, binary), ("--interfaces", "s0", "u0"), folder / "far.toml", **link):
            yield
    finally:
        subprocess.run(["ip", "netns", "del", MIDDLE], capture_output=True, check=False)


if quic.QuicConnectionProtocol is not None:

    class Loading(quic.Asking):
        """A client of a whole page."""

        def quic_event_received(self, event: object) -> None:
            """Is done when all has come."""
            super().quic_event_received(event)
            if self.got == sum(SIZES) and not self.all_came.done():
                self.all_came.set_result(None)

        def take(self, event: object) -> None:
            """Counts, and does not stop at the first object."""
            self.got += len(getattr(event, "data", b""))

        def connection_made(self, transport: object) -> None:
            """Has something to wait for."""
            self.all_came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            super().connection_made(transport)


async def load_h3() -> None:
    """Loads the page once; says how long it took."""
    configuration = quic.QuicConfiguration(
        is_client=True,
        alpn_protocols=quic.H3_ALPN,
        verify_mode=ssl.CERT_NONE,
        max_data=1 << 26,
        max_stream_data=1 << 26,
    )
    begin = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        async with quic.connect(SERVER_ADDRESS, 443, configuration=configuration, create_protocol=Loading) as loading:
            for size in SIZES:
                loading.ask(SERVER_ADDRESS, f"/{size}")
            await loading.all_came
            print(time.monotonic() - begin, flush=True)
            os._exit(0)


def by_h3() -> float:
    """Seconds that the page took with HTTP/3; infinite if it did not come."""
    words = inside(CLIENT, sys.executable, __file__, "load-h3")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        say(f"HTTP/3: {done.stderr.strip().splitlines()[-1:]}")
        return float("inf")
    return float(done.stdout)


def by_h2() -> float:
    """Seconds that the page took with HTTP/2."""
    words = inside(
        CLIENT, "curl", "-sk", "--http2", "--parallel", "--parallel-max", len(SIZES), "--max-time", PATIENCE_S
    )
    for size in SIZES:
        words += ["-o", os.devnull, f"https://{SERVER_ADDRESS}/{size}"]
    begin = time.monotonic()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def send_media(count: int) -> None:
    """Sends datagrams at a constant rate, each with its time."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect((CLIENT_ADDRESS, MEDIA_PORT))
        begin = time.monotonic()
        for number in range(count):
            time.sleep(max(0, begin + number * MEDIA_EVERY_S - time.monotonic()))
            out.send(struct.pack(">Qd", number, time.monotonic()).ljust(MEDIA_BYTES, b"\0"))


def receive_media() -> None:
    """Says the number of each datagram and how long it took [ms], in the order of arrival."""
    found: list[tuple[int, float]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
        to.bind((CLIENT_ADDRESS, MEDIA_PORT))
        print("ready", flush=True)
        to.settimeout(PATIENCE_S)
        while True:
            try:
                bytes_ = to.recv(2_048)
            except TimeoutError:
                break
            number, left = struct.unpack(">Qd", bytes_[:16])
            found.append((number, 1e3 * (time.monotonic() - left)))
            to.settimeout(1)
    print(json.dumps(found), flush=True)


def media(seconds: float) -> tuple[float, float, float]:
    """Percent of the datagrams that were on time, and that came at all; the time that 99% take at most [ms]."""
    count = int(seconds / MEDIA_EVERY_S)
    words = inside(CLIENT, sys.executable, __file__, "receive-media")
    with ended(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as receiver:
        until(receiver, "ready")
        subprocess.run(inside(SERVER, sys.executable, __file__, "send-media", count), check=True)
        assert receiver.stdout
        found = json.loads(receiver.stdout.readline())
    took = sorted(ms for _, ms in found)
    numbers = [number for number, _ in found]
    assert len(set(numbers)) == len(numbers), "no datagram comes twice"
    on_time = sum(ms <= DEADLINE_MS for ms in took)
    return 100 * on_time / count, 100 * len(took) / count, took[int(0.99 * (len(took) - 1))] if took else float("inf")


Row = dict[str, list[float]]


def measured(way: str, loss: float, options: argparse.Namespace) -> Row:
    """Pages and media over one of the ways."""
    found: Row = {"h3": [], "h2": [], "media": []}
    with tempfile.TemporaryDirectory(prefix="headend-repair-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        stack.enter_context(trunk.namespaces(joined=False))
        stack.enter_context(far_server(options.binary, folder))
        between = ("--between", *trunk.SITES, "--device", "path")
        link = {"rate": RATE, "delay": "10ms", "queue": "125KB", "loss": loss}
        stack.enter_context(emulated([options.binary], between, folder / "path.toml", **link))
        peer = WAYS[way]
        if peer is None:
            trunk.route(trunk.PATH_ADDRESSES)
            carrying = None
        else:
            carrying = stack.enter_context(trunk.trunk(options.binary, folder, "sealed", trunk.PATH_ADDRESSES, peer))
        stack.enter_context(quic.servers(folder, SIZES, SERVER, SERVER_ADDRESS))
        # Whoever has to find neighbours has done so.
        by_h2()
        for _ in range(options.rounds):
            if quic.QuicConnectionProtocol is not None:
                found["h3"].append(by_h3())
            found["h2"].append(by_h2())
        found["media"] = list(media(options.seconds))
        if carrying and "repair" in peer:
            ends = [trunk.status(options.binary, at) for at in carrying.sockets]
            say(f"sent again: {ends[0]['to']['repair']}; waited: {ends[1]['from']['repair']}")
    return found


def table(rows: dict[tuple[float, str], Row], options: argparse.Namespace) -> str:
    """As Markdown: medians, with the least and the most."""
    lines = [
        "| lost each way | between the sites | HTTP/3 page [s] | HTTP/2 page [s] "
        f"| media within {DEADLINE_MS} ms [%] | at all [%] | 99% take at most [ms] |",
        "|---|---|---|---|---|---|---|",
    ]
    for (loss, way), row in rows.items():
        pages = [
            f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})" if times else "not measured"
            for times in (row["h3"], row["h2"])
        ]
        on_time, came, late = row["media"]
        lines.append(f"| {loss:g}% | {way} | {' | '.join(pages)} | {on_time:.1f} | {came:.1f} | {late:.0f} |")
    kernel = ".".join(platform.release().split(".")[:2])
    about = (
        f"Medians of {options.rounds} pages (least to most); {options.seconds:g} s of media of "
        f"{8e-6 * MEDIA_BYTES / MEDIA_EVERY_S:g} Mbit/s. {os.cpu_count()} cores, Linux {kernel}, "
        f"load average {os.getloadavg()[0]:.2f} after."
    )
    return "\n".join([*lines, "", about])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--loss", type=float, nargs="+", default=[0.0, 1.0, 3.0], help="of the damaged path [%%]")
    parser.add_argument("--rounds", type=int, default=5, help="pages of each kind (default: 5)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of media (default: 8)")
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench/repair.py: takes root, for namespaces")
    if not options.binary.is_file():
        sys.exit(
            f"{options.binary}: no such file; expected the program, as `cargo build --release` makes it (--binary)"
        )
    for name in ("SIGTERM", "SIGINT"):
        signal.signal(getattr(signal, name), lambda *_: sys.exit("ended"))
    if quic.QuicConnectionProtocol is None:
        say("no aioquic for this Python: HTTP/3 is left out")
    options.binary = options.binary.resolve()
    rows: dict[tuple[float, str], Row] = {}
    for loss in options.loss:
        for way in WAYS:
            rows[loss, way] = measured(way, loss, options)
            say(f"{loss:g}% lost, {way}: {rows[loss, way]}")
    text = table(rows, options)
    print(f"\n{text}\n", flush=True)
    if options.page:
        page.write(options.page, "bench-trunk-repair", text)
        say(f"written into {options.page}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["load-h3"]:
        asyncio.run(load_h3())
    elif sys.argv[1:2] == ["send-media"]:
        send_media(int(sys.argv[2]))
    elif sys.argv[1:2] == ["receive-media"]:
        receive_media()
    else:
        main()
