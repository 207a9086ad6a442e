"""A real `redis-server` in a child process, on a Unix socket in a directory of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

GUARD = 200.0


class RedisServer:
    """The process. As a context manager it is started on entry and killed on exit. It keeps its files over a restart.

    `options` are settings of redis.conf, with underscores for dashes.
    """

    def __init__(self, **options: str) -> None:
        self.options = {"save": "", "appendonly": "no", "appendfsync": "always", **options}

    def __enter__(self) -> Self:
        # A Unix socket has a short path: pytest's directories may be too deep.
        self.directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self.socket = self.directory / "s"
        self.start()
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
        command = ["redis-server", *(word for pair in words for word in pair)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if "eady to accept connections" in line:
                return
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
