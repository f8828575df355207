"""Connections and streams over UDP for asyncio, fast on a line that loses packets and fair in a queue.

    async with headend.socket.connect("example.org", 4433, key=key, peer="...") as connection:
        async with await connection.open() as stream:
            await stream.write(b"hello")
            stream.write_eof()
            print(await stream.read())

docs/reference/sockets.md has a server and a client, and docs/explanation/socket.md says how they work. Linux only.
"""

from __future__ import annotations

import asyncio
import itertools
import socket as _socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import ClassVar, TypedDict, TypeVar

from headend import _native
from headend._native import ConnectionEndedError, Key, StreamResetError, StreamStoppedError

__all__ = [
    "Connection",
    "ConnectionEndedError",
    "Key",
    "Server",
    "Snapshot",
    "Stream",
    "StreamResetError",
    "StreamStoppedError",
    "connect",
    "serve",
]

_T = TypeVar("_T")
_CHUNK = 1 << 18
"""Bytes that are read or written at a time."""
_CODE_MAX = (1 << 62) - 1
"""The largest code of a reset, a stop or a close."""


class Snapshot(TypedDict):
    """Counts of a connection so far, and what it is at."""

    rtt_s: float | None
    window_bytes: int
    in_flight_bytes: int
    sent: int
    delivered: int
    lost: int
    streams: int


def _checked(code: int) -> int:
    if not 0 <= code <= _CODE_MAX:
        raise ValueError(f"code {code}: expected 0 to 2^62 - 1")
    return code


class _Waiters:
    """The calls of one event loop that wait, by their tokens."""

    _of: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiters]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bell = _native.Bell()
        self.tokens = itertools.count()
        self.waiting: dict[int, asyncio.Event] = {}
        loop.add_reader(self.bell.fileno(), self._ring)

    def _ring(self) -> None:
        for token in self.bell.woken():
            if event := self.waiting.get(token):
                event.set()

    @classmethod
    async def until(cls, poll: Callable[[_native.Bell, int], _T | None]) -> _T:
        """What `poll` finds, asked again whenever it may have changed. What is cancelled has taken nothing."""
        loop = asyncio.get_running_loop()
        if (mine := cls._of.get(loop)) is None:
            mine = cls._of[loop] = cls(loop)
        token, event = next(mine.tokens), asyncio.Event()
        mine.waiting[token] = event
        try:
            while (found := poll(mine.bell, token)) is None:
                await event.wait()
                event.clear()
        finally:
            del mine.waiting[token]
        return found


async def _done(operation: _native.Operation) -> object:
    try:
        return await _Waiters.until(operation.poll)
    finally:
        operation.close()


class Stream:
    """Ordered bytes both ways. One task may read while another writes.

    As a context manager it ends what is written and waits until all of it has come; after an exception it resets the
    stream, so that nobody takes a part of it for the whole.
    """

    def __init__(self, native: _native.Stream) -> None:
        self._native = native
        self._reading = self._writing = False

    async def read(self, n: int = -1) -> bytes:
        """Return at most `n` bytes as soon as there are any, and none at the end; with -1 all until the end.

        Raises:
            StreamResetError: the peer has reset the stream; `code` is the peer's.
            ConnectionEndedError: the connection has ended.
        """
        if n >= 0:
            return await self._read(n) if n else b""
        parts = []
        while part := await self._read(_CHUNK):
            parts.append(part)
        return b"".join(parts)

    async def readexactly(self, n: int) -> bytes:
        """Return `n` bytes. Raises `asyncio.IncompleteReadError` if the stream ends before, with what came."""
        parts: list[bytes] = []
        left = n
        while left:
            if not (part := await self._read(left)):
                raise asyncio.IncompleteReadError(b"".join(parts), n)
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    async def _read(self, n: int) -> bytes:
        if self._reading:
            raise RuntimeError("another task reads from this stream")
        self._reading = True
        try:
            return await _Waiters.until(partial(self._native.read, n))
        finally:
            self._reading = False

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`, and wait while the peer reads more slowly. Cancelled, it may have written a part.

        Raises:
            StreamStoppedError: the peer reads no more; `code` is the peer's.
            ConnectionEndedError: the connection has ended.
        """
        if self._writing:
            raise RuntimeError("another task writes to this stream")
        self._writing = True
        try:
            view = memoryview(data).cast("B")
            while view:
                part = bytes(view[:_CHUNK])
                view = view[await _Waiters.until(partial(self._native.write, part)) :]
        finally:
            self._writing = False

    def write_eof(self) -> None:
        """End what is written. Reading goes on."""
        self._native.finish()

    async def sent(self) -> None:
        """Wait, after `write_eof`, until all that was written has come."""
        await _done(self._native.sent())

    def reset(self, code: int = 0) -> None:
        """End what is written at once: the peer's reads raise `StreamResetError` with this code."""
        self._native.reset(_checked(code))

    def stop(self, code: int = 0) -> None:
        """Read no more: the peer's writes raise `StreamStoppedError` with this code."""
        self._native.stop(_checked(code))

    def close(self) -> None:
        """Have done with it. What was not ended is reset."""
        self._native.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.write_eof()
                await self.sent()
        finally:
            self.close()


class Connection:
    """A connection with a peer that is known by its key. `async for` yields the streams that the peer opens."""

    def __init__(self, native: _native.Connection) -> None:
        self._native = native

    async def open(self) -> Stream:
        """Open a stream, as soon as the peer allows another. The peer hears of it with the first byte."""
        return Stream(await _done(self._native.open()))  # type: ignore[arg-type]

    async def accept(self) -> Stream:
        """Return the next stream that the peer opens. Raises `ConnectionEndedError` when there will be none."""
        return Stream(await _done(self._native.accept()))  # type: ignore[arg-type]

    async def ended(self) -> ConnectionEndedError:
        """Wait until it has ended, and return why."""
        try:
            await _done(self._native.ended())
        except ConnectionEndedError as why:
            return why
        raise AssertionError("it raises")

    def close(self, code: int = 0, reason: str = "") -> None:
        """Close it, with a code and words for the peer. What has not come by now does not come."""
        self._native.close(_checked(code), reason)

    @property
    def peer(self) -> tuple[str, str, int] | None:
        """The peer's public key, address and port; None once it has ended."""
        return self._native.peer()

    def snapshot(self) -> Snapshot | None:
        """Counts so far; None once it has ended."""
        return self._native.snapshot()

    async def __aiter__(self) -> AsyncIterator[Stream]:
        while True:
            try:
                stream = await self.accept()
            except ConnectionEndedError:
                return
            yield stream


class Server:
    """An endpoint with the connections of clients, each in a task that runs the handler."""

    def __init__(self, native: _native.Endpoint, handler: Callable[[Connection], Awaitable[None]]) -> None:
        self._native = native
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._native.address

    async def serve_forever(self) -> None:
        """Wait until it is cancelled, or until the endpoint can do nothing any more, which raises."""
        await asyncio.shield(self._accepting)

    def _start(self) -> None:
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def _accept(self) -> None:
        while True:
            connection = Connection(await _done(self._native.accept()))  # type: ignore[arg-type]
            task = asyncio.get_running_loop().create_task(self._handle(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, connection: Connection) -> None:
        try:
            await self._handler(connection)
        except ConnectionEndedError:
            pass  # As a program that reads from a socket ends with it.
        except Exception as error:
            told = {"message": "a connection's handler failed", "exception": error, "task": asyncio.current_task()}
            asyncio.get_running_loop().call_exception_handler(told)
        finally:
            connection.close()

    async def _close(self) -> None:
        tasks = [self._accepting, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _closed(self._native)


async def _closed(endpoint: _native.Endpoint) -> None:
    endpoint.close(0, "")
    await _done(endpoint.closed())


async def _resolved(host: str, port: int) -> str:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=_socket.SOCK_DGRAM)
    family, _, _, _, (address, *_) = found[0]
    return f"[{address!s}]:{port}" if family == _socket.AF_INET6 else f"{address!s}:{port}"


@asynccontextmanager
async def connect(host: str, port: int, *, key: Key, peer: str) -> AsyncIterator[Connection]:
    """Connect to the owner of the public key `peer`; the connection is closed at the end of the block.

    Raises:
        ConnectionEndedError: nobody has answered within 12 s, and what may be the reason.
    """
    to = await _resolved(host, port)
    endpoint = _native.Endpoint.client("[::]:0" if to.startswith("[") else "0.0.0.0:0", key)
    try:
        yield Connection(await _done(endpoint.connect(to, peer)))  # type: ignore[arg-type]
    finally:
        await _closed(endpoint)


@asynccontextmanager
async def serve(
    handler: Callable[[Connection], Awaitable[None]], host: str, port: int, *, key: Key, clients: Iterable[str]
) -> AsyncIterator[Server]:
    """Serve the owners of the public keys `clients`: `handler` runs for each connection, which is closed behind it.

    What a handler raises is told to the event loop's exception handler. At the end of the block all are cancelled.
    """
    server = Server(_native.Endpoint.listen(await _resolved(host, port), key, list(clients)), handler)
    server._start()
    try:
        yield server
    finally:
        await server._close()
