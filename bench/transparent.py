"""What the transparent proxy costs clients before their first byte: held SYNs beside answers at once, and no proxy.

Client, proxy and server stand in three namespaces; the proxy has one worker. What connects and what answers at a rate
are programs in C, so that the proxy has most of the processor. It takes root, nftables, iptables, curl and cc.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import page
from conform import CLIENT, ROUTER, SERVER, SERVER_ADDRESS, SERVER_ADDRESS_6, ip, path, running
from ends import PATIENCE_S, ended, until
from proxy import Progress, Proxy, is_busy, load, machine, stop_after

PORT = 3129
ECHO_PORT = 9001
MANY = "10.86.0.0/16"
"""Addresses that are all the server's, so that each connection goes to one that nobody has heard of."""
DEAD = "fd83:2::66"
AT_ONCE = 64
"""Connections that are begun and not done."""
CALLS_PER_S = 5_000
"""What one worker is to do, every server unheard of."""
WAYS = ("no proxy", "held", "at once")
Figures = dict[str, dict[str, float]]


@contextmanager
def proxied(binary: Path, folder: Path, answer: str) -> Iterator[Proxy]:
    """The proxy at the router, for both versions of IP."""
    config = folder / "proxy.toml"
    config.write_text(
        "workers = 1\n"
        + "".join(
            f'[[listen]]\naddress = "{address}:{PORT}"\nway = "transparent"\nclients = ["{clients}"]\n'
            f'answer = "{answer}"\n'
            for address, clients in (("127.0.0.1", "10.83.1.0/24"), ("[::1]", "fd83:1::/64"))
        )
        + '[limits]\nconnections_per_client = 8000\n[destinations]\nallow = ["10.0.0.0/8", "fd83::/16"]\n'
    )
    inside = ["ip", "netns", "exec", ROUTER, str(binary.resolve()), "proxy"]
    log = folder / "proxy.log"
    with running([*inside, "--config", str(config)], log) as process:
        end = time.monotonic() + PATIENCE_S
        while log.read_text().count(str(PORT)) < 2:
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"the proxy does not listen: {log.read_text()}")
            time.sleep(0.02)
        rules = ["--listener", f"127.0.0.1:{PORT}", "--listener", f"[::1]:{PORT}", "--interface", "lan"]
        subprocess.run([*inside, "rules", "apply", *rules, "--answer", answer.replace(" ", "-")], check=True)
        try:
            yield Proxy(answer, PORT, process.pid)
        finally:
            subprocess.run([*inside, "rules", "remove"], check=True)


def seconds_of(url: str, *more: str, limit_s: float = 40) -> tuple[float, float]:
    """The time until curl was connected, and until it had its answer; infinite if it had none."""
    words = ["ip", "netns", "exec", CLIENT, "curl", "-s", "-o", "/dev/null", "--max-time", str(limit_s)]
    words += ["-w", "%{time_connect} %{time_total}", *more, url]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    connected, total = (float(word) for word in done.stdout.split())
    return (connected, total) if done.returncode == 0 else (float("inf"), float("inf"))


def measure(options: argparse.Namespace, folder: Path, progress: Progress) -> Figures:
    """All figures, by the way."""
    figures: Figures = {}
    ip(f"-n {ROUTER} route add {MANY} via {SERVER_ADDRESS}")
    ip(f"-n {SERVER} route add local {MANY} dev lo")
    ip(f"-n {SERVER} address add {DEAD}/64 dev eth nodad")
    drop = folder / "dead.nft"
    drop.write_text(
        f"table inet dead {{\n chain in {{\n type filter hook input priority 0\n ip6 daddr {DEAD} drop\n }}\n}}\n"
    )
    subprocess.run(["ip", "netns", "exec", SERVER, "nft", "-f", str(drop)], check=True)
    (folder / "page").write_text("hello\n")
    serving = [
        "ip",
        "netns",
        "exec",
        SERVER,
        sys.executable,
        "-m",
        "http.server",
        "--bind",
        "::",
        "--directory",
        str(folder),
        "80",
    ]
    calls = folder / "calls"
    subprocess.run(["cc", "-O2", "-o", str(calls), str(Path(__file__).parent / "calls.c")], check=True)
    echo = ["ip", "netns", "exec", SERVER, str(calls), "answer", "0.0.0.0", str(ECHO_PORT)]
    with (
        running(serving, folder / "pages.log"),
        ended(subprocess.Popen(echo, stdout=subprocess.PIPE, text=True)) as process,
    ):
        until(process, "ready")
        time.sleep(0.5)
        for way in WAYS:
            here = figures.setdefault(way, {})
            with proxied(options.binary, folder, way) if way != "no proxy" else nullcontext() as proxy:
                before = proxy.cpu_s() if proxy else 0.0
                words = ["ip", "netns", "exec", CLIENT, str(calls), "call", "10.86.0.0", str(ECHO_PORT)]
                words += [str(options.calls), str(AT_ONCE)]
                done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
                here["calls_per_s"] = done["calls"] / done["seconds"]
                if proxy:
                    here["cpu_us_per_call"] = (proxy.cpu_s() - before) / done["calls"] * 1e6
                either = f"either.example:80:[{DEAD}],{SERVER_ADDRESS}"
                limit_s = 40.0
                rounds = options.rounds if way != "at once" else 1
                found = [
                    seconds_of("http://either.example/page", "--resolve", either, limit_s=limit_s)
                    for _ in range(rounds)
                ]
                here["dead_beside_live_s"] = statistics.median(total for _, total in found)
                live = [seconds_of(f"http://[{SERVER_ADDRESS_6}]/page") for _ in range(options.rounds)]
                here["live_s"] = statistics.median(total for _, total in live)
                if proxy and way == "held":
                    here["stopped_s"] = stopped(proxy)
            progress.say(f"{way}: {here}")
    return figures


def stopped(proxy: Proxy) -> float:
    """The longest that a client takes which comes within two seconds after the proxy was stopped.

    Its server is one of which nobody has heard. To others the kernel accepts connections for another 0.9 s, which wait
    for the proxy.
    """
    times: list[float] = []
    os.kill(proxy.pid, signal.SIGSTOP)
    try:

        def come(number: int) -> None:
            # Each to an address of which nobody knows whether it lives.
            _, total = seconds_of(f"http://10.86.200.{number}/page", limit_s=20)
            times.append(total)

        clients = [threading.Thread(target=come, args=(number,)) for number in range(1, 21)]
        for client in clients:
            client.start()
            time.sleep(0.1)
        for client in clients:
            client.join()
    finally:
        os.kill(proxy.pid, signal.SIGCONT)
    return max(times)


def table(figures: Figures, about: str) -> str:
    """As Markdown."""
    rows = {
        "calls_per_s": ("connections a second, 64 at a time, each to another address", 0),
        "cpu_us_per_call": ("the proxy's CPU for each [us]", 0),
        "live_s": ("curl, a page of a live server [s]", 3),
        "dead_beside_live_s": ("curl, a page of a server with a dead IPv6 address and a live IPv4 one [s]", 3),
        "stopped_s": ("curl, the longest of 20 clients that come in the 2 s after the proxy is stopped [s]", 3),
    }
    lines = [f"| | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
    for key, (what, decimals) in rows.items():
        values = [figures[way].get(key) for way in WAYS]
        cells = ["" if v is None else "fails" if v == float("inf") else f"{v:,.{decimals}f}" for v in values]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    reached = figures["held"]["calls_per_s"]
    verdict = "met" if reached >= CALLS_PER_S else "**missed**"
    return "\n".join(
        [*lines, "", f"Goal: {CALLS_PER_S:,} connections a second held, by one worker: {verdict}. {about}"]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=Path("target/release/headend"))
    parser.add_argument("--out", type=Path, default=Path("out/bench-transparent.json"))
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    parser.add_argument("--time-limit", type=int, default=300, help="seconds after which it ends (default: 300)")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit("bench-transparent: takes root, for namespaces")
    stop_after(options.time_limit, "bench-transparent")
    progress = Progress()
    begin, busy, kind = load().split(",")[0], is_busy(), machine()
    with path(), tempfile.TemporaryDirectory(prefix="headend-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        figures = measure(options, folder, progress)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=2) + "\n")
    other = " Other programs had just run." if busy else ""
    text = table(figures, f"{kind['cores']} cores, Linux {kind['kernel']}. Load (1 min) before {begin}.{other}")
    print(f"\n{text}\n\nWritten to {options.out}")
    if options.page:
        page.write(options.page, "bench-transparent", text)
        print(f"Written into {options.page}")


if __name__ == "__main__":
    main()
