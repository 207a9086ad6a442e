"""A server in a child process, and a plain HTTP client for it."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

PROGRAM = Path(__file__).with_name("http_server.py")
GUARD = 200.0
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}


class HttpReply(NamedTuple):
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The text of a tool result."""
        text: str = self.json["result"]["content"][0]["text"]
        return text


class Serving:
    """The process. As a context manager it is started on entry and killed on exit."""

    def __init__(self, *command: str, **options: Any) -> None:
        self.command = command or (sys.executable, str(PROGRAM), json.dumps({"port": 0, **options}))
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._is_ended = False

    def __enter__(self) -> Self:
        self._is_ended = False
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(GUARD)
        self._reader.join(GUARD)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    @property
    def stderr(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, pattern: str, count: int = 1) -> re.Match[str]:
        """Wait until `count` lines on standard error match the pattern, and return the last match."""

        def found() -> list[re.Match[str]]:
            return [match for line in self.lines if (match := re.search(pattern, line))]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= count or self._is_ended, GUARD)
            assert len(found()) >= count, f"{pattern!r} was not printed {count} times:\n{self.stderr}"
            return found()[count - 1]

    @property
    def port(self) -> int:
        """The port. Waits until the server accepts connections."""
        return int(self.wait_for_line(r"serves https?://[^ ]*:(\d+)/")[1])

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD)

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> HttpReply:
        """Send one request on a new connection."""
        connection = self.connection()
        try:
            return send_request(connection, method, path, body, headers)
        finally:
            connection.close()

    def call(self, tool: str, headers: dict[str, str] | None = None, **arguments: Any) -> HttpReply:
        """Call a tool, in the handshake era and without a session."""
        return self.request("POST", "/mcp", call(tool, **arguments), headers)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its exit, and return the exit code."""
        return self.process.wait(GUARD)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """The message that calls a tool."""
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


def send_request(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> HttpReply:
    """Send one request on this connection."""
    data = None if body is None else json.dumps(body)
    lines = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    connection.request(method, path, data, {**lines, **(headers or {})})
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    return HttpReply(response.status, found, response.read())


def stateless_call(port: int, tool: str) -> HttpReply:
    """Call a tool in the stateless era."""
    message = call(tool)
    message["params"]["_meta"] = META
    return post(port, message, {"mcp-protocol-version": STATELESS, "mcp-method": "tools/call", "mcp-name": tool})


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def initialize() -> dict[str, Any]:
    """The message that opens a session."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def post(port: int, body: Any, headers: dict[str, str] | None = None) -> HttpReply:
    """POST a message on a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        return send_request(connection, "POST", "/mcp", body, headers)
    finally:
        connection.close()
