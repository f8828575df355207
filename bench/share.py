"""What the proxy's local side leaves to others on a line that loses packets, and what it gets itself.

It takes Linux and root. The path is that of bench/pages.py: client, a cable of 25 Mbit/s and 20 ms that loses packets,
the proxy's machine, server. One download goes through the proxy, whose local side has one congestion control after the
other; another comes from a plain server on the proxy's machine over the same cable, with CUBIC: what a neighbour on
the line has. The first is taken alone as well. A congestion control that the kernel does not have is left out, and
that is said; `headend cc install backfill` brings that one.

    python3 bench/share.py target/release/headend --runs 3 --loss 0 1 5 [--queue 63KB]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import page
from ends import PATIENCE_S, ended, role, until
from pages import CLIENT, PROXY, SCENARIO, SERVER, path, running

CONTROLS = ("cubic", "bbr", "backfill")
PROXY_PORT, RIVAL_PORT, SOURCE_PORT = 3128, 9001, 9000
RATE_MBIT = 25.0


def config(control: str) -> str:
    """The proxy, with this controller towards the client."""
    return (
        f'user = "root"\n[[listen]]\naddress = "{PROXY}:{PROXY_PORT}"\nway = "forward"\nto = "{SERVER}:{SOURCE_PORT}"\n'
        f'clients = ["{CLIENT}/32"]\n[local]\nrto_min = "50ms"\nquick_acks = true\ncongestion_control = "{control}"\n'
        '[remote]\ncongestion_control = "cubic"\n'
    )


def fetched(client: str, ports: Sequence[int], seconds: float) -> list[float]:
    """The rates [Mbit/s] of downloads at the same time."""
    with ExitStack() as stack:
        words = [role(client, "fetch", PROXY, port, 1, seconds) for port in ports]
        readers = [stack.enter_context(ended(subprocess.Popen(w, stdout=subprocess.PIPE, text=True))) for w in words]
        rates = []
        for reader in readers:
            until(reader, "end")
            assert reader.stdout
            got = json.loads(reader.stdout.readline())
            rates.append(8 * got["bytes"] / got["seconds"] / 1e6)
        return rates


def available() -> list[str]:
    """The controllers that the kernel has."""
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for control in CONTROLS:
        if control not in known:
            print(f"share: the kernel has no {control}: left out", file=sys.stderr)
    return [control for control in CONTROLS if control in known]


def measure(arguments: argparse.Namespace) -> dict[tuple[float, str], list[tuple[float, float, float]]]:
    """By loss and controller, of each run: alone, beside the other, and the other [Mbit/s]."""
    binary = str(arguments.binary.resolve())
    measured: dict[tuple[float, str], list[tuple[float, float, float]]] = {}
    controls = available()
    with path() as (client, cable, proxy, network, server), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headend-share-")))
        inside = ["ip", "netns", "exec"]

        def emulated(name: str, **link: str | float) -> list[str]:
            file = folder / f"{name}.toml"
            text = SCENARIO.format(**link).replace('queue = "300KB"', f'queue = "{link["queue"]}"')
            file.write_text(text)
            return [*inside, name, binary, "emulate", str(file), "--interfaces", "o0", "i0", "--accept-late"]

        quiet = {"stdout": subprocess.DEVNULL}
        far = emulated(network, seed=1, down="200Mbit/s", up="200Mbit/s", delay="5ms", loss=0.0, queue="300KB")
        stack.enter_context(running(far, **quiet))
        for name, address, port in ((server, SERVER, SOURCE_PORT), (proxy, PROXY, RIVAL_PORT)):
            pouring = subprocess.Popen(role(name, "pour", address, port, "cubic"), stdout=subprocess.PIPE, text=True)
            until(stack.enter_context(ended(pouring)), "ready")
        for seed, loss in enumerate(arguments.loss, 1):
            near = emulated(
                cable,
                seed=seed,
                down=f"{RATE_MBIT}Mbit/s",
                up="3Mbit/s",
                delay="10ms",
                loss=loss,
                queue=arguments.queue,
            )
            with running(near, **quiet):
                for _ in range(arguments.runs):
                    for control in controls:
                        (folder / "proxy.toml").write_text(config(control))
                        serving = [*inside, proxy, binary, "proxy", "--config", str(folder / "proxy.toml")]
                        with running(serving, **quiet):
                            wait_for(proxy)
                            alone = fetched(client, [PROXY_PORT], arguments.seconds)[0]
                            ours, rival = fetched(client, [PROXY_PORT, RIVAL_PORT], arguments.seconds)
                        measured.setdefault((loss, control), []).append((alone, ours, rival))
                        said = f"{loss:g}% lost, {control}: alone {alone:.1f}, beside {ours:.1f} and {rival:.1f} Mbit/s"
                        print(said, file=sys.stderr, flush=True)
    return measured


def wait_for(namespace: str) -> None:
    """Waits until the proxy listens."""
    words = ["ip", "netns", "exec", namespace, "timeout", str(PATIENCE_S), "sh", "-c"]
    look = f"until ss -Hltn sport = :{PROXY_PORT} | grep -q .; do sleep 0.05; done"
    subprocess.run([*words, look], check=True)


def main() -> None:
    """Measures what is asked for and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each download (default: 12)")
    parser.add_argument("--loss", type=float, nargs="+", default=[0.0, 1.0, 5.0], help="of the cable [%%]")
    parser.add_argument("--queue", default="63KB", help="before the cable (default: 63KB, rate times round trip)")
    parser.add_argument("--page", type=Path, help="a page of the docs whose table is to be this run's")
    arguments = parser.parse_args()
    measured = measure(arguments)
    lines = [
        "| lost | the local side's | alone [Mbit/s] | beside CUBIC [Mbit/s] | CUBIC beside it [Mbit/s] | its share |"
    ]
    lines += ["|---" * 6 + "|"]
    for (loss, control), runs in measured.items():
        alone, ours, rival = (statistics.median(values) for values in zip(*runs, strict=True))
        lines.append(
            f"| {loss:g}% | {control} | {alone:.1f} | {ours:.1f} | {rival:.1f} | {ours / (ours + rival):.2f} |"
        )
    about = f"{RATE_MBIT:g} Mbit/s, 20 ms, a queue of {arguments.queue}. Medians of {arguments.runs} runs"
    lines += [
        "",
        f"{about} of {arguments.seconds:g} s, in turns. {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} after.",
    ]
    text = "\n".join(lines)
    print(f"\n{text}")
    if arguments.page:
        page.write(arguments.page, "bench-share", text)


if __name__ == "__main__":
    main()
