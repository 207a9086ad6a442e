"""The minimal server with a task for each call, and one write for each iteration of the event loop.

The difference to Jackstay is the cost of states, validation, cancellation and telemetry.
"""

import asyncio
import sys

import limit_server
from limit_server import decode

TASKS: set[asyncio.Task[None]] = set()


class Reader(asyncio.Protocol):
    def __init__(self, out: asyncio.WriteTransport, done: asyncio.Event) -> None:
        self.out, self.done = out, done
        self.rest: list[bytes] = []
        self.responses: list[bytes] = []
        self.loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self.rest.append(data)
        if b"\n" not in data:
            return
        *lines, rest = b"".join(self.rest).split(b"\n")
        self.rest = [rest]
        for line in lines:
            if line:
                task = self.loop.create_task(self.serve(line))
                TASKS.add(task)
                task.add_done_callback(TASKS.discard)

    async def serve(self, line: bytes) -> None:
        if decode(line).id is None:
            return
        response = limit_server.answer(line)
        if response is not None:
            if not self.responses:
                self.loop.call_soon(self.write)
            self.responses.append(response)

    def write(self) -> None:
        self.out.write(b"".join(self.responses))
        self.responses.clear()

    def connection_lost(self, _: Exception | None) -> None:
        self.done.set()


async def main() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    await loop.connect_read_pipe(lambda: Reader(out, done), sys.stdin)
    await done.wait()


asyncio.run(main())
