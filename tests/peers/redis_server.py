"""A real `redis-server` in a child process, on a Unix socket in a directory of its own."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from jackstay.errors import TransportError

GUARD = 200.0


class RedisServer:
    """The process. As a context manager it is started on entry and killed on exit. It keeps its files over a restart.

    `options` are settings of redis.conf, with underscores for dashes.
    """

    program: tuple[str, ...] = ("redis-server",)
    # What the process prints when it can be used.
    ready = "eady to accept connections"

    def __init__(self, **options: str) -> None:
        self.options = {"save": "", "appendonly": "no", "appendfsync": "always", "bind": "127.0.0.1", **options}

    def __enter__(self) -> Self:
        # A Unix socket has a short path: pytest's directories may be too deep.
        self.directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self.directory / "s"
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.directory)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        settings = {"port": "0", "unixsocket": str(self.socket), "dir": str(self.directory), **self.options}
        words = ((f"--{name.replace('_', '-')}", value) for name, value in settings.items())
        command = [*self.program, *(word for pair in words for word in pair)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if self.ready in line:
                return
        self.kill()
        raise AssertionError(f"redis-server did not start:\n{''.join(lines)}")

    def kill(self) -> None:
        """Kill the process (SIGKILL), also while it is stopped."""
        self.process.kill()
        self.process.wait(GUARD)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> None:
        """Stop the process: it accepts connections and does not respond."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `stop()`."""
        os.kill(self.process.pid, signal.SIGCONT)

    def run(self, *command: str | int) -> Any:
        """Run a command and return its reply."""
        client: Any = redis.Redis(unix_socket_path=str(self.socket), socket_timeout=GUARD, protocol=2)
        try:
            return client.execute_command(*command)
        finally:
            client.close()


class RedisSentinel(RedisServer):
    """A sentinel that watches the server on a port. Without other sentinels it promotes a replica by itself."""

    ready = "+monitor master"

    def __init__(self, name: str, port: int) -> None:
        super().__init__()
        self.config = f"sentinel monitor {name} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {name} 1000\n"

    def start(self) -> None:
        """Start the process. It keeps what it knows in the file of its configuration."""
        file = self.directory / "sentinel.conf"
        file.write_text(self.config)
        self.program = ("redis-server", str(file), "--sentinel")
        super().start()


def free_port(server: RedisServer, name: str = "port") -> int:
    """Make a server listen on a free port, for TLS if `name` is `tls-port`."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        try:
            server.run("CONFIG", "SET", name, port)
        except redis.exceptions.RedisError:
            continue  # another program took it meanwhile
        return port


async def until_it_works(function: Callable[[], Awaitable[object]]) -> object:
    """Call a function until it raises no TransportError."""
    while True:
        try:
            return await function()
        except TransportError:
            await asyncio.sleep(0.01)
