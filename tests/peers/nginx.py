"""A real nginx in a child process that sends each request to the next server in turn, without sticky sessions."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

GUARD = 200.0

# For a user without rights of root. What concerns MCP is the file that docs/deployment.md and compose.yaml use.
EXAMPLE = Path(__file__).parents[2] / "examples" / "several_machines" / "nginx.conf"
CONFIGURATION = """
daemon off;
pid {directory}/pid;
error_log {directory}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log {directory}/access.log;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  {example}
}}
"""


class Nginx:
    """The process. As a context manager it is started on entry and ended on exit."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="nginx-"))
        while not self._start():
            pass  # another program took the port
        return self

    def _start(self) -> bool:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        path = self._directory / "nginx.conf"
        path.write_text(CONFIGURATION.format(directory=self._directory, example=self._example()))
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self._process = subprocess.Popen(
            [program, "-e", str(self._directory / "error.log"), "-p", str(self._directory), "-c", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + GUARD
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=GUARD).close()
                return True
            except OSError:
                time.sleep(0.01)
        assert "Address already in use" in (self._directory / "error.log").read_text()
        return False

    def _example(self) -> str:
        """Return the example with the ports of this test."""
        replaced = {
            "server-1:8000": f"127.0.0.1:{self._ports[0]}",
            "server-2:8000": f"127.0.0.1:{self._ports[1]}",
            "listen 8080;": f"listen 127.0.0.1:{self.port};",
            "proxy_read_timeout 60s;": "proxy_read_timeout 1h;",
        }
        example = EXAMPLE.read_text()
        for before, after in replaced.items():
            assert example.count(before) == 1, before
            example = example.replace(before, after)
        return example

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(GUARD)
        shutil.rmtree(self._directory)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"
