"""A raw HTTP load generator: prepared requests over keep-alive connections, with system calls only.

Each connection has one request in flight. A response ends with its Content-Length or its last chunk.
"""

import contextlib
import json
import selectors
import socket
import subprocess
import time
from pathlib import Path

from _measure import cpu_seconds

OLD, NEW = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
STARTING_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class HttpServer:
    """A server process on a loopback port."""

    def __init__(self, command: list[str], *arguments: str, port: int | None = None) -> None:
        self.port = port or free_port()
        self.child = subprocess.Popen(
            [argument.replace("PORT", str(self.port)) for argument in (*command, *arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + STARTING_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                break
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{command} did not start")
            time.sleep(0.02)

    def cpu(self) -> float:
        """Return the CPU seconds of all threads."""
        return cpu_seconds(self.child.pid)

    def rss(self) -> float:
        """Return the resident memory in KiB."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0])

    def sessions(self) -> int:
        """Return the number of sessions that /health shows."""
        response = Connection(self.port, NEW).exchange(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return int(json.loads(response.partition(b"\r\n\r\n")[2])["sessions"])

    def close(self) -> None:
        self.child.kill()
        self.child.wait()


class Connection:
    """One keep-alive connection, with a session if the server creates one."""

    def __init__(self, port: int, revision: str) -> None:
        self.port, self.revision, self.session = port, revision, b""
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.id = 0
        if revision == OLD:
            params = {
                "protocolVersion": OLD,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }
            response = self.exchange(self.request("initialize", params))
            at = response.lower().find(b"mcp-session-id: ")
            if at >= 0:
                self.session = response[at + 16 :].partition(b"\r\n")[0]
            self.exchange(self.request("notifications/initialized", None))

    def request(self, method: str, params: dict[str, object] | None) -> bytes:
        """Return the bytes of an HTTP request."""
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
        if not method.startswith("notifications/"):
            self.id += 1
            message["id"] = self.id
        if params is not None:
            message["params"] = {**params, "_meta": META} if self.revision == NEW else params
        body = json.dumps(message, separators=(",", ":")).encode()
        head = [
            b"POST /mcp HTTP/1.1",
            b"host: 127.0.0.1:%d" % self.port,
            b"content-type: application/json",
            b"accept: application/json, text/event-stream",
            b"mcp-protocol-version: %b" % self.revision.encode(),
            b"content-length: %d" % len(body),
        ]
        if self.session:
            head.append(b"mcp-session-id: %b" % self.session)
        if self.revision == NEW:
            head.append(b"mcp-method: %b" % method.encode())
            if params and "name" in params:
                head.append(b"mcp-name: %b" % str(params["name"]).encode())
        return b"\r\n".join(head) + b"\r\n\r\n" + body

    def exchange(self, request: bytes) -> bytes:
        """Send a request and return the response."""
        self.socket.sendall(request)
        response = b""
        while not is_complete(response):
            data = self.socket.recv(1 << 20)
            if not data:
                raise SystemExit(f"the connection was closed after {response[:300]!r}")
            response += data
        return response


def is_complete(response: bytes) -> bool:
    """Return whether a response is complete."""
    end = response.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = response[:end].lower()
    at = head.find(b"content-length:")
    if at >= 0:
        return len(response) - end - 4 >= int(head[at + 15 :].partition(b"\r\n")[0])
    return response.endswith(b"0\r\n\r\n") if b"chunked" in head else True


def seconds_each(connections: list[Connection], requests: list[bytes], rounds: int) -> float:
    """Send the request of each connection `rounds` times, concurrently; return the seconds per request."""
    ready = selectors.DefaultSelector()
    left = {}
    received: dict[int, bytes] = {}
    for connection, request in zip(connections, requests, strict=True):
        ready.register(connection.socket, selectors.EVENT_READ, (connection.socket, request))
        left[connection.socket.fileno()] = rounds
        received[connection.socket.fileno()] = b""
    started = time.perf_counter()
    for connection, request in zip(connections, requests, strict=True):
        connection.socket.sendall(request)
    open_count = len(connections)
    while open_count:
        for key, _ in ready.select():
            sock, request = key.data
            response = received[key.fd] + sock.recv(1 << 20)
            if not is_complete(response):
                received[key.fd] = response
                continue
            received[key.fd] = b""
            left[key.fd] -= 1
            if left[key.fd]:
                sock.sendall(request)
            else:
                open_count -= 1
    took = time.perf_counter() - started
    ready.close()
    return took / (rounds * len(connections))
