"""`mooring serve`: finds the server, serves it, and says what it cannot find."""

import json
import logging
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.standing_in import standing_in
from mooring.cli import _serve
from mooring.errors import UsageError

SOURCE = Path(__file__).parent.parent.parent.parent / "src"
CODE = """
from mooring.server import Server
app = Server("app")
@app.tool
async def hello() -> str:
    return "hello"
"""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Paths, modules and log handlers are the process's: put back what was there."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules, root = set(sys.modules), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    root.handlers[:] = handlers
    root.setLevel(level)


def parsed(*words: str) -> Namespace:
    parser = ArgumentParser()
    _serve.add_arguments(parser)
    return parser.parse_args(words)


def served(tmp_path: Path, target: str) -> int:
    (tmp_path / "in").write_bytes(b"")
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        standing_in(stdin.fileno(), stdout.fileno()),
    ):
        return _serve.run(parsed(target))


@pytest.mark.parametrize("name", ["", ":app"])
def test_a_file_is_served(tmp_path: Path, name: str) -> None:
    (tmp_path / "serving_app.py").write_text(CODE)
    assert served(tmp_path, f"{tmp_path / 'serving_app.py'}{name}") == 0


def test_a_module_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "serving_module.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    assert served(tmp_path, "serving_module:app") == 0


@pytest.mark.parametrize("target", ["nowhere.py", "nowhere_module", "nowhere_module.inside:app"])
def test_what_is_not_there_is_named(target: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        served(tmp_path, target)


def test_a_module_that_misses_another_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "serving_broken.py").write_text("import nowhere_at_all")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        served(tmp_path, "serving_broken")


def test_logs_are_json_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _serve._log_to_stderr("info", "json")
    try:
        raise ValueError("x")
    except ValueError:
        logging.getLogger("mooring.server").exception("failed")
    logging.getLogger("mooring.server").info("fine")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["message"]) == ("error", "failed")
    assert "ValueError: x" in first["exception"]
    assert (second["level"], second["logger"]) == ("info", "mooring.server")
    assert "exception" not in second


def test_logs_are_text_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    _serve._log_to_stderr("warning", "text")
    logging.getLogger("mooring.server").info("not told")
    logging.getLogger("mooring.server").warning("told")
    assert capsys.readouterr().err == "WARNING mooring.server: told\n"


def test_a_whole_process_answers(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CODE)
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "hello",
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    }
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        "from argparse import ArgumentParser\nfrom mooring.cli import _serve\n"
        "parser = ArgumentParser(); _serve.add_arguments(parser)\n"
        "sys.exit(_serve.run(parser.parse_args()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "app.py")],
        input=json.dumps(request).encode(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "hello"
