"""A minimal correct HTTP server on a hand-written socket protocol, to measure clients.

    python raw_http.py        prints its port, then serves until its stdin ends

Responds to `POST /` like `limit_server.py`. `/stall` never responds; `GET /ended` counts closed `/stall` requests.
"""

import asyncio
import sys
import threading

from limit_server import answer

HEAD = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Connection(asyncio.Protocol):
    stalled = ended = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""
        self.is_stalled = False

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            size = 0
            if (at := head.find(b"\r\ncontent-length:")) >= 0:
                size = int(head[at + 17 :].split(b"\r\n", 1)[0])
            if len(self.buffer) < end + 4 + size:
                return
            body = self.buffer[end + 4 : end + 4 + size]
            self.buffer = self.buffer[end + 4 + size :]
            self.respond(head.split(b" ", 2), body)

    def respond(self, request_line: list[bytes], body: bytes) -> None:
        if request_line[1].startswith(b"/stall"):
            self.is_stalled = True
            Connection.stalled += 1
            return
        if request_line[0] != b"post":
            found = b"%d" % Connection.ended if request_line[1] == b"/ended" else b""
            status = b"200 OK" if found else b"405 No"
            self.transport.write(HEAD % (status, len(found)) + found)
            return
        response = answer(body)
        if response is None:
            self.transport.write(HEAD % (b"202 Accepted", 0))
        else:
            self.transport.write(HEAD % (b"200 OK", len(response)) + response)

    def connection_lost(self, error: Exception | None) -> None:
        Connection.ended += self.is_stalled


async def main() -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)

    def wait() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=wait, daemon=True).start()
    await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
