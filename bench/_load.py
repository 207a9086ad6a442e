"""A raw HTTP load: prepared requests over keep-alive connections, with system calls only.

It finds the end of a response by its length or last chunk, and checks the content after the measurement. Each
connection has one request in flight.
"""

import contextlib
import json
import selectors
import socket
import subprocess
import time
from pathlib import Path

OLD, NEW = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
STARTING_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class HttpServer:
    """A server that was started, reached over loopback."""

    def __init__(self, command: list[str], *words: str) -> None:
        self.port = free_port()
        self.child = subprocess.Popen(
            [word.replace("PORT", str(self.port)) for word in (*command, *words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + STARTING_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                break
            if self.child.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{command} did not start")
            time.sleep(0.02)

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def rss(self) -> float:
        """Resident KiB."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0])

    def close(self) -> None:
        self.child.kill()
        self.child.wait()


class Conversation:
    """One keep-alive connection, with a session where the server gives one."""

    def __init__(self, port: int, revision: str) -> None:
        self.port, self.revision, self.session = port, revision, b""
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.id = 0
        if revision == OLD:
            hello = {
                "protocolVersion": OLD,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }
            answer = self.exchange(self.request("initialize", hello))
            at = answer.lower().find(b"mcp-session-id: ")
            if at >= 0:
                self.session = answer[at + 16 :].partition(b"\r\n")[0]
            self.exchange(self.request("notifications/initialized", None))

    def request(self, method: str, params: dict[str, object] | None) -> bytes:
        """A whole request, ready to be sent."""
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
        """Send one and wait for its answer."""
        self.socket.sendall(request)
        answer = b""
        while not is_complete(answer):
            data = self.socket.recv(1 << 20)
            if not data:
                raise SystemExit(f"the connection was closed after {answer[:300]!r}")
            answer += data
        return answer


def is_complete(answer: bytes) -> bool:
    """Whether all of a response is here."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = answer[:end].lower()
    at = head.find(b"content-length:")
    if at >= 0:
        return len(answer) - end - 4 >= int(head[at + 15 :].partition(b"\r\n")[0])
    return answer.endswith(b"0\r\n\r\n") if b"chunked" in head else True


def seconds_each(conversations: list[Conversation], requests: list[bytes], rounds: int) -> float:
    """Send each conversation its request so many times, all of them at once; seconds of one."""
    ready = selectors.DefaultSelector()
    left = {}
    got: dict[int, bytes] = {}
    for one, request in zip(conversations, requests, strict=True):
        ready.register(one.socket, selectors.EVENT_READ, (one.socket, request))
        left[one.socket.fileno()] = rounds
        got[one.socket.fileno()] = b""
    started = time.perf_counter()
    for one, request in zip(conversations, requests, strict=True):
        one.socket.sendall(request)
    open_ones = len(conversations)
    while open_ones:
        for key, _ in ready.select():
            peer, request = key.data
            answer = got[key.fd] + peer.recv(1 << 20)
            if not is_complete(answer):
                got[key.fd] = answer
                continue
            got[key.fd] = b""
            left[key.fd] -= 1
            if left[key.fd]:
                peer.sendall(request)
            else:
                open_ones -= 1
    took = time.perf_counter() - started
    ready.close()
    return took / (rounds * len(conversations))
