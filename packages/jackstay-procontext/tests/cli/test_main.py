"""The command and its subcommands, over a folder of documents and without a network."""

import asyncio
import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jackstay import __version__
from jackstay.shell import StatusLine
from procontext.app import Application
from procontext.cli import _main, main
from procontext.cli._application import ADVICE
from procontext.cli._commands import COMMANDS, DEFAULT, load
from procontext.cli._fetch import _left_out
from procontext.cli._parsers import EXIT_CODES, command_parser
from procontext.errors import CATALOGUE
from procontext.models import FetchReport
from procontext.registry import BUNDLED
from scripted.documents import ScriptedDocuments

SETTINGS = """
sources:
  - {id: demo, name: Demo SDK, packages: {pypi: [demo-sdk]}, path: ./docs}
fetcher: {offline: true}
output: {max_chars: 8000}
"""
PAGE = "https://folder.procontext.invalid/demo/guide.md"
GUIDE = "# Guide\n\nHello \x1b[31mred\x1b[0m.\n\n## Install\n\npip install demo-sdk\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in a folder with settings. Return the exit code, standard output and standard error."""
    (tmp_path / "procontext.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(GUIDE)
    long = "\n".join(f"line {number} " + "x" * 90 for number in range(200))
    (tmp_path / "docs" / "long.md").write_text(f"# Long\n\n{long}\n")
    monkeypatch.chdir(tmp_path)
    for kind in ("CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    for name in [name for name in os.environ if name.startswith("PROCONTEXT__")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PROCONTEXT_CONFIG", "procontext.yaml")

    def run_main(*argv: str) -> tuple[int, str, str]:
        code = main(list(argv))
        out, err = capsys.readouterr()
        return code, out, err

    return run_main


# --- command line -----------------------------------------------------------------------------------------------------


def test_help_lists_every_command(run: Run) -> None:
    for argument in ("--help", "help"):
        code, out, _ = run(argument)
        assert code == 0
        assert all(f"  {row.name}" in out and row.summary in out for row in COMMANDS)


def test_help_fits_a_screen_and_has_examples(
    run: Run, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """The screen has 80 columns and 24 lines."""
    monkeypatch.setenv("COLUMNS", "80")
    for argv in (["--help"], *([row.name, "--help"] for row in COMMANDS)):
        with subtests.test(argv=argv):
            code, out, _ = run(*argv)
            assert code == 0
            assert len(out.splitlines()) <= 24
            assert [line for line in out.splitlines() if len(line) > 80] == []
            assert "\nexamples:\n  procontext " in out
            assert out.endswith(f"{EXIT_CODES}\n")


def test_examples_can_be_parsed(subtests: pytest.Subtests) -> None:
    for row in COMMANDS:
        for example in row.examples:
            with subtests.test(row=row.name, example=example):
                argv = shlex.split(example, comments=True)
                redirect = next((index for index, argument in enumerate(argv) if argument.startswith(">")), None)
                assert command_parser(row, load(row)).parse_args(argv[:redirect])


def test_help_for_one_command(run: Run) -> None:
    assert run("help", "docs") == run("docs", "--help")


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"procontext {__version__}\n", "")


def test_unknown_command(run: Run) -> None:
    """The exit code is 2."""
    code, _, err = run("nonsense")
    assert code == 2
    assert "unknown command 'nonsense'; valid commands: serve, resolve" in err
    assert "unknown command 'Doc'; did you mean 'docs'?" in run("Doc")[2]


def test_wrong_arguments_print_usage(run: Run) -> None:
    """The exit code is 2."""
    for argv in (["read"], ["docs", "demo", "--offset", "0"], ["docs", "demo", "--offset", "x"]):
        code, _, err = run(*argv)
        assert code == 2
        assert "usage: procontext" in err


def test_every_command_has_its_module() -> None:
    """The rows name modules that provide both functions."""
    for row in COMMANDS:
        command = load(row)
        assert callable(command.add_arguments)
        assert callable(command.run)
    assert DEFAULT in [row.name for row in COMMANDS]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_a_command_cleanly(
    number: signal.Signals, code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache is closed, the progress bar is cleared, and there is no traceback."""
    closed: list[bool] = []

    class Interrupted(ScriptedDocuments):
        async def prefetch(self, library: Any, progress: Any = None) -> FetchReport:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
            raise AssertionError("never set")

    async def open_documents(self: Application) -> ScriptedDocuments:
        return Interrupted()

    async def close(self: Application) -> None:
        closed.append(True)

    monkeypatch.setattr(Application, "_open", open_documents)
    monkeypatch.setattr(Application, "close", close)
    leave = StatusLine.__exit__

    def cleared(self: StatusLine, *ended: object) -> None:
        leave(self, *ended)
        closed.append(False)

    monkeypatch.setattr(StatusLine, "__exit__", cleared)
    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert run("fetch", "demo") == (code, "", "")
    finally:
        signal.signal(number, before)
    assert closed[-2:] == [False, True]


def test_broken_pipe_is_silent(run: Run, tmp_path: Path) -> None:
    """As in `procontext docs X | head -1`."""
    source = str(Path(_main.__file__).parents[2])
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "procontext", "docs", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=240,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("inherited", "number", "code"),
    [
        ("default_int_handler", signal.SIGINT, 130),
        ("default_int_handler", signal.SIGTERM, 0),
        ("SIG_IGN", signal.SIGTERM, 0),
    ],
)
def test_signal_ends_the_server_cleanly(
    inherited: str, number: signal.Signals, code: int, run: Run, tmp_path: Path
) -> None:
    """A shell script starts background processes with SIGINT ignored. Standard output stays empty."""
    program = (
        f"import signal, sys; signal.signal(signal.SIGINT, signal.{inherited}); sys.argv[0] = 'procontext';"
        "from procontext.cli import main; sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(_main.__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()  # the server is ready
        process.send_signal(number)
        out, err = process.communicate(timeout=240)
    assert (process.returncode, out, "Traceback" in err) == (code, "", False)


def test_run_as_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command is `python -m procontext`."""
    monkeypatch.setattr(sys, "argv", ["procontext", "--version"])
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("procontext", run_name="__main__")
    signal.signal(signal.SIGINT, before)  # the command installs a handler for its process
    assert ended.value.code == 0
    assert __version__ in capsys.readouterr().out


def test_wrong_settings_are_rejected(run: Run, tmp_path: Path) -> None:
    """The exit code is 2."""
    (tmp_path / "procontext.yaml").write_text("casche: {}")
    for argv in (["resolve", "x"], ["serve"], ["--offline"]):
        code, _, err = run(*argv)
        assert code == 2
        assert "casche: unknown setting; did you mean 'cache'?" in err


# --- tools ------------------------------------------------------------------------------------------------------------


def test_resolve_prints_one_row_per_match(run: Run) -> None:
    """The best match is first. The exit code for an unknown name is 1."""
    assert run("resolve", "demo-sdk>=2") == (
        0,
        "LIBRARY  NAME      MATCH           DOCUMENTATION\ndemo     Demo SDK  package_name 1  -\n",
        "",
    )
    code, out, _ = run("resolve", "web3")
    assert (code, len(out.splitlines())) == (0, 3)
    code, out, err = run("resolve", "xyzzy-nonexistent")
    assert (code, out) == (1, "")
    assert "no library found for 'xyzzy-nonexistent'" in err


def test_resolve_json_is_the_tool_result(run: Run) -> None:
    code, out, _ = run("resolve", "fasapi", "--json")
    assert code == 0
    assert json.loads(out)["matches"][0]["relevance"] == 0.92
    code, out, _ = run("resolve", "xyzzy-nonexistent", "--json")
    assert (code, json.loads(out)) == (1, {"matches": []})


def test_docs_prints_contents_and_next_offset(run: Run) -> None:
    """Any exact name of the library is accepted."""
    code, out, err = run("docs", "demo-sdk")
    assert (code, err) == (0, "")
    assert f"[Guide]({PAGE})" in out
    code, out, err = run("docs", "demo", "--limit", "1")
    assert out == "# Demo SDK\n"
    assert "continue with --offset 2" in err
    assert json.loads(run("docs", "demo", "--json")[1])["source"] == "folder"


def test_unknown_library_suggests_near_matches(run: Run) -> None:
    """A near match is never used without confirmation."""
    code, out, err = run("docs", "fastap")
    assert (code, out) == (1, "")
    assert "Library 'fastap' not found in registry." in err
    assert "Did you mean 'fastapi'?" in err
    assert "procontext resolve NAME" in run("docs", "xyzzy-nonexistent")[2]
    assert "Did you mean 'web3-js', 'web3-py'?" in run("docs", "web3")[2]


def test_read_prints_a_page_a_section_or_its_headings(run: Run) -> None:
    """Control characters are replaced."""
    code, out, _ = run("read", PAGE)
    assert code == 0
    assert "Hello \\x1b[31mred\\x1b[0m." in out
    assert run("read", PAGE, "--heading", "install")[1] == "## Install\n\npip install demo-sdk\n"
    assert run("read", PAGE, "--headings")[1] == "1: # Guide\n5: ## Install\n"
    assert json.loads(run("read", PAGE, "--json", "--offset", "5")[1])["offset"] == 5
    code, _, err = run("read", PAGE.replace("guide", "long"))
    assert "continue with --offset" in err


def test_read_and_docs_refresh_what_is_stale(run: Run, tmp_path: Path) -> None:
    """A command ends, so that a refresh in the background would never end."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            del self.headers["If-Modified-Since"]  # it has whole seconds, and the files change within one
            super().do_GET()

    docs = tmp_path / "docs"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(docs)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        host = f"127.0.0.1:{server.server_port}"
        (tmp_path / "procontext.yaml").write_text(
            f'sources: [{{id: demo, llms_txt_url: "http://{host}/llms.txt"}}]\ncache: {{ttl_hours: 0.0000001}}\n'
            f'fetcher: {{allowed_private_hosts: ["{host}"], background_pages: 0}}\n'
        )
        for content in ("first", "second"):
            (docs / "llms.txt").write_text(f"# {content}\n\n- [Page](page.md)\n")
            (docs / "page.md").write_text(f"# Page\n\nThe {content} text.\n")
            assert f"# {content}\n" in run("docs", "demo")[1]
            assert f"The {content} text." in run("read", f"http://{host}/page.md")[1]
    finally:
        server.shutdown()
        server.server_close()


def test_failure_as_text_and_as_json(run: Run) -> None:
    code, out, err = run("read", "https://evil.example/x")
    assert (code, out) == (1, "")
    assert "URL 'https://evil.example/x' is not permitted." in err
    code, out, err = run("read", "https://evil.example/x", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "URL_NOT_ALLOWED"
    code, out, _ = run("read", "ftp://docs.python.org/x", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "INVALID_INPUT")


def test_hints_name_commands_not_tools(run: Run) -> None:
    """Every error code has a hint for the command line."""
    assert set(ADVICE) | {"LIBRARY_NOT_FOUND"} == set(CATALOGUE)
    assert not [hint for hint in ADVICE.values() if "_page" in hint or "_docs" in hint]
    assert "To list their pages: procontext docs LIBRARY" in run("read", "https://evil.example/x")[2]
    assert "without --offline" in run("docs", "fastapi", "--offline")[2]
    assert "To check the network: procontext doctor" in run("docs", "fastapi")[2]  # offline in the settings
    assert "procontext COMMAND --help" in run("read", "ftp://docs.python.org/x")[2]


def test_fetch_then_search_finds_sections_offline(run: Run) -> None:
    code, out, _ = run("fetch", "demo-sdk")
    assert code == 0
    assert "demo: 2 pages are in the cache" in out
    assert json.loads(run("fetch", "demo", "--json")[1]) == {"demo": {"pages": 2}}
    code, out, _ = run("search", "demo", "pip", "install")
    assert code == 0
    assert out.startswith("Guide > Install\n")
    assert PAGE in out
    assert json.loads(run("search", "demo", "pip", "--json")[1])["hits"]
    code, out, err = run("search", "demo", "xyzzy")
    assert (code, out) == (1, "")
    assert "procontext fetch demo" in err


def test_fetch_reports_pages_that_were_not_stored(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a user could go offline with an empty cache."""
    stored: list[bool] = []

    def contains(_: object, key: str) -> bool:
        stored.append(len(stored) % 2 == 1)
        return stored[-1]

    monkeypatch.setattr("procontext.cache._store.Store.contains", contains)
    assert run("fetch", "demo")[:2] == (0, "demo: 1 page is in the cache, 1 could not be stored\n")
    assert json.loads(run("fetch", "demo", "--json")[1]) == {"demo": {"pages": 1, "left_out": 1}}
    monkeypatch.setattr("procontext.cache._store.Store.contains", lambda *_: False)
    code, out, err = run("fetch", "demo")
    assert (code, out) == (1, "")
    assert "none of the 2 pages of demo could be stored" in err
    assert "procontext doctor" in err


def test_fetch_continues_after_a_failure(run: Run) -> None:
    """The exit code is 1, and both results are printed."""
    code, out, err = run("fetch", "fastapi", "demo")
    assert code == 1
    assert "demo: 2 pages" in out
    assert "'fastapi' could not be fetched" in err
    code, out, _ = run("fetch", "fastapi", "demo", "--json")
    assert set(json.loads(out)) == {"fastapi", "demo"}


def test_search_shows_a_section_without_a_heading(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is before the first heading of the page."""
    from procontext.models import Hit

    documents = ScriptedDocuments()
    documents.hits["demo"] = [Hit("https://x/y", 1, (), "before", 1.0)]

    async def open_documents(self: Application) -> ScriptedDocuments:
        return documents

    monkeypatch.setattr(Application, "_open", open_documents)
    assert run("search", "demo", "x")[1].startswith("(no heading)\n")


# --- registry and server ----------------------------------------------------------------------------------------------


def test_setup_shows_the_registry_in_use(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("setup")
    assert code == 0
    assert str(BUNDLED) in out
    assert "No registry.url is set" in out
    assert json.loads(run("setup", "--json")[1])["updated"] is False
    (tmp_path / "registry.json").write_text('{"version": "1", "libraries": [{"id": "a", "name": "A"}]}')
    monkeypatch.setenv("PROCONTEXT__REGISTRY__PATH", "registry.json")
    assert "registry.path names this file" in run("setup")[1]


def test_setup_adds_the_server_to_a_host_and_removes_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".claude.json"
    path.write_text('{"theme": "dark"}')
    assert "nothing was written" in run("setup", "claude-code", "--dry-run")[1]
    code, out, _ = run("setup", "claude-code", "--config", "my.yaml")
    assert (code, '+    "procontext": {' in out, f"the previous file: {path}.jackstay-backup" in out) == (0, True, True)
    server = json.loads(path.read_text())["mcpServers"]["procontext"]
    assert server["command"] == sys.executable
    assert server["args"] == ["-m", "procontext", "serve", "--config", str(Path("my.yaml").absolute())]
    assert run("setup", "claude-code")[0] == 0  # replaces it
    assert run("setup", "claude-code", "--undo")[0] == 0
    assert json.loads(path.read_text()) == {"theme": "dark", "mcpServers": {}}
    code, _, err = run("setup", "claude-code", "--undo")
    assert (code, "has no server 'procontext'" in err) == (2, True)
    code, _, err = run("setup", "claud-code")
    assert (code, "did you mean 'claude-code'?" in err) == (2, True)


def test_setup_prints_the_configuration(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    code, out, err = run("setup", "cursor", "--print-config")
    assert code == 0
    assert json.loads(out)["mcpServers"]["procontext"]["args"] == ["-m", "procontext"]
    assert err == f"For Cursor, in {tmp_path / '.cursor/mcp.json'}:\n"
    # A host that only starts programs reaches a URL through our proxy.
    words = json.loads(run("setup", "claude-desktop", "--print-config", "--url", "http://127.0.0.1:8000/mcp")[1])
    assert words["mcpServers"]["procontext"]["args"] == ["-m", "jackstay", "proxy", "http://127.0.0.1:8000/mcp"]
    assert not (tmp_path / ".cursor").exists()


def test_setup_downloads_newest_registry(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [True, False]

    async def refresh(self: Application) -> bool:
        return results.pop(0)

    monkeypatch.setattr(Application, "refresh", refresh)
    monkeypatch.setenv("PROCONTEXT__REGISTRY__URL", "https://registry.example.com/latest.json")
    assert "just downloaded and verified" in run("setup")[1]
    assert "No newer registry at https://registry.example.com/latest.json" in run("setup")[1]


def test_setup_reports_failed_download(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings file sets `fetcher.offline`."""
    monkeypatch.setenv("PROCONTEXT__REGISTRY__URL", "https://registry.example.com/latest.json")
    code, _, err = run("setup")
    assert code == 1
    assert "https://registry.example.com/latest.json: cannot fetch" in err
    assert "procontext doctor" in err


def test_serve_options_override_settings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` is the default command."""
    from procontext import app

    seen: list[Any] = []
    monkeypatch.setattr(app, "serve", lambda config, files: seen.append(config) or 0)
    assert run()[0] == 0
    assert run("serve", "--transport", "http", "--port", "0", "--host", "::1", "--offline")[0] == 0
    assert run("--offline")[0] == 0
    assert seen[0].server.transport == "stdio"
    assert (seen[1].server.transport, seen[1].server.port, seen[1].server.host) == ("http", 0, "::1")
    assert seen[2].fetcher.offline
    for port in ("99999", "-1", "x"):
        code, _, err = run("serve", "--port", port)
        assert code == 2
        assert f"--port: must be a number from 0 to 65535, not {port!r}" in err
    code, _, err = run("serve", "--port", "8080")
    assert (code, err) == (2, "procontext: --port: has no effect with the stdio transport; add --transport http\n")


def test_serve_reports_startup_errors(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1."""
    from jackstay.errors import UsageError
    from procontext import app

    def refuse(config: object, files: object) -> int:
        raise UsageError("HTTP needs the extra `http`")

    monkeypatch.setattr(app, "serve", refuse)
    code, _, err = run("serve", "--transport", "http")
    assert code == 1
    assert "HTTP needs the extra" in err


def test_search_without_hits_reports_page_count(run: Run) -> None:
    """Cached pages without a match, and no cached pages, are reported differently."""
    code, _, err = run("search", "fastapi", "nonexistentword", "--offline")
    assert code == 1
    assert "no pages of FastAPI are in the cache" in err
    assert "procontext fetch fastapi" in err
    code, _, err = run("search", "demo", "nonexistentword")  # a folder, which is always indexed
    assert code == 1
    assert "no match in the 2 pages of Demo SDK in the cache" in err


def test_fetch_reports_what_it_left_out() -> None:
    assert _left_out(FetchReport(stored=3, total=3)) == ""
    report = FetchReport(stored=3, total=10, excluded=2, beyond_limit=4)
    assert _left_out(report) == ", 1 could not be stored, 2 are excluded by robots.txt, 4 are beyond the limit"
