"""A server that makes its client close the connection, in several ways, and writes a ledger of received calls.

    python closing.py KIND FOLDER

`FOLDER/ledger` has one line for each call, written before the call is answered. The first connection ends as the kind
requires when a call named `trigger` arrives (or in the handshake); later connections are ordinary ones.
Also used in memory, by `packages/jackstay/tests/client/test_driver_closing.py`.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

LIMIT = 4096  # the `max_frame_bytes` of the client that is tested
EXIT = b""  # in place of a frame: end this connection


class ClosingServer:
    """One connection: frames in, frames out."""

    def __init__(self, kind: str, record: Callable[[str], object], *, is_first: bool) -> None:
        self.kind = kind if is_first else "none"
        self._record = record

    def receive(self, frame: bytes) -> list[bytes]:
        """The frames to send for this one."""
        message = json.loads(frame)
        method, id = message.get("method", ""), message.get("id")
        if method == "tools/call":
            name = message["params"]["name"]
            self._record(name)
            if name == "trigger" and self.kind != "none":
                return self._misbehave(id)
        if id is None:
            return []
        if method == "initialize":
            return self._initialize(id)
        return [_answer(id, {"content": []} if method == "tools/call" else {})]

    def _initialize(self, id: Any) -> list[bytes]:
        if self.kind == "connect expired":
            return []
        if self.kind == "negotiation failed":
            return [_encode({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "not now"}})]
        version = "1999-01-01" if self.kind == "negotiation refused" else "2025-11-25"
        about = {"protocolVersion": version, "capabilities": {"tools": {}}}
        return [_answer(id, {**about, "serverInfo": {"name": "closing", "version": "1"}})]

    def _misbehave(self, id: Any) -> list[bytes]:
        match self.kind:
            case "reset":
                return [_encode({"jsonrpc": "2.0", "method": "notifications/reset"})]
            case "second initialize":
                return [_encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})]
            case "invalid frames":
                return [b"Listening on stdio..."] * 20
            case "oversize":
                return [b'"' + b"x" * LIMIT + b'"']
            case "exit":
                return [EXIT]
        return [_answer(id, {"content": []})]


def _answer(id: Any, result: dict[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "result": result})


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def main(kind: str, folder: str) -> None:
    """Serve over stdin and stdout until the end of input."""
    ledger = os.open(f"{folder}/ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.close(os.open(f"{folder}/started", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        is_first = True
    except FileExistsError:
        is_first = False
    server = ClosingServer(kind, lambda name: os.write(ledger, name.encode() + b"\n"), is_first=is_first)
    for line in sys.stdin.buffer:
        for frame in server.receive(line):
            if frame == EXIT:
                return
            sys.stdout.buffer.write(frame + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
