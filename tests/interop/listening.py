"""A server that listens: started as a process on a free port, there when the block begins, ended when it ends.

Used by the tests over HTTP and by the conformance suite.
"""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interop.peers import ROOT

STARTED_WITHIN = 30.0
STOPPED_WITHIN = 10.0
LOOK_AGAIN_AFTER = 0.02


class NotServingError(Exception):
    """A server did not listen in time, or exited; the message has its output."""


class Listener:
    """A server's process, from its start on. `wait()` for it, then use `url`; `stop()` it in the end.

    `command(port)` is how it is started; what it writes goes to `log`.
    """

    def __init__(self, command: Callable[[int], Sequence[str | Path]], log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [str(word) for word in command(self._port)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://localhost:{self._port}"

    @property
    def output(self) -> str:
        """What it has written."""
        return self._log.read_text(encoding="utf-8")

    def wait(self) -> None:
        """Return when it listens. Raises: NotServingError."""
        until = time.monotonic() + STARTED_WITHIN
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise NotServingError(f"does not listen: {self.output}") from error
                time.sleep(LOOK_AGAIN_AFTER)

    def stop(self) -> int:
        """Ask it to end, and make it if it does not; returns its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(STOPPED_WITHIN)
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
        raise NotServingError(f"ended with {code}: {server.output}")
