"""The documentation server under load: search over 10,000 pages, 1,000 pages at once, SIGKILL while it writes.

    python tests/search_quality/load.py

`make bench ONLY=procontext` runs it. Times are CPU time, so that other programs change them little. Exits with 1 if a
target is missed.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import NamedTuple

from procontext.cache._rows import Document
from procontext.cache._store import FILE_NAME, Store
from procontext.page._conversion import convert_markdown

PAGES = 10_000
SECTIONS = 8
KILLS = 15


class Outcome(NamedTuple):
    """One row of the result: a name, what was measured, the target, and whether it is met."""

    name: str
    value: str
    target: str
    is_met: bool


def page(number: int, words: list[str], rng: random.Random) -> str:
    """Return a page with words by Zipf's law."""
    weights = [1 / (rank + 1) for rank in range(len(words))]
    parts = [f"# Page {number}"]
    for section in range(SECTIONS):
        parts.append(f"## {' '.join(rng.choices(words, weights, k=3))} {section}")
        parts.append(" ".join(rng.choices(words, weights, k=120)))
    return "\n\n".join(parts) + "\n"


def search(folder: Path) -> list[Outcome]:
    """Store 10,000 pages, and measure searches and the memory of a cache that is opened anew."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(20_000)]
    store = Store(folder)
    for number in range(PAGES):
        url = f"https://docs.example/p{number}.md"
        made = convert_markdown(url, page(number, words, rng))
        text = "\n".join(made.page.lines)
        store.put(
            Document(key=url, kind="page", url=url, text=text, fetched_at=0.0, checked_at=0.0), ("lib",), made.sections
        )
    durations = []
    for count in (1, 2, 3):
        for _ in range(20):
            query = " ".join(rng.sample(words[50:5_000], count))
            durations.append(cpu_seconds(lambda query=query: store.search("lib", query, 5)))  # type: ignore[misc]
    frequent = cpu_seconds(lambda: store.search("lib", " ".join(words[:12]), 5))
    sections = store.status().sections
    store.close()
    settings(folder, 0, folder)
    server = Server(folder)
    for number in range(20):
        arguments = {"library_id": "lib", "query": " ".join(rng.sample(words[50:5_000], 2))}
        server.write(call(number, "search_docs", arguments))
        answer = server.read()
        assert b'"isError":true' not in answer, answer[:500]
    megabytes = server.megabytes()
    server.kill()
    name = f"search, {PAGES:,} pages, {sections:,} sections"
    return [
        Outcome(name, f"{1000 * median(durations):.1f} ms", "50 ms", median(durations) <= 0.05),
        Outcome("  longest of 60", f"{1000 * max(durations):.1f} ms", "190 ms", max(durations) <= 0.19),
        Outcome("  twelve frequent words", f"{1000 * frequent:.0f} ms", "190 ms", frequent <= 0.19),
        Outcome("  memory of a server after 20 searches", f"{megabytes:.0f} MB", "75 MB", megabytes <= 75),
    ]


def cpu_seconds(function: Callable[[], object]) -> float:
    """Return the CPU time of a call on this thread."""
    started = time.thread_time()
    function()
    return time.thread_time() - started


class Site:
    """Pages on loopback, and the largest number of connections at a time."""

    def __init__(self) -> None:
        self.connections = self.most = 0
        self.lock = threading.Lock()
        self.port = 0

    def count(self, change: int) -> None:
        with self.lock:
            self.connections += change
            self.most = max(self.most, self.connections)


@contextmanager
def site() -> Iterator[Site]:
    """Serve /pN.md on loopback."""
    found = Site()

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            found.count(1)
            super().setup()

        def finish(self) -> None:
            super().finish()
            found.count(-1)

        def do_GET(self) -> None:
            body = f"# Page {self.path}\n\n{'A line of text. ' * 100}\n\nThe end of {self.path}\n".encode()
            self.send_response(200 if self.path.endswith(".md") else 404)
            self.send_header("Content-Type", "text/markdown")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    class Listener(ThreadingHTTPServer):
        request_queue_size = 1_024

    with Listener(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield found
        finally:
            server.shutdown()


def settings(folder: Path, port: int, cache: Path | None = None) -> None:
    """Write settings with a source on this port, and a cache; or offline, with a cache that has pages."""
    source = {"id": "pages", "docs_url": f"http://127.0.0.1:{port}/"}
    stored = {"id": "lib", "docs_url": "https://docs.example/"}
    values = {
        "sources": [source if cache is None else stored],
        "cache": {"dir": str(cache or folder / "cache")},
        "fetcher": {
            "allowed_private_hosts": [f"127.0.0.1:{port}"] if cache is None else [],
            "background_pages": 0,
            "offline": cache is not None,
        },
    }
    (folder / "settings.yaml").write_text(json.dumps(values))


def request(number: int, port: int) -> dict[str, object]:
    """Return a request to read one page; its id is the number of the page."""
    return call(number, "read_page", {"url": f"http://127.0.0.1:{port}/p{number}.md"})


def call(number: int, tool: str, arguments: dict[str, str]) -> dict[str, object]:
    """Return a request to call a tool."""
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


class Server:
    """`procontext` over stdio."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "procontext", "--config", str(folder / "settings.yaml")]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
        self.write({"jsonrpc": "2.0", "id": "start", "method": "initialize", "params": client})
        self.read()
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message: dict[str, object]) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(message).encode() + b"\n")
        self._child.stdin.flush()

    def read(self) -> bytes:
        assert self._child.stdout is not None
        return self._child.stdout.readline()

    def megabytes(self) -> float:
        lines = Path(f"/proc/{self._child.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process (`utime` and `stime` of proc(5))."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()


def at_once() -> list[Outcome]:
    """Request 1,000 pages at once from one host."""
    with tempfile.TemporaryDirectory() as name, site() as pages:
        folder = Path(name)
        settings(folder, pages.port)
        server = Server(folder)
        sender = threading.Thread(target=lambda: [server.write(request(number, pages.port)) for number in range(1_000)])
        sender.start()
        answers = [server.read() for _ in range(1_000)]
        sender.join()
        failed = sum(b'"isError":true' in answer or b"The end of" not in answer for answer in answers)
        megabytes, seconds = server.megabytes(), server.cpu_seconds()
        server.kill()
    return [
        Outcome("1,000 pages at once, failures", str(failed), "0", failed == 0),
        Outcome("  CPU time", f"{seconds:.1f} s", "4.2 s", seconds <= 4.2),
        Outcome("  connections to the host", str(pages.most), "6", pages.most <= 6),
        Outcome("  memory", f"{megabytes:.0f} MB", "107 MB", megabytes <= 107),
    ]


def kills() -> list[Outcome]:
    """Kill the server while it writes, and count the pages that it returned and that are not stored completely."""
    rng = random.Random(2)
    answered: list[int] = []
    with tempfile.TemporaryDirectory() as name, site() as pages:
        folder = Path(name)
        settings(folder, pages.port)
        for turn in range(KILLS):
            server = Server(folder)
            for number in range(turn * 150, (turn + 1) * 150):
                server.write(request(number, pages.port))
            for _ in range(rng.randint(20, 110)):
                answer = json.loads(server.read())
                if not answer["result"].get("isError"):
                    answered.append(answer["id"])
            server.kill()
        with sqlite3.connect(folder / "cache" / FILE_NAME) as connection:
            is_sound = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
        store = Store(folder / "cache")
        found = [store.get(f"http://127.0.0.1:{pages.port}/p{number}.md") for number in answered]
        store.close()
        ends = [f"The end of /p{number}.md" for number in answered]
        lost = sum(
            document is None or not document.text.rstrip().endswith(end)
            for document, end in zip(found, ends, strict=True)
        )
    return [
        Outcome(f"{KILLS} kills, {len(answered)} pages: lost", str(lost), "0", lost == 0),
        Outcome("  the file is sound", "yes" if is_sound else "no", "yes", is_sound),
    ]


def main() -> int:
    """Measure, print the rows, and return the exit code."""
    code = 0
    with tempfile.TemporaryDirectory() as name:
        for outcome in (*at_once(), *kills(), *search(Path(name))):
            code |= not outcome.is_met
            verdict = "ok" if outcome.is_met else "MISSED"
            print(f"  {outcome.name:42} {outcome.value:>9} {outcome.target:>9} {verdict}", flush=True)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
