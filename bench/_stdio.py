"""A server over stdio as a process, and the raw load on it: prepared frames, written and counted with system calls."""

import os
import subprocess
import threading
from pathlib import Path

from _measure import cpu_seconds

OLD, NEW = "2025-11-25", "2026-07-28"

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}}\n'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}'
    b',"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}},'
)


class Server:
    """A server process, and the raw load on it."""

    def __init__(self, command: list[str], revision: str) -> None:
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.stdin_fd, self.stdout_fd = self.child.stdin.fileno(), self.child.stdout.fileno()
        self.meta = META if revision == NEW else b""
        self.ids = iter(range(1, 1 << 60))
        if revision == OLD:
            self.exchange([INITIALIZE])
            os.write(self.stdin_fd, INITIALIZED)

    def call(self) -> bytes:
        """Return a frame that calls echo."""
        return (
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%b"name":"echo","arguments":{"text":"hello"}}}\n'
            % (
                next(self.ids),
                self.meta,
            )
        )

    def listing(self) -> bytes:
        """Return a frame that lists the tools."""
        params = b"{%b}" % self.meta.rstrip(b",")
        return b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":%b}\n' % (next(self.ids), params)

    def exchange(self, frames: list[bytes]) -> bytes:
        """Write the frames at once, and read as many responses."""
        os.write(self.stdin_fd, b"".join(frames))
        responses, missing = b"", len(frames)
        while missing:
            data = os.read(self.stdout_fd, 1 << 20)
            if not data:
                raise SystemExit(f"{self.child.args} exited")
            missing -= data.count(b"\n")
            responses += data
        return responses

    def exchange_large(self, frame: bytes) -> None:
        """Write a large frame in a thread, because it exceeds the pipe buffer, and read the response."""
        writing = threading.Thread(target=self._write_all, args=(frame,))
        writing.start()
        while not os.read(self.stdout_fd, 1 << 20).endswith(b"\n"):
            pass
        writing.join()

    def _write_all(self, frame: bytes) -> None:
        rest = memoryview(frame)
        while rest:
            rest = rest[os.write(self.stdin_fd, rest) :]

    def rss(self, kind: str = "VmRSS") -> float:
        """Return the resident memory in MiB; with "RssFile" that of mapped files, which processes share."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii")
        return int(status.split(f"{kind}:")[1].split()[0]) / 1024

    def cpu(self) -> float:
        """Return the CPU seconds of all threads."""
        return cpu_seconds(self.child.pid)

    def close(self) -> None:
        """Stop the server."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.kill()
        self.child.wait()
