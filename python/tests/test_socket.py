"""`headend.socket`: two ends in one process, the example as two processes, and a tunnel's server."""

import asyncio
import importlib.util
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import headend.socket
from headend.socket import ConnectionEndedError, Key, StreamResetError, StreamStoppedError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/sockets/echo.py"
PATIENCE_S = 60
BYTES = bytes((at * 31 + (at >> 9)) % 256 for at in range(1_000_000))


def example():
    spec = importlib.util.spec_from_file_location("echo", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(body):
    """Runs a test within a limit of many times what it takes."""
    return asyncio.run(asyncio.wait_for(body, PATIENCE_S))


@asynccontextmanager
async def pair():
    """A client's connection, and the server's end of it."""
    own, other = Key.generate(), Key.generate()
    accepted = asyncio.get_running_loop().create_future()

    async def handler(connection):
        accepted.set_result(connection)
        await connection.ended()

    async with (
        headend.socket.serve(handler, "127.0.0.1", 0, key=own, clients=[other.public]) as server,
        headend.socket.connect(*server.address, key=other, peer=own.public) as connection,
    ):
        yield connection, await accepted


async def both(connection, accepted):
    """Two ends of a stream."""
    here = await connection.open()
    await here.write(b"!")
    there = await accepted.accept()
    assert await there.readexactly(1) == b"!"
    return here, there


def test_the_example_sends_back_what_it_is_sent():
    async def body():
        echo, own, other = example(), Key.generate(), Key.generate()
        async with (
            headend.socket.serve(echo.serve, "localhost", 0, key=own, clients=[other.public]) as server,
            headend.socket.connect("localhost", server.address[1], key=other, peer=own.public) as connection,
        ):
            assert connection.peer[0] == own.public
            answers = await asyncio.gather(*(echo.ask(connection, BYTES[: 10**size]) for size in range(7)))
            assert answers == [BYTES[: 10**size] for size in range(7)]
            at = connection.snapshot()
            assert at["sent"] > 0
            assert at["rtt_s"] > 0

    run(body())


def test_the_example_runs_as_two_programs(tmp_path):
    keys = {}
    for end in ("server", "client"):
        key = Key.generate()
        key.save(tmp_path / end)
        keys[end] = key.public
        assert Key.load(tmp_path / end).public == key.public
    words = [sys.executable, EXAMPLE]
    serve = [*words, "serve", "127.0.0.1", "0", tmp_path / "server", keys["client"]]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            host, port = server.stdout.readline().split()
            ask = [*words, "ask", host, port, tmp_path / "client", keys["server"], "hello"]
            asked = subprocess.run(ask, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        finally:
            server.terminate()
    assert asked.stdout == "hello\n", asked.stderr


def test_a_code_that_does_not_fit_is_refused():
    async def body():
        async with pair() as (connection, accepted):
            here, there = await both(connection, accepted)
            for code in (-1, 1 << 62):
                for refused in (here.reset, here.stop, connection.close):
                    with pytest.raises(ValueError, match="expected 0 to"):
                        refused(code)
            here.reset((1 << 62) - 1)
            with pytest.raises(StreamResetError) as reset:
                await there.read()
            assert reset.value.code == (1 << 62) - 1

    run(body())


def test_a_writer_waits_for_its_reader():
    async def body():
        async with pair() as (connection, accepted):
            here, there = await both(connection, accepted)
            data = BYTES * 12  # beyond what a stream may have under way, with all windows grown
            writing = asyncio.create_task(here.write(data))
            assert await there.readexactly(1000) == data[:1000]
            done, _ = await asyncio.wait([writing], timeout=0.5)
            assert not done, "nobody reads, and nobody keeps twelve megabytes"
            assert await there.readexactly(len(data) - 1000) == data[1000:]
            await writing

    run(body())


def test_a_cancelled_read_loses_no_byte_and_holds_nothing_up():
    async def body():
        async with pair() as (connection, accepted):
            here, there = await both(connection, accepted)
            for at in range(100):
                reading = asyncio.create_task(there.readexactly(1))
                await asyncio.sleep(0)
                if at % 2:
                    await here.write(bytes([at]))
                reading.cancel()
                try:
                    assert await reading == bytes([at])
                except asyncio.CancelledError:
                    if at % 2:
                        assert await there.readexactly(1) == bytes([at])

    run(body())


def test_who_waits_for_a_connection_can_be_cancelled():
    async def body():
        async with pair() as (connection, accepted):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(accepted.accept(), 0.05)
            here, _ = await both(connection, accepted)
            here.close()

    run(body())


def test_one_task_at_a_time_reads_a_stream():
    async def body():
        async with pair() as (connection, accepted):
            here, there = await both(connection, accepted)
            reading = asyncio.create_task(there.read(1))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="another task"):
                await there.read(1)
            await here.write(b"x")
            assert await reading == b"x"

    run(body())


def test_resets_stops_and_the_end_are_told_with_their_codes():
    async def body():
        async with pair() as (connection, accepted):
            here, there = await both(connection, accepted)
            here.reset(7)
            with pytest.raises(StreamResetError) as reset:
                await there.read()
            assert reset.value.code == 7
            here, there = await both(connection, accepted)
            there.stop(8)
            with pytest.raises(StreamStoppedError) as stopped:
                await here.write(BYTES * 12)  # beyond what there is room for
            assert stopped.value.code == 8
            here, there = await both(connection, accepted)

            async def failing():
                async with here:
                    await here.write(b"a part of")
                    raise KeyError

            with pytest.raises(KeyError):
                await failing()
            with pytest.raises(StreamResetError):
                await there.read()
            connection.close(80, "enough")
            why = await accepted.ended()
            assert why.code == 80
            assert "enough" in str(why)
            assert accepted.peer is None
            with pytest.raises(ConnectionEndedError):
                await accepted.open()

    run(body())


def test_a_failing_handler_is_told_to_the_loop_and_closes_its_connection():
    async def body():
        own, other, told = Key.generate(), Key.generate(), []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

        async def handler(_):
            raise ValueError("a mistake")

        async with (
            headend.socket.serve(handler, "127.0.0.1", 0, key=own, clients=[other.public]) as server,
            headend.socket.connect(*server.address, key=other, peer=own.public) as connection,
        ):
            await connection.ended()
            assert [str(error) for error in told] == ["a mistake"]

    run(body())


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        Key.load(tmp_path / "none")
    (tmp_path / "open").write_text("x")
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        Key.load(tmp_path / "open")

    async def body():
        with pytest.raises(ValueError, match="44 letters"):
            async with headend.socket.connect("127.0.0.1", 1, key=Key.generate(), peer="nonsense"):
                pass

    run(body())


def test_a_tunnels_server_is_spoken_to(tmp_path, headend_binary):
    """Its protocol is in `crates/cli/src/tunnel/speech.rs`."""
    own, server = Key.generate(), Key.generate()
    server.save(tmp_path / "server.key")
    (tmp_path / "authorized_keys").write_text(own.public)
    tmp_path.chmod(0o755)

    async def upper(reader, writer):
        writer.write((await reader.read()).upper())
        writer.close()
        await writer.wait_closed()

    async def body():
        words = ["tunnel", "serve", "--listen", "127.0.0.1:0", "--key", tmp_path / "server.key"]
        words += ["--authorized", tmp_path / "authorized_keys", "--allow", "127.0.0.1"]
        tunnel = await asyncio.create_subprocess_exec(headend_binary, *words, stderr=asyncio.subprocess.PIPE)
        try:
            while not (found := re.search(rb"listening on 127\.0\.0\.1:(\d+)", line := await tunnel.stderr.readline())):
                assert line, "it has ended"
            destination = await asyncio.start_server(upper, "127.0.0.1", 0)
            to = b"127.0.0.1:%d" % destination.sockets[0].getsockname()[1]
            async with (
                destination,
                headend.socket.connect("127.0.0.1", int(found[1]), key=own, peer=server.public) as connection,
                await connection.open() as stream,
            ):
                await stream.write(len(to).to_bytes(2, "big") + to)
                assert await stream.readexactly(1) == b"\0", "it is reached"
                await stream.write(b"hello")
                stream.write_eof()
                assert await stream.read() == b"HELLO"
        finally:
            tunnel.terminate()
            await tunnel.wait()

    run(body())
