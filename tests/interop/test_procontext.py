"""The documentation server with the official SDK's clients, 1.x and 2.x, both eras, over stdio and HTTP.

Checked are every tool, the error objects, and the list of libraries in a session.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import procontext
from interop.peers import BY_NAME

PROGRAM = Path(__file__).parent / "clients" / "docs.py"
SETTINGS = "sources: [{id: ours, name: Our SDK, packages: {pypi: [our-sdk]}, path: ./docs}]\nfetcher: {offline: true}\n"
PAGE = "https://folder.procontext.invalid/ours/guide.md"

# (peer, mode, negotiated revision)
ROWS = (
    ("sdk1", "session", "2025-11-25"),
    ("sdk2", "legacy", "2025-11-25"),
    ("sdk2", "auto", "2026-07-28"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with settings and a source."""
    (tmp_path / "procontext.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\n## Install\n\npip install our-sdk\n")
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    directories = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "DATA", "CONFIG")}
    assert procontext.__file__ is not None
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROCONTEXT__")}
    variables = {"PYTHONPATH": str(Path(procontext.__file__).parents[1]), "PROCONTEXT_CONFIG": "procontext.yaml"}
    return {**kept, **variables, **directories, **more}


def run_client(peer: str, mode: str, target: str, folder: Path) -> dict[str, Any]:
    """Run the client and return its results. PYTHONPATH is for the server that the client starts."""
    done = subprocess.run(
        [str(BY_NAME[peer].python), str(PROGRAM), mode, target, PAGE],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


@contextmanager
def listening(folder: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "procontext", "serve", "--transport", "http", "--port", "0"],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield next(found[0] for line in process.stderr if (found := re.search(r"http://\S+/mcp", line)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stderr.close()


def check(seen: dict[str, Any], revision: str) -> None:
    assert seen["revision"] == revision
    assert len(seen["instructions"]) < 2000
    assert seen["tools"] == ["resolve_library", "get_library_docs", "read_page", "search_docs"]
    answers = [answer[0] for answer in seen["answers"]]
    assert [answer[1] for answer in seen["answers"]] == [False] * 6 + [True] * 4
    # Tables of contents and pages are not sent twice.
    assert [answer[2] for answer in seen["answers"]] == [True, True, True, False, False, True] + [False] * 4
    assert answers[0]["matches"][0]["library_id"] == "langchain"
    assert answers[1]["matches"][0]["relevance"] == 0.92
    assert answers[2] == {"matches": []}
    assert PAGE in answers[3]["content"]
    assert (answers[4]["content"], answers[4]["headings"]) == ("## Install", "1: # Guide\n3: ## Install")
    assert answers[5]["hits"][0]["url"] == f"{PAGE}#install"
    codes = [answer["error"]["code"] for answer in answers[6:]]
    assert codes == ["INVALID_INPUT", "LIBRARY_NOT_FOUND", "URL_NOT_ALLOWED", "PAGE_NOT_FOUND"]
    if revision == "2026-07-28":
        assert seen["resources"] == []
    else:
        assert seen["resources"] == ["procontext://session/libraries"]
        ids = [row["library_id"] for row in seen["session"]["resolved_libraries"]]
        assert ids == ["langchain", "fastapi"]


@pytest.mark.parametrize(("peer", "mode", "revision"), ROWS)
def test_the_official_client_over_stdio(peer: str, mode: str, revision: str, folder: Path) -> None:
    check(run_client(peer, mode, sys.executable, folder), revision)


@pytest.mark.parametrize(("peer", "mode", "revision"), ROWS)
def test_the_official_client_over_http(peer: str, mode: str, revision: str, folder: Path) -> None:
    with listening(folder) as url:
        check(run_client(peer, mode, url, folder), revision)
