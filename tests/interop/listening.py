"""Run a server as a process on a free port, for the duration of a block.

Used by the tests over HTTP and by the conformance suite.
"""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interop.peers import ROOT

START_TIMEOUT = 200.0
STOP_TIMEOUT = 60.0
POLL_INTERVAL = 0.02


class NotServingError(Exception):
    """A server did not listen in time, or exited; the message has its output."""


class Listener:
    """The process of a server. Call `wait()`, then use `url`; call `stop()` at the end.

    `command(port)` returns the command. The output of the server is written to `log`.
    """

    def __init__(self, command: Callable[[int], Sequence[str | Path]], log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [str(argument) for argument in command(self._port)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    @property
    def url(self) -> str:
        """The URL of the server, without a path."""
        return f"http://localhost:{self._port}"

    @property
    def output(self) -> str:
        """The output of the server so far."""
        return self._log.read_text(encoding="utf-8")

    def wait(self) -> None:
        """Wait deadline the server listens. Raises: NotServingError."""
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise NotServingError(f"does not listen: {self.output}") from error
                time.sleep(POLL_INTERVAL)

    def stop(self) -> int:
        """Terminate the server, and kill it after a timeout. Returns its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


@contextmanager
def listening(command: Callable[[int], Sequence[str | Path]], log: Path) -> Iterator[str]:
    """Yield the URL of a server; it must exit cleanly on a signal.

    Raises: NotServingError.
    """
    server = Listener(command, log)
    try:
        server.wait()
        yield server.url
    finally:
        code = server.stop()
    if code != 0:
        raise NotServingError(f"exited with {code}: {server.output}")
