"""What `headend conform` finds in headend's proxy, in each way in, and in the proxies of Debian.

Every proxy runs on this machine with a small configuration of its own, and ends with this script. The transparent way
takes root: the proxy stands in a namespace between those of the client and of the server, with the rules of
`headend proxy rules`. A proxy that is not installed is left out, and that is said.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import page

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
MODULES = Path("/usr/lib/nginx/modules")
PATIENCE_S = 10.0
CLIENT, ROUTER, SERVER = (f"headend-conform-{os.getpid()}-{name}" for name in ("pc", "router", "server"))
CLIENT_ADDRESS, SERVER_ADDRESS = "10.83.1.2", "10.83.2.2"
CLIENT_ADDRESS_6, SERVER_ADDRESS_6 = "fd83:1::2", "fd83:2::2"
TRANSPARENT_PORT = 3129


@dataclass(frozen=True)
class Peer:
    """A proxy: how it is started at a port, and how `headend conform` comes in."""

    name: str
    way: str
    """What the table calls it."""
    package: str
    program: str
    command: Callable[[Path, int, int], list[str]]
    """From a folder for its files, its port, and the port of the one server in the way `forward`."""
    arguments: tuple[str, ...] = ()
    """For `headend conform`; `--way` is the table's way without them."""
    is_ours: bool = False
    meanwhile: Callable[[Path, int], str] | None = None
    """A command that is run again and again meanwhile, from the folder and the proxy's process."""

    @property
    def label(self) -> str:
        """Its column."""
        return f"{self.name} ({self.way})"

    @property
    def goes_to_one_server(self) -> bool:
        """Whether the proxy chooses where connections go."""
        return "forward" in (self.way, *self.arguments)


@dataclass
class Ports:
    """Ports of 127.0.0.1 that nobody has at the moment."""

    taken: set[int] = field(default_factory=set)

    def free(self) -> int:
        """One that no earlier call has given."""
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            if port not in self.taken:
                self.taken.add(port)
                return port


def haproxy(folder: Path, port: int, server: int, accept: str = "", send: str = "") -> list[str]:
    """TCP mode; long time-outs, so that it is the tool that judges what is stuck."""
    config = folder / "haproxy.cfg"
    times = "\n".join(f"  timeout {what} 60s" for what in ("client", "server", "client-fin", "server-fin", "tunnel"))
    config.write_text(
        f"global\n  maxconn 4000\ndefaults\n  mode tcp\n  timeout connect 5s\n{times}\n"
        f"listen all\n  bind 127.0.0.1:{port} {accept}\n  server one 127.0.0.1:{server} {send}\n"
    )
    return ["haproxy", "-db", "-f", str(config)]


def haproxy_introduced(folder: Path, port: int, server: int) -> list[str]:
    """The same with PROXY headers: either version comes, version 2 goes."""
    return haproxy(folder, port, server, "accept-proxy", "send-proxy-v2")


def nginx(folder: Path, port: int, server: int, accept: str = "", send: str = "") -> list[str]:
    """The stream module."""
    config = folder / "nginx.conf"
    config.write_text(
        f"load_module {MODULES}/ngx_stream_module.so;\ndaemon off;\npid {folder}/nginx.pid;\n"
        f"error_log {folder}/nginx.log;\nworker_processes 1;\nevents {{ worker_connections 8000; }}\n"
        f"stream {{ server {{ listen 127.0.0.1:{port} {accept}; {send} proxy_pass 127.0.0.1:{server}; }} }}\n"
    )
    return ["nginx", "-c", str(config), "-e", f"{folder}/nginx.log"]


def nginx_introduced(folder: Path, port: int, server: int) -> list[str]:
    """The same with PROXY headers: either version comes, version 1 goes."""
    # Without the client's address from the header, it names whoever connected.
    real = "proxy_protocol on; set_real_ip_from 127.0.0.1;"
    return nginx(folder, port, server, "proxy_protocol", real)


def tinyproxy(folder: Path, port: int, _server: int) -> list[str]:
    """CONNECT to any port."""
    config = folder / "tinyproxy.conf"
    config.write_text(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 1000\nAllow 127.0.0.1\n")
    return ["tinyproxy", "-d", "-c", str(config)]


def microsocks(_folder: Path, port: int, _server: int) -> list[str]:
    """SOCKS5 without users."""
    return ["microsocks", "-i", "127.0.0.1", "-p", str(port)]


def dante(folder: Path, port: int, _server: int) -> list[str]:
    """SOCKS5 without users."""
    config = folder / "danted.conf"
    everybody = "{ from: 0.0.0.0/0 to: 0.0.0.0/0 }"
    config.write_text(
        f"logoutput: {folder}/danted.log\ninternal: 127.0.0.1 port = {port}\nexternal: lo\nsocksmethod: none\n"
        f"clientmethod: none\nuser.unprivileged: nobody\nclient pass {everybody}\nsocks pass {everybody}\n"
    )
    return ["danted", "-f", str(config), "-p", f"{folder}/danted.pid"]


def headend(binary: Path, way: str) -> Callable[[Path, int, int], list[str]]:
    """Our own, allowed to connect to this machine."""

    def command(_folder: Path, port: int, server: int) -> list[str]:
        to = ["--to", f"127.0.0.1:{server}"] if way == "forward" else []
        address = f"127.0.0.1:{port}"
        return [str(binary), "proxy", "--listen", address, "--way", way, "--allow", "127.0.0.0/8", *to]

    return command


def headend_introduced(binary: Path, version: str) -> Callable[[Path, int, int], list[str]]:
    """Our own with PROXY headers: either version comes, this one goes."""

    def command(folder: Path, port: int, server: int) -> list[str]:
        config = folder / "proxy.toml"
        config.write_text(
            f'[[listen]]\naddress = "127.0.0.1:{port}"\nway = "forward"\nto = "127.0.0.1:{server}"\n'
            'clients = ["127.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]\nproxy_protocol = "accept"\n'
            f'proxy_senders = ["127.0.0.1"]\nsend_proxy = "{version}"\n'
        )
        return [str(binary), "proxy", "--config", str(config)]

    return command


def headend_from_file(binary: Path) -> Callable[[Path, int, int], list[str]]:
    """Our own with a file, and a place where a successor may ask for its sockets."""

    def command(folder: Path, port: int, _server: int) -> list[str]:
        # Nobody else may write to where a successor is waited for.
        own = folder / "own"
        own.mkdir(exist_ok=True, mode=0o755)
        config = own / "proxy.toml"
        config.write_text(
            f'handover = "proxy.sock"\n[[listen]]\naddress = "127.0.0.1:{port}"\nway = "http"\n'
            '[limits]\ndrain = "60s"\n[destinations]\nallow = ["127.0.0.0/8"]\n'
        )
        return [str(binary.resolve()), "proxy", "--config", str(config)]

    return command


def read_again(_folder: Path, process: int) -> str:
    """Has the proxy read its file again."""
    return f"kill -HUP {process}"


def handed_over(binary: Path) -> Callable[[Path, int], str]:
    """Has a new process take the place of the last one, which goes on until its connections have ended."""

    def command(folder: Path, _process: int) -> str:
        words = f"{binary.resolve()} proxy --config {folder}/own/proxy.toml --take-over {folder}/own/proxy.sock"
        log = f"{folder}/successor.log"
        taken = f'until grep -q "took over" {log}; do kill -0 $process || exit 1; sleep 0.02; done'
        return f": >{log}; {words} 2>{log} & process=$!; echo $process >>{folder}/successors; {taken}"

    return command


@contextmanager
def successors(folder: Path) -> Iterator[None]:
    """Processes that took the place of others, which are ended after the block."""
    try:
        yield
    finally:
        file = folder / "successors"
        for process in file.read_text().split() if file.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)


def introduced(sent: str, expected: str) -> tuple[str, ...]:
    """What `headend conform` is told of PROXY headers."""
    return ("--way", "forward", "--send-proxy", sent, "--expect-proxy", expected)


def peers(binary: Path) -> list[Peer]:
    """All proxies, ours first."""

    def ours(way: str, command: Callable[[Path, int, int], list[str]], *arguments: str) -> Peer:
        return Peer("headend", way, "", str(binary), command, arguments, is_ours=True)

    return [
        ours("http", headend(binary, "http")),
        ours("absolute", headend(binary, "http")),
        ours("socks5", headend(binary, "socks5")),
        ours("forward", headend(binary, "forward")),
        Peer(
            "headend",
            "http, read again",
            "",
            str(binary),
            headend_from_file(binary),
            ("--way", "http"),
            is_ours=True,
            meanwhile=read_again,
        ),
        Peer(
            "headend",
            "http, handed over",
            "",
            str(binary),
            headend_from_file(binary),
            ("--way", "http"),
            is_ours=True,
            meanwhile=handed_over(binary),
        ),
        ours("PROXY v1 to v2", headend_introduced(binary, "v2"), *introduced("v1", "v2")),
        ours("PROXY v2 to v1", headend_introduced(binary, "v1"), *introduced("v2", "v1")),
        Peer("HAProxy", "forward", "haproxy", "haproxy", haproxy),
        Peer("HAProxy", "PROXY v1 to v2", "haproxy", "haproxy", haproxy_introduced, introduced("v1", "v2")),
        Peer("nginx stream", "forward", "libnginx-mod-stream", "nginx", nginx),
        Peer(
            "nginx stream", "PROXY v2 to v1", "libnginx-mod-stream", "nginx", nginx_introduced, introduced("v2", "v1")
        ),
        Peer("tinyproxy", "http", "tinyproxy", "tinyproxy", tinyproxy),
        Peer("tinyproxy", "absolute", "tinyproxy", "tinyproxy", tinyproxy),
        Peer("microsocks", "socks5", "microsocks", "microsocks", microsocks),
        Peer("Dante", "socks5", "dante-server", "danted", dante),
    ]


def is_installed(peer: Peer) -> bool:
    """Whether it can be run."""
    has_module = peer.program != "nginx" or (MODULES / "ngx_stream_module.so").exists()
    return has_module and shutil.which(peer.program, path=PATH) is not None


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program, for as long as the block lasts."""
    environment = {**os.environ, "PATH": PATH}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until something listens at the port."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        listening = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True)
        if listening.stdout:
            return
        time.sleep(0.05)
    sys.exit(f"{process.args!r} does not listen at port {port}; it said:\n{log.read_text(errors='replace')}")


def conform(binary: Path, arguments: Sequence[str], options: argparse.Namespace, schedules: int) -> dict[str, object]:
    """The matrix of one proxy."""
    common = ["--schedules", str(schedules), "--seed", str(options.seed), "--format", "json", "--quiet"]
    command = [str(binary), "conform", *arguments, *common, "--time-limit", options.time_limit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    matrix: dict[str, object] = json.loads(done.stdout)
    matrix["command"] = " ".join(["headend", *command[1:]])
    return matrix


def run_peer(peer: Peer, binary: Path, options: argparse.Namespace) -> dict[str, object]:
    """Starts a proxy, and what `headend conform` says of it."""
    ports = Ports()
    port, server = ports.free(), ports.free()
    with tempfile.TemporaryDirectory(prefix="headend-conform-") as name:
        folder = Path(name)
        # Some become another user before they write.
        folder.chmod(0o777)
        log = folder / "output"
        with successors(folder), running(peer.command(folder, port, server), log) as process:
            wait_for(port, process, log)
            origin = f"127.0.0.1:{server}" if peer.goes_to_one_server else "127.0.0.1"
            arguments = peer.arguments or ("--way", peer.way)
            schedules = options.schedules if peer.is_ours else options.schedules_others
            command = [f"127.0.0.1:{port}", *arguments, "--origin-address", origin]
            if peer.meanwhile:
                command += ["--meanwhile", peer.meanwhile(folder, process.pid)]
            return conform(binary, command, options, schedules)


def ip(words: str) -> None:
    """Runs `ip` with these words."""
    subprocess.run(["ip", *words.split()], check=True)


@contextmanager
def path() -> Iterator[None]:
    """Three namespaces: the one in the middle forwards between the other two."""
    with ExitStack() as stack:
        for name in (CLIENT, ROUTER, SERVER):
            ip(f"netns add {name}")
            stack.callback(ip, f"netns del {name}")
            ip(f"-n {name} link set lo up")
        ends = ((CLIENT, "lan", CLIENT_ADDRESS, CLIENT_ADDRESS_6), (SERVER, "wan", SERVER_ADDRESS, SERVER_ADDRESS_6))
        for end, side, address, address_6 in ends:
            ip(f"-n {ROUTER} link add {side} type veth peer name eth netns {end}")
            ip(f"-n {ROUTER} link set {side} up")
            ip(f"-n {end} link set eth up")
            for own, length, more in ((address, 24, ""), (address_6, 64, "nodad")):
                gateway = f"{own[:-1]}1"
                ip(f"-n {ROUTER} address add {gateway}/{length} dev {side} {more}")
                ip(f"-n {end} address add {own}/{length} dev eth {more}")
                ip(f"-n {end} route add default via {gateway}")
        forwards = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        subprocess.run(["ip", "netns", "exec", ROUTER, "sysctl", "-qw", *forwards], check=True)
        yield


def run_transparent(binary: Path, options: argparse.Namespace, version: int, keep: bool) -> dict[str, object]:
    """Our proxy on the path between two namespaces, over this version of IP."""
    client, server, clients, listener = {
        4: (CLIENT_ADDRESS, SERVER_ADDRESS, "10.83.1.0/24", f"127.0.0.1:{TRANSPARENT_PORT}"),
        6: (CLIENT_ADDRESS_6, SERVER_ADDRESS_6, "fd83:1::/64", f"[::1]:{TRANSPARENT_PORT}"),
    }[version]
    with path(), tempfile.TemporaryDirectory(prefix="headend-conform-") as name:
        config = Path(name) / "proxy.toml"
        config.write_text(
            f'log = "connections"\n[[listen]]\naddress = "{listener}"\nway = "transparent"\n'
            f'clients = ["{clients}"]\nkeep_client_address = {str(keep).lower()}\n'
            '[destinations]\nallow = ["10.83.0.0/16", "fd83::/16"]\n'
        )
        inside = ["ip", "netns", "exec", ROUTER, str(binary.resolve()), "proxy"]
        rules = ["--listener", listener, "--interface", "lan"]
        subprocess.run([*inside, "rules", "apply", *rules], check=True)
        log = Path(name) / "output"
        ends = ["--client-namespace", CLIENT, "--origin-namespace", SERVER, "--origin-address", server]
        with running([*inside, "--config", str(config)], log) as process:
            end = time.monotonic() + PATIENCE_S
            while str(TRANSPARENT_PORT) not in log.read_text() and time.monotonic() < end:
                time.sleep(0.05)
            if process.poll() is not None:
                sys.exit(f"the transparent proxy ended: {log.read_text()}")
            matrix = conform(binary, ["--way", "transparent", *ends], options, options.schedules)
        # Nothing in the matrix would tell if the packets had gone past the proxy.
        through = log.read_text(errors="replace").count(f"client={client}") + log.read_text(errors="replace").count(
            f"client=[{client}]"
        )
        if not through:
            sys.exit(f"no connection went through the transparent proxy; it said:\n{log.read_text()[-2_000:]}")
        matrix["connections_through_proxy"] = through
        return matrix


def show_faults(matrix: dict[str, object]) -> None:
    """What was wrong, with the seeds that show it."""
    behaviours = matrix["behaviours"]
    assert isinstance(behaviours, list)
    for row in behaviours:
        for fault in row["faults"]:
            print(f"  {row['name']}: {fault['name']}, {fault['count']} of seeds {fault['seeds']}: {fault['example']}")
    if matrix["failed"]:
        print(f"  repeat with: {matrix['command']}", flush=True)
    if matrix["tcp_memory_was_full"]:
        print("  the machine's sockets ran out of memory: then the kernel resets connections (net.ipv4.tcp_mem)")


def cell(row: dict[str, object]) -> str:
    """How one proxy does in one behaviour."""
    passed, failed, absent = (int(str(row[name])) for name in ("passed", "failed", "not_applicable"))
    if absent:
        return "n/a"
    return "ok" if failed == 0 else f"{failed} of {passed + failed}"


def summary(matrices: dict[str, dict[str, object]]) -> str:
    """How many failed of each, as Markdown."""
    lines = ["| proxy (way in) | schedules | failed |", "|---|---|---|"]
    lines += [f"| {name} | {int(str(m['schedules_run'])):,} | {m['failed']} |" for name, m in matrices.items()]
    return "\n".join(lines)


def table(matrices: dict[str, dict[str, object]]) -> str:
    """Behaviours by proxies, as Markdown."""
    lines = ["| behaviour | " + " | ".join(matrices) + " |", "|---" * (len(matrices) + 1) + "|"]
    rows: dict[str, dict[str, str]] = {}
    for name, matrix in matrices.items():
        behaviours = matrix["behaviours"]
        assert isinstance(behaviours, list)
        for row in behaviours:
            rows.setdefault(str(row["name"]), {})[name] = cell(row)
    for behaviour, cells in rows.items():
        lines.append(f"| `{behaviour}` | " + " | ".join(cells.get(name, "-") for name in matrices) + " |")
    totals = " | ".join(f"{matrix['failed']} of {matrix['schedules_run']}" for matrix in matrices.values())
    lines.append(f"| all that failed | {totals} |")
    return "\n".join(lines)


def tables(matrices: dict[str, dict[str, object]]) -> str:
    """What the page shows: ours in all, the others by behaviour; streams and messages have behaviours of their own."""
    ours = {name: matrix for name, matrix in matrices.items() if name.startswith("headend")}
    others = {name: matrix for name, matrix in matrices.items() if name not in ours}
    parts = [summary(ours)] if ours else []
    for way_is_messages in (False, True):
        chosen = {name: m for name, m in others.items() if (m["way"] == "absolute") == way_is_messages}
        parts += [table(chosen)] if chosen else []
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs all, prints the table and writes the matrices; exit code 1 if ours failed anywhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/conform.json"))
    parser.add_argument("--schedules", type=int, default=10_000, help="for ours, in each way in (default: 10000)")
    parser.add_argument("--schedules-others", type=int, default=1_200, help="for each of the others (default: 1200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time-limit", default="10min", help="for each (default: 10min)")
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    parser.add_argument("--only", help="proxies whose name has this in it; of the others, what --out has stays")
    options = parser.parse_args(arguments)

    # Ended from outside, the proxies end as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    matrices: dict[str, dict[str, object]] = {}
    if options.only is not None and options.out.exists():
        matrices = json.loads(options.out.read_text())

    def note(name: str, matrix: dict[str, object]) -> None:
        matrices[name] = matrix
        seconds = float(str(matrix["elapsed_s"]))
        ran, failed = matrix["schedules_run"], matrix["failed"]
        print(f"{name}: {failed} of {ran} schedules failed, {seconds:.0f} s", flush=True)
        if name.startswith("headend"):
            show_faults(matrix)
        # A run that is ended early has told what it had.
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(matrices, indent=2) + "\n")

    def is_wanted(name: str) -> bool:
        return options.only is None or options.only in name

    for peer in peers(options.binary):
        name = peer.label
        if not is_wanted(name):
            continue
        if is_installed(peer):
            note(name, run_peer(peer, options.binary, options))
        else:
            print(f"{name}: not installed (Debian package {peer.package}), left out")
    for version, keep in ((4, False), (4, True), (6, False), (6, True)):
        more = ", client's address" if keep else ""
        name = f"headend (transparent, IPv{version}{more})"
        if not is_wanted(name):
            continue
        if os.geteuid() == 0 and shutil.which("nft", path=PATH):
            note(name, run_transparent(options.binary, options, version, keep))
        else:
            print(f"{name}: takes root, and nft (Debian package nftables); left out")
    name = "no proxy (transparent)"
    if is_wanted(name):
        note(name, conform(options.binary, ["--way", "transparent"], options, options.schedules_others))

    load = "; ".join(f"{minutes} min {value:.2f}" for minutes, value in zip((1, 5, 15), os.getloadavg(), strict=True))
    print(f"\n{tables(matrices)}\n\nLoad of {os.cpu_count()} cores: {load}\nWritten to {options.out}")
    if options.page:
        page.write(options.page, "conform", tables(matrices))
        print(f"Written into {options.page}")
    wrong = [name for name, matrix in matrices.items() if name.startswith("headend") and matrix["failed"]]
    short = [
        name
        for name, m in matrices.items()
        if name.startswith("headend") and m["schedules_run"] != m["schedules_asked"]
    ]
    if wrong or short:
        sys.exit(f"failed or cut short: {', '.join([*wrong, *short])}")


if __name__ == "__main__":
    main()
