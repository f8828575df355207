"""The ends of a path that a proxy is measured on: servers that pour or echo, clients that fetch, ask or hold.

A role runs in a process of its own, in whichever namespace: `python3 bench/ends.py ROLE ADDRESS PORT [...]`. It says a
word on its output when it has come so far, and `role`, `until` and `ended` are for whoever starts it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

BLOCK_BYTES = 256 * 1024
PATIENCE_S = 20.0
Address = tuple[str, int]


def serve(address: Address, converse: Callable[[socket.socket], None], control: str = "") -> None:
    """Accepts for ever, a thread for each connection; with this congestion control, or the machine's."""
    with socket.create_server(address, backlog=4096) as listener:
        if control:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        print("ready", flush=True)
        threading.stack_size(64 * 1024)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=converse, args=(connection,), daemon=True).start()


def pour(connection: socket.socket) -> None:
    """Writes for as long as somebody takes it."""
    block = bytes(BLOCK_BYTES)
    with connection, contextlib.suppress(OSError):
        while True:
            connection.sendall(block)


def echo(address: Address) -> None:
    """Sends back what comes, on however many connections."""
    waiting = selectors.DefaultSelector()
    with socket.create_server(address, backlog=4096) as listener:
        waiting.register(listener, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    waiting.register(connection, selectors.EVENT_READ)
                    continue
                connection = cast(socket.socket, key.fileobj)
                data = b""
                with contextlib.suppress(OSError):
                    data = connection.recv(64)
                if data:
                    connection.sendall(data)
                else:
                    waiting.unregister(connection)
                    connection.close()


def fetch(address: Address, streams: int, seconds: float) -> dict[str, float]:
    """Reads from so many connections at once; what came in the time after a quarter of it has passed."""
    counts = [0] * streams

    def read(index: int) -> None:
        buffer = bytearray(BLOCK_BYTES)
        with contextlib.suppress(OSError):
            # Thrown away by the kernel (tcp(7)): what the client costs is not to slow down what it measures.
            while got := connections[index].recv_into(buffer, 0, socket.MSG_TRUNC):
                counts[index] += got

    connections = [socket.create_connection(address, PATIENCE_S) for _ in range(streams)]
    for connection in connections:
        connection.settimeout(None)
    for index in range(streams):
        threading.Thread(target=read, args=(index,), daemon=True).start()
    time.sleep(seconds / 4)
    before, begin = sum(counts), time.monotonic()
    print("begin", flush=True)
    time.sleep(seconds)
    result = {"bytes": sum(counts) - before, "seconds": time.monotonic() - begin}
    print("end", flush=True)
    return result


def round_trips(address: Address, count: int) -> list[int]:
    """One byte there and back, again and again, in nanoseconds."""
    with socket.create_connection(address, PATIENCE_S) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = []
        for turn in range(count + count // 10):
            begin = time.perf_counter_ns()
            connection.sendall(b"x")
            connection.recv(1)
            if turn >= count // 10:
                times.append(time.perf_counter_ns() - begin)
        return times


def hold(address: Address, count: int, speaks: bool) -> None:
    """Opens connections and keeps them until its input ends. With `speaks` a byte goes there and back on each first."""
    connections = []
    for _ in range(count):
        connection = socket.create_connection(address, PATIENCE_S)
        if speaks:
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
        connections.append(connection)
    print("ready", flush=True)
    sys.stdin.read()


# ---- for whoever starts a role


def role(namespace: str | None, *words: object) -> list[str]:
    """The command line of a role, in a namespace or here."""
    inside = ["ip", "netns", "exec", namespace] if namespace else []
    return [*inside, sys.executable, __file__, *map(str, words)]


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, which is gone after the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(process: subprocess.Popen[str], word: str) -> None:
    """Waits for a line."""
    assert process.stdout
    for line in process.stdout:
        if line.strip() == word:
            return
    sys.exit(f"{process.args!r} ended before it said {word!r}")


def fetched(
    namespace: str | None, address: Address, streams: int, seconds: float, cpu_s: Callable[[], float]
) -> tuple[float, float]:
    """Fetches, and says how many bits a second came, and how much of `cpu_s` each gigabyte took meanwhile."""
    words = role(namespace, "fetch", *address, streams, seconds)
    with ended(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as reader:
        until(reader, "begin")
        before = cpu_s()
        until(reader, "end")
        used_s = cpu_s() - before
        assert reader.stdout
        got = json.loads(reader.stdout.readline())
    if not got["bytes"]:
        sys.exit(f"nothing came from {address[0]}:{address[1]} in {seconds} s")
    return 8 * got["bytes"] / got["seconds"], used_s / (got["bytes"] / 1e9)


def play(words: Sequence[str]) -> None:
    """One role."""
    name, host, port, *rest = words
    address = (host, int(port))
    if name == "pour":
        serve(address, pour, *rest)
    elif name == "echo":
        echo(address)
    elif name == "fetch":
        print(json.dumps(fetch(address, int(rest[0]), float(rest[1]))), flush=True)
        # Threads still read.
        os._exit(0)
    elif name == "round-trips":
        print(json.dumps(round_trips(address, int(rest[0]))))
    elif name == "hold":
        hold(address, int(rest[0]), bool(int(rest[1])))
    else:
        sys.exit(f"{name}: expected pour, echo, fetch, round-trips or hold")


if __name__ == "__main__":
    play(sys.argv[1:])
