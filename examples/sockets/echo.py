"""A server that sends back what clients send, and a client.

python echo.py serve 127.0.0.1 4433 server.key CLIENTS-PUBLIC-KEY
python echo.py ask 127.0.0.1 4433 client.key SERVERS-PUBLIC-KEY hello
"""

import asyncio
import sys

import headend.socket
from headend.socket import Connection, Key, Stream


async def echo(stream: Stream) -> None:
    async with stream:  # ends what is written, and waits until it has come
        while part := await stream.read(65_536):
            await stream.write(part)


async def serve(connection: Connection) -> None:
    async with asyncio.TaskGroup() as streams:
        async for stream in connection:
            streams.create_task(echo(stream))


async def ask(connection: Connection, question: bytes) -> bytes:
    async def write(stream: Stream) -> None:
        await stream.write(question)
        stream.write_eof()

    async with await connection.open() as stream, asyncio.TaskGroup() as both:
        # At the same time: a server that answers before it has read all must not wait for ever.
        both.create_task(write(stream))
        return await stream.read()


async def main(way: str, host: str, port: str, key_file: str, other: str, question: str = "") -> None:
    key = Key.load(key_file)
    if way == "serve":
        async with headend.socket.serve(serve, host, int(port), key=key, clients=[other]) as server:
            print(*server.address, flush=True)
            await server.serve_forever()
    async with headend.socket.connect(host, int(port), key=key, peer=other) as connection:
        print((await ask(connection, question.encode())).decode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
