"""Our client with the reference servers git, time, fetch and filesystem."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from interop.known_servers import BY_SERVER, FILE_TEXT, make_repository
from interop.peers import BY_NAME, node
from jackstay.client import connect
from jackstay.transport import stdio


class _Page(BaseHTTPRequestHandler):
    """Serves one page of plain text, and no robots.txt."""

    def do_GET(self) -> None:
        is_page = self.path == "/tide"
        body = FILE_TEXT.encode() if is_page else b""
        self.send_response(200 if is_page else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def _pages() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


async def test_git_commits(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    (repository / "second.txt").write_text("low water at six\n", encoding="utf-8")
    for key, value in (
        ("user.name", "Ada"),
        ("user.email", "ada@example.invalid"),
        ("commit.gpgsign", "false"),
    ):
        subprocess.run(["git", "-C", repository, "config", key, value], check=True)
    async with connect(BY_SERVER["git"].target(tmp_path)) as client:
        repository_argument = {"repo_path": str(repository)}
        assert "second.txt" in (await client.tools.call("git_status", repository_argument, raise_on_error=False)).text
        await client.tools.call("git_add", {**repository_argument, "files": ["second.txt"]}, raise_on_error=False)
        committed = await client.tools.call(
            "git_commit", {**repository_argument, "message": "Second entry"}, raise_on_error=False
        )
        assert not committed.is_error
        shown = await client.tools.call("git_show", {**repository_argument, "revision": "HEAD"}, raise_on_error=False)
        assert "low water at six" in shown.text
    subjects = subprocess.run(
        ["git", "-C", repository, "log", "--format=%s"], check=True, capture_output=True, text=True
    )
    assert subjects.stdout.split("\n")[:2] == ["Second entry", "First entry"]


async def test_git_rejects_other_repositories(tmp_path: Path) -> None:
    async with connect(BY_SERVER["git"].target(tmp_path)) as client:
        rejected = await client.tools.call("git_status", {"repo_path": str(tmp_path)}, raise_on_error=False)
        assert rejected.is_error


async def test_time_reports_an_invalid_zone(tmp_path: Path) -> None:
    async with connect(BY_SERVER["time"].target(tmp_path)) as client:
        converted = await client.tools.call("convert_time", BY_SERVER["time"].arguments(tmp_path), raise_on_error=False)
        assert json.loads(converted.text)["time_difference"] == "+9.0h"
        rejected = await client.tools.call("get_current_time", {"timezone": "Sea/Atlantis"}, raise_on_error=False)
        assert rejected.is_error
        assert "Sea/Atlantis" in rejected.error_text


async def test_fetch_rejects_a_loopback_address_with_a_tool_error(tmp_path: Path) -> None:
    with _pages() as address:
        async with connect(BY_SERVER["fetch"].target(tmp_path)) as client:
            rejected = await client.tools.call("fetch", {"url": f"{address}/tide"}, raise_on_error=False)
            assert rejected.is_error
            assert "127.0.0.1" in rejected.error_text


async def test_fetch_reads_a_local_page_if_loopback_is_allowed() -> None:
    peer = BY_NAME["fetch"]
    with _pages() as address:
        async with connect(stdio(peer.home / peer.program, "--allow-private-ips")) as client:
            page = await client.tools.call("fetch", {"url": f"{address}/tide"}, raise_on_error=False)
            assert FILE_TEXT.strip() in page.text
            prompt = await client.prompts.get("fetch", {"url": f"{address}/tide"})
            assert FILE_TEXT.strip() in prompt.messages[0].content.text


async def test_filesystem_writes_files_only_in_its_directory(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    async with connect(BY_SERVER["filesystem"].target(inside)) as client:
        written = await client.tools.call(
            "write_file", {"path": str(inside / "new.txt"), "content": "ebb"}, raise_on_error=False
        )
        assert not written.is_error
        assert (inside / "new.txt").read_text(encoding="utf-8") == "ebb"
        listed = await client.tools.call(
            "list_directory", {"path": str(inside)}, check_output=True, raise_on_error=False
        )
        assert "[FILE] new.txt" in listed.text
        rejected = await client.tools.call(
            "read_text_file", {"path": str(tmp_path / "outside.txt")}, raise_on_error=False
        )
        assert rejected.is_error


async def test_filesystem_gets_its_directories_from_the_roots_of_the_client(tmp_path: Path) -> None:
    peer = BY_NAME["filesystem"]
    (tmp_path / "root").mkdir()
    (tmp_path / "default").mkdir()
    (tmp_path / "root" / "log.txt").write_text(FILE_TEXT, encoding="utf-8")
    client = connect(stdio(node(), peer.home / peer.program, tmp_path / "default"))
    client.roots.set([(tmp_path / "root").as_uri()])
    async with client:
        # The server requests the roots after `initialized`, concurrently with calls, so the test polls it.
        while (
            str(tmp_path / "root")
            not in (await client.tools.call("list_allowed_directories", raise_on_error=False)).text
        ):
            pass
        read = await client.tools.call(
            "read_text_file", {"path": str(tmp_path / "root" / "log.txt")}, raise_on_error=False
        )
        assert read.text == FILE_TEXT
