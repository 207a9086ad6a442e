"""A raw HTTP client: sends bytes that no client library would send, and parses responses strictly."""

import json
import socket
from types import TracebackType
from typing import Any, NamedTuple, Self

GUARD = 120.0
STATELESS = "2026-07-28"
HANDSHAKE = "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Answer(NamedTuple):
    """One response."""

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


class Raw:
    """A connection that sends exactly the given bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), GUARD)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        """Read the next complete response. Raises: EOFError if there is none."""
        status, headers, _ = self.head()
        body = self._chunked() if "transfer-encoding" in headers else self._exactly(headers)
        return Answer(status, headers, body)

    def head(self) -> Answer:
        """Read the head of the next response; its body may be endless."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        assert len(headers) == len(lines), f"duplicate header: {lines}"
        return Answer(int(first.split()[1]), headers, b"")

    def rest(self) -> bytes:
        """Read until the server closes or resets the connection."""
        try:
            while chunk := self.socket.recv(65_536):
                self._rest += chunk
        except ConnectionError:
            pass
        return self._rest

    def is_closed(self) -> bool:
        """Wait until the server closes the connection. Returns whether it sent nothing more."""
        return self.rest() == b""

    def _exactly(self, headers: dict[str, str]) -> bytes:
        size = int(headers.get("content-length", "0"))
        while len(self._rest) < size:
            self._more()
        body, self._rest = self._rest[:size], self._rest[size:]
        return body

    def _chunked(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self._rest:
                self._more()
            line, _, self._rest = self._rest.partition(b"\r\n")
            size = int(line, 16)
            while len(self._rest) < size + 2:
                self._more()
            body += self._rest[:size]
            self._rest = self._rest[size + 2 :]
            if not size:
                return body

    def _more(self) -> None:
        chunk = self.socket.recv(65_536)
        if not chunk:
            raise EOFError(f"the server closed after {self._rest!r}")
        self._rest += chunk


def fields(headers: dict[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


def request(
    method: str = "POST", body: bytes = b"", path: str = "/mcp", host: str = "127.0.0.1", **headers: str
) -> bytes:
    """Return a valid request with these additional headers; underscores in names become dashes."""
    given = {"Host": host, "Accept": "application/json, text/event-stream"}
    if method == "POST":
        given |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return f"{method} {path} HTTP/1.1\r\n".encode("latin-1") + fields(given) + b"\r\n" + body


def message(method: str, id: int | None = 1, **params: Any) -> bytes:
    fields: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(fields if id is None else {**fields, "id": id}).encode()


def call(name: str, id: int = 1, **arguments: Any) -> bytes:
    return message("tools/call", id, name=name, arguments=arguments)


def stateless_call(name: str, *, path: str = "/mcp", headers: dict[str, str] | None = None, **arguments: Any) -> bytes:
    """Return a complete HTTP request of 2026-07-28."""
    body = message("tools/call", 1, name=name, arguments=arguments, _meta=META)
    given = {
        "MCP-Protocol-Version": STATELESS,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        **(headers or {}),
    }
    return request(body=body, path=path, **given)


INITIALIZE = message(
    "initialize",
    1,
    protocolVersion=HANDSHAKE,
    capabilities={},
    clientInfo={"name": "raw", "version": "1"},
)


def fetch(port: int, data: bytes) -> Answer:
    """Send a request on a new connection and return the response."""
    with Raw(port) as raw:
        raw.send(data)
        return raw.answer()


def open_session(port: int, **headers: str) -> str:
    """Open a session and return its id."""
    answer = fetch(port, request(body=INITIALIZE, **headers))
    assert answer.status == 200, answer
    return answer.headers["mcp-session-id"]


def in_session(id: str, method: str = "POST", body: bytes = b"", **headers: str) -> bytes:
    """Return an HTTP request of that session."""
    return request(method, body, **{"Mcp-Session-Id": id, "MCP-Protocol-Version": HANDSHAKE, **headers})
