"""What HTTP/3 and HTTP/2 take for a file over a lossy line, past the transparent proxy and through it.

Client, proxy and server stand in three namespaces. Between client and proxy `headend emulate` runs a cable of 25 Mbit/s
down and 3 Mbit/s up, 20 ms there and back, which loses packets; between proxy and server a path of 100 Mbit/s and
80 ms. HTTP/3 is aioquic at both ends (CUBIC), HTTP/2 is curl and nginx over TLS. Each fetch is a new connection. It
takes root, and aioquic for the Python that runs it (`pip install aioquic`); without that, only HTTP/2 is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlparse

import page
from conform import PATH, ip, running
from ends import PATIENCE_S, ended, until
from machine import run, waited_for
from proxy import Progress, is_busy, load, machine, stop_after

try:
    from aioquic.asyncio import QuicConnectionProtocol, connect, serve
    from aioquic.h3.connection import H3_ALPN, H3Connection
    from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import QuicEvent
except ImportError:
    QuicConnectionProtocol = None  # type: ignore[assignment,misc]

CLIENT, LINE, ROUTER, PATH_NS, SERVER = (
    f"headend-quic-{os.getpid()}-{n}" for n in ("pc", "line", "router", "path", "server")
)
CLIENT_ADDRESS, SERVER_ADDRESS = "10.85.1.2", "10.85.2.2"
WINDOW_BYTES = 1 << 26
LINE_SCENARIO = """\
title = "the access line"
duration = "1h"
[nodes.router]
personality = "linux"
[nodes.pc]
personality = "linux"
[links.cable]
between = ["router", "pc"]
rate = "25Mbit/s"
loss = "0%"
delay = "10ms"
queue = "125KB"
back = { rate = "3Mbit/s", loss = "0%" }
[flows.get]
from = "router"
to = "pc"
"""
PATH_SCENARIO = (
    LINE_SCENARIO.replace("25Mbit/s", "100Mbit/s")
    .replace("3Mbit/s", "100Mbit/s")
    .replace('"10ms"', '"40ms"')
    .replace("125KB", "1MB")
)


if QuicConnectionProtocol is not None:

    class Answering(QuicConnectionProtocol):
        """A server of files of zeros: the path says how many bytes."""

        http: H3Connection | None = None

        def quic_event_received(self, event: QuicEvent) -> None:
            """Answers requests."""
            self.http = self.http or H3Connection(self._quic)
            for http_event in self.http.handle_event(event):
                if isinstance(http_event, HeadersReceived):
                    size = int(dict(http_event.headers)[b":path"].strip(b"/"))
                    headers = [(b":status", b"200"), (b"content-length", str(size).encode())]
                    self.http.send_headers(http_event.stream_id, headers)
                    self.http.send_data(http_event.stream_id, bytes(size), True)
                    self.transmit()

    class Asking(QuicConnectionProtocol):
        """A client of one request."""

        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[arg-type]
            self.http = H3Connection(self._quic)
            self.got = 0
            self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ask(self, host: str, path: str) -> None:
            """Sends the request."""
            stream = self._quic.get_next_available_stream_id()
            fields = (
                (b":method", b"GET"),
                (b":scheme", b"https"),
                (b":authority", host.encode()),
                (b":path", path.encode()),
            )
            self.http.send_headers(stream, list(fields), True)
            self.transmit()

        def quic_event_received(self, event: QuicEvent) -> None:
            """Counts what comes."""
            for http_event in self.http.handle_event(event):
                self.take(http_event)

        def take(self, event: H3Event) -> None:
            """One event of HTTP."""
            if isinstance(event, DataReceived):
                self.got += len(event.data)
                if event.stream_ended and not self.done.done():
                    self.done.set_result(None)


async def serve_h3(address: str, certificate: str, key: str) -> None:
    """Serves until it is ended."""
    windows = {"max_data": WINDOW_BYTES, "max_stream_data": WINDOW_BYTES}
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=H3_ALPN, congestion_control_algorithm="cubic", **windows
    )
    configuration.load_cert_chain(certificate, key)
    await serve(address, 443, configuration=configuration, create_protocol=Answering)
    print("ready", flush=True)
    await asyncio.Future()


async def get_h3(url: str, limit_s: float) -> None:
    """Fetches once; says the time and the bytes, or the time after which it failed."""
    parts = urlparse(url)
    assert parts.hostname
    windows = {"max_data": WINDOW_BYTES, "max_stream_data": WINDOW_BYTES}
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, **windows)
    begin = time.monotonic()
    got = 0
    try:
        async with asyncio.timeout(limit_s):
            async with connect(parts.hostname, 443, configuration=configuration, create_protocol=Asking) as asking:
                assert isinstance(asking, Asking)
                asking.ask(parts.hostname, parts.path)
                await asking.done
                got = asking.got
                print(json.dumps({"seconds": time.monotonic() - begin, "bytes": got}), flush=True)
    except (TimeoutError, ConnectionError) as error:
        print(json.dumps({"seconds": time.monotonic() - begin, "bytes": got, "error": str(error)}), flush=True)
    os._exit(0)


@contextmanager
def path(binary: Path, folder: Path, loss: str) -> Iterator[None]:
    """Five namespaces in a row: client, line, router, path, server."""
    names = (CLIENT, LINE, ROUTER, PATH_NS, SERVER)
    with ExitStack() as stack:
        for name in names:
            ip(f"netns add {name}")
            stack.callback(ip, f"netns del {name}")
            ip(f"-n {name} link set lo up")
        for end, middle, far, (near_device, far_device) in (
            (CLIENT, LINE, ROUTER, ("eth", "lan")),
            (SERVER, PATH_NS, ROUTER, ("eth", "wan")),
        ):
            for here, device, there in ((end, near_device, "end"), (far, far_device, "router")):
                ip(f"-n {here} link add {device} type veth peer name {there} netns {middle}")
                ip(f"-n {here} link set {device} up")
                ip(f"-n {middle} link set {there} up")
        for here, device, address in (
            (CLIENT, "eth", CLIENT_ADDRESS),
            (ROUTER, "lan", "10.85.1.1"),
            (ROUTER, "wan", "10.85.2.1"),
            (SERVER, "eth", SERVER_ADDRESS),
        ):
            ip(f"-n {here} address add {address}/24 dev {device}")
        ip(f"-n {CLIENT} route add default via 10.85.1.1 congctl cubic")
        ip(f"-n {SERVER} route add default via 10.85.2.1 congctl cubic")
        subprocess.run(["ip", "netns", "exec", ROUTER, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        for namespace, text, more in (
            (LINE, LINE_SCENARIO, ["--set", f"links.cable.loss={loss}"]),
            (PATH_NS, PATH_SCENARIO, []),
        ):
            file = folder / f"{namespace}.toml"
            file.write_text(text)
            words = [
                "ip",
                "netns",
                "exec",
                namespace,
                str(binary),
                "emulate",
                str(file),
                *more,
                "--interfaces",
                "router",
                "end",
            ]
            stack.enter_context(running(words, folder / f"{namespace}.log"))
        time.sleep(0.7)
        subprocess.run(
            ["ip", "netns", "exec", CLIENT, "ping", "-c", "2", "-W", "2", SERVER_ADDRESS],
            capture_output=True,
            check=False,
        )
        yield


@contextmanager
def servers(
    folder: Path, sizes: Sequence[int], namespace: str = SERVER, address: str = SERVER_ADDRESS
) -> Iterator[None]:
    """Nginx for HTTP/2, and aioquic for HTTP/3, at an address of a namespace, with a file of each size by its name."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=server"
    subprocess.run([*words.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    files = folder / "files"
    files.mkdir()
    for size in sizes:
        (files / str(size)).write_bytes(bytes(size))
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/nginx.log;\nworker_processes 1;\nuser root;\n"
        "events {}\nhttp { access_log off; server { "
        f"listen {address}:443 ssl http2; ssl_certificate {certificate}; ssl_certificate_key {key}; "
        f"root {files}; }} }}\n"
    )
    inside = ["ip", "netns", "exec", namespace]
    with ExitStack() as stack:
        stack.enter_context(
            running([*inside, "nginx", "-c", str(config), "-e", f"{folder}/nginx.log"], folder / "nginx.out")
        )
        if QuicConnectionProtocol is not None:
            h3 = [*inside, sys.executable, __file__, "serve", address, str(certificate), str(key)]
            until(stack.enter_context(ended(subprocess.Popen(h3, stdout=subprocess.PIPE, text=True))), "ready")
        waited_for("nginx listens", lambda: bool(run("ss", "-Hltn", "sport = :443", inside=namespace)))
        yield


@contextmanager
def proxied(binary: Path, folder: Path, local: str, quic: str) -> Iterator[None]:
    """The transparent proxy at the router."""
    listener = "127.0.0.1:3129"
    config = folder / "proxy.toml"
    config.write_text(
        f'[[listen]]\naddress = "{listener}"\nway = "transparent"\nclients = ["10.85.1.0/24"]\n'
        f'[local]\n{local}\n[remote]\ncongestion_control = "cubic"\n[destinations]\nallow = ["10.85.0.0/16"]\n'
    )
    inside = ["ip", "netns", "exec", ROUTER, str(binary), "proxy"]
    log = folder / "proxy.log"
    with running([*inside, "--config", str(config)], log):
        end = time.monotonic() + PATIENCE_S
        while "listening" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        rules = ["--listener", listener, "--interface", "lan", "--ports", "443", "--quic", quic]
        subprocess.run([*inside, "rules", "apply", *rules], check=True)
        try:
            yield
        finally:
            subprocess.run([*inside, "rules", "remove"], check=True)


def refused(address: str) -> float:
    """Seconds until a program that sends a datagram learns that nobody takes it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(10)
        datagrams.connect((address, 443))
        begin = time.monotonic()
        while True:
            try:
                datagrams.send(bytes(1200))
                datagrams.settimeout(0.3)
                datagrams.recv(1)
            except ConnectionRefusedError:
                return time.monotonic() - begin
            except TimeoutError:
                if time.monotonic() - begin > 10:
                    return float("inf")


def fetch_h2(size: int) -> dict[str, float]:
    """By curl."""
    words = ["ip", "netns", "exec", CLIENT, "curl", "-sk", "--http2", "-o", "/dev/null", "--max-time", "60"]
    words += ["-w", "%{time_total} %{size_download}", f"https://{SERVER_ADDRESS}/{size}"]
    seconds, got = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    return {"seconds": float(seconds), "bytes": float(got)}


def fetch_h3(size: int) -> dict[str, float]:
    """By aioquic."""
    words = ["ip", "netns", "exec", CLIENT, sys.executable, __file__, "get", f"https://{SERVER_ADDRESS}/{size}"]
    found: dict[str, float] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return found


REMEDY = 'congestion_control = "cubic"\nrto_min = "50ms"\nquick_acks = true'
WAYS = {
    "HTTP/3, past the proxy": (fetch_h3, None),
    "HTTP/2, no proxy": (fetch_h2, None),
    "HTTP/2, proxy, CUBIC": (fetch_h2, REMEDY),
    "HTTP/2, proxy, `hfc-local`": (fetch_h2, 'personality = "hfc-local"'),
}
REJECTED = "a datagram to port 443 is refused, with `--quic reject`"
Times = dict[str, dict[str, list[float]]]


def measure(options: argparse.Namespace, progress: Progress) -> Times:
    """Seconds of each fetch, by loss and way."""
    binary = options.binary.resolve()
    times: Times = {}
    for loss in options.loss.split(","):
        with tempfile.TemporaryDirectory(prefix="headend-quic-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            with path(binary, folder, loss), servers(folder, [options.bytes]):
                here = times.setdefault(loss, {})
                for way, (fetch, local) in WAYS.items():
                    if fetch is fetch_h3 and QuicConnectionProtocol is None:
                        continue
                    with ExitStack() as stack:
                        if local:
                            stack.enter_context(proxied(binary, folder, local, "leave"))
                        for _ in range(options.rounds):
                            found = fetch(options.bytes)
                            if found["bytes"] != options.bytes:
                                progress.say(f"{loss} loss, {way}: {found}")
                                found["seconds"] = float("inf")
                            here.setdefault(way, []).append(found["seconds"])
                    progress.say(f"{loss} loss, {way}: {', '.join(f'{one:.2f}' for one in here[way])} s")
                with proxied(binary, folder, REMEDY, "reject"):
                    words = ["ip", "netns", "exec", CLIENT, sys.executable, __file__, "refused", SERVER_ADDRESS]
                    refusals = [subprocess.run(words, capture_output=True, text=True, check=True) for _ in range(5)]
                    here[REJECTED] = [float(one.stdout) for one in refusals]
                    progress.say(f"{loss} loss, refused: {here[REJECTED]}")
    return times


def table(times: Times, about: str) -> str:
    """As Markdown: medians, with the least and the most."""
    lines = [f"| [s] | {' | '.join(f'{loss} lost' for loss in times)} |", "|---" * (len(times) + 1) + "|"]
    for way in [*WAYS, REJECTED]:
        cells = []
        for by_way in times.values():
            values = by_way.get(way, [])
            few = f"{values[0]:.2f}" if len(values) == 1 else ""
            many = (
                f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else few
            )
            cells.append(many)
        if any(cells):
            lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", about])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/bench-quic.json"))
    parser.add_argument("--loss", default="0%,1%,3%", help="of the line (default: 0%%,1%%,3%%)")
    parser.add_argument("--bytes", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    parser.add_argument("--time-limit", type=int, default=410, help="seconds after which it ends (default: 410)")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench-quic: takes root, for namespaces")
    for program in ("nginx", "curl", "openssl"):
        if not shutil.which(program, path=PATH):
            sys.exit(f"bench-quic: there is no {program}; it is Debian's package of that name")
    stop_after(options.time_limit, "bench-quic")
    progress = Progress()
    busy = is_busy()
    begin = load().split(",")[0]
    times = measure(options, progress)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(times, indent=2) + "\n")
    about = (
        f"{options.bytes / 1e6:g} MB, medians of {options.rounds} fetches (least to most), {machine()['cores']} cores, "
        f"load {begin} before{'; other programs had just run' if busy else ''}."
    )
    text = table(times, about)
    print(f"\n{text}\n\nWritten to {options.out}")
    if options.page:
        page.write(options.page, "bench-quic", text)
        print(f"Written into {options.page}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve_h3(*sys.argv[2:5]))
    elif sys.argv[1:2] == ["get"]:
        asyncio.run(get_h3(sys.argv[2], 30.0))
    elif sys.argv[1:2] == ["refused"]:
        print(refused(sys.argv[2]))
    else:
        main()
