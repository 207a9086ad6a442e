"""The command: its manners, its default, and every sub-command over a folder of documents and no network."""

import asyncio
import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jackstay import __version__
from procontext.app import Application
from procontext.cli import _main, main
from procontext.cli._asking import ADVICE
from procontext.cli._commands import COMMANDS, DEFAULT, CommandRow, load
from procontext.cli._parsers import EXIT_CODES, parser_of
from procontext.cli._screen import ProgressBar
from procontext.errors import CATALOGUE
from procontext.registry import BUNDLED
from scripted.documents import ScriptedDocuments

SETTINGS = """
sources:
  - {id: ours, name: Our SDK, packages: {pypi: [our-sdk]}, path: ./docs}
fetcher: {offline: true}
output: {max_chars: 8000}
"""
PAGE = "https://folder.procontext.invalid/ours/guide.md"
GUIDE = "# Guide\n\nHello \x1b[31mred\x1b[0m.\n\n## Install\n\npip install our-sdk\n"

Typing = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typing:
    """Type a command in a folder with settings; the exit code, standard output and standard error."""
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

    def type_it(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return type_it


# --- manners ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["help"]], ids=str)
def test_help_lists_every_command(words: list[str], typed: Typing) -> None:
    """And loads none."""
    code, out, _ = typed(*words)
    assert code == 0
    assert all(f"  {row.name}" in out and row.summary in out for row in COMMANDS)


@pytest.mark.parametrize("words", [["--help"], *([row.name, "--help"] for row in COMMANDS)], ids=str)
def test_help_fits_a_screen_and_shows_an_example(
    words: list[str], typed: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 columns, 24 lines: who asks for help should not have to scroll."""
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = typed(*words)
    assert code == 0
    assert len(out.splitlines()) <= 24
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert "\nexamples:\n  procontext " in out
    assert out.endswith(f"{EXIT_CODES}\n")


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_an_example_is_understood(row: CommandRow) -> None:
    """Each could be typed as it stands."""
    for example in row.examples:
        typed = shlex.split(example, comments=True)
        words = typed[: next((place for place, word in enumerate(typed) if word.startswith(">")), None)]
        assert parser_of(row, load(row)).parse_args(words)


def test_help_explains_one_command(typed: Typing) -> None:
    assert typed("help", "docs") == typed("docs", "--help")


def test_the_version_is_told(typed: Typing) -> None:
    """Reference, section 8."""
    assert typed("--version") == (0, f"procontext {__version__}\n", "")


def test_an_unknown_command_is_refused_with_the_ones_there_are(typed: Typing) -> None:
    """Exit code 2."""
    code, _, err = typed("nonsense")
    assert code == 2
    assert "there is no command 'nonsense'; there are serve, resolve" in err
    assert "there is no command 'Doc'; did you mean docs? See procontext --help" in typed("Doc")[2]


@pytest.mark.parametrize(
    "words", [["read"], ["docs", "ours", "--offset", "0"], ["docs", "ours", "--offset", "x"]]
)
def test_wrong_arguments_are_told_with_the_usage(words: list[str], typed: Typing) -> None:
    """Exit code 2."""
    code, _, err = typed(*words)
    assert code == 2
    assert "usage: procontext" in err


def test_every_command_has_its_file() -> None:
    """The rows name files that provide both functions."""
    for row in COMMANDS:
        command = load(row)
        assert callable(command.add_arguments)
        assert callable(command.run)
    assert DEFAULT in [row.name for row in COMMANDS]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_what_is_asked_in_order(
    number: signal.Signals, code: int, typed: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache is closed, the line of the progress is cleared, and there is no traceback."""
    closed: list[bool] = []

    class Interrupted(ScriptedDocuments):
        async def prefetch(self, library: Any, progress: Any = None) -> int:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
            raise AssertionError("never set")

    async def open_them(self: Application) -> ScriptedDocuments:
        return Interrupted()

    async def close(self: Application) -> None:
        closed.append(True)

    monkeypatch.setattr(Application, "_open", open_them)
    monkeypatch.setattr(Application, "close", close)
    monkeypatch.setattr(ProgressBar, "close", lambda self: closed.append(False))
    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert typed("fetch", "ours") == (code, "", "")
    finally:
        signal.signal(number, before)
    assert closed == [False, True]


def test_a_reader_that_goes_away_is_met_quietly(typed: Typing, tmp_path: Path) -> None:
    """`procontext docs X | head -1`, in a real pipe."""
    source = str(Path(_main.__file__).parents[2])
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "procontext", "docs", "ours"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=50,
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
def test_a_signal_ends_the_server_in_order(
    inherited: str, number: signal.Signals, code: int, typed: Typing, tmp_path: Path
) -> None:
    """Also in the background of a script, whose shell has made it ignore Ctrl-C; nothing more is on standard output."""
    own = (
        f"import signal, sys; signal.signal(signal.SIGINT, signal.{inherited}); sys.argv[0] = 'procontext';"
        "from procontext.cli import main; sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", own],
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
        assert process.stdout.readline()  # it serves
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, "Traceback" in err) == (code, "", False)


def test_the_package_runs_as_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m procontext`."""
    monkeypatch.setattr(sys, "argv", ["procontext", "--version"])
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("procontext", run_name="__main__")
    signal.signal(signal.SIGINT, before)  # that process was the command's own
    assert ended.value.code == 0
    assert __version__ in capsys.readouterr().out


def test_wrong_settings_are_refused_by_name(typed: Typing, tmp_path: Path) -> None:
    """Exit code 2, and one line."""
    (tmp_path / "procontext.yaml").write_text("casche: {}")
    for words in (["resolve", "x"], ["serve"], ["--offline"]):
        code, _, err = typed(*words)
        assert code == 2
        assert "casche: is no setting" in err


# --- asking -----------------------------------------------------------------------------------------------------------


def test_resolve_prints_a_row_a_match(typed: Typing) -> None:
    """Best first; a name that is not known is exit code 1."""
    assert typed("resolve", "our-sdk>=2") == (0, "ours  Our SDK  package_name 1  -\n", "")
    code, out, _ = typed("resolve", "web3")
    assert (code, len(out.splitlines())) == (0, 2)
    code, out, err = typed("resolve", "xyzzy-nonexistent")
    assert (code, out) == (1, "")
    assert "'xyzzy-nonexistent' is not a library that is known here" in err


def test_resolve_as_json_is_the_tools_answer(typed: Typing) -> None:
    """Reference 2.2."""
    code, out, _ = typed("resolve", "fasapi", "--json")
    assert code == 0
    assert json.loads(out)["matches"][0]["relevance"] == 0.92
    code, out, _ = typed("resolve", "xyzzy-nonexistent", "--json")
    assert (code, json.loads(out)) == (1, {"matches": []})


def test_docs_prints_the_table_of_contents_and_where_it_goes_on(typed: Typing) -> None:
    """By any exact name of the library."""
    code, out, err = typed("docs", "our-sdk")
    assert (code, err) == (0, "")
    assert f"[Guide]({PAGE})" in out
    code, out, err = typed("docs", "ours", "--limit", "1")
    assert out == "# Our SDK\n"
    assert "go on with --offset 2" in err
    assert json.loads(typed("docs", "ours", "--json")[1])["source"] == "folder"


def test_a_library_that_is_not_known_is_told_with_what_was_perhaps_meant(typed: Typing) -> None:
    """Never a guess: a person decides."""
    code, out, err = typed("docs", "fastap")
    assert (code, out) == (1, "")
    assert "Library 'fastap' not found in registry." in err
    assert "Did you mean fastapi?" in err
    assert "finds libraries by other names" in typed("docs", "xyzzy-nonexistent")[2]
    assert "Did you mean web3-js, web3-py?" in typed("docs", "web3")[2]


def test_read_prints_a_page_a_section_or_its_headings(typed: Typing) -> None:
    """What would steer a terminal is replaced."""
    code, out, _ = typed("read", PAGE)
    assert code == 0
    assert "Hello \ufffd[31mred\ufffd[0m." in out
    assert typed("read", PAGE, "--heading", "install")[1] == "## Install\n\npip install our-sdk\n"
    assert typed("read", PAGE, "--headings")[1] == "1: # Guide\n5: ## Install\n"
    assert json.loads(typed("read", PAGE, "--json", "--offset", "5")[1])["offset"] == 5
    code, _, err = typed("read", PAGE.replace("guide", "long"))
    assert "go on with --offset" in err


def test_a_failure_is_told_with_what_to_do_and_as_the_envelope_for_programs(typed: Typing) -> None:
    """Reference 6.1."""
    code, out, err = typed("read", "https://evil.example/x")
    assert (code, out) == (1, "")
    assert "URL 'https://evil.example/x' is not permitted." in err
    code, out, err = typed("read", "https://evil.example/x", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "URL_NOT_ALLOWED"
    code, out, _ = typed("read", "ftp://docs.python.org/x", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "INVALID_INPUT")


def test_what_to_do_is_said_to_a_person_and_not_to_an_agent(typed: Typing) -> None:
    """Every code of the catalogue has an advice that names commands, or one of its own."""
    assert set(ADVICE) | {"LIBRARY_NOT_FOUND"} == set(CATALOGUE)
    assert not [words for words in ADVICE.values() if "_page" in words or "_docs" in words]
    assert "procontext docs LIBRARY lists their pages" in typed("read", "https://evil.example/x")[2]
    assert "Leave --offline out once" in typed("docs", "fastapi", "--offline")[2]
    assert "procontext doctor looks at the network" in typed("docs", "fastapi")[2]  # offline by its settings
    assert "COMMAND --help has examples" in typed("read", "ftp://docs.python.org/x")[2]


def test_fetch_then_search_finds_sections_offline(typed: Typing) -> None:
    """Design, section 2, points 1 and 4."""
    code, out, _ = typed("fetch", "our-sdk")
    assert code == 0
    assert "ours: 2 pages are in the cache" in out
    assert json.loads(typed("fetch", "ours", "--json")[1]) == {"ours": {"pages": 2}}
    code, out, _ = typed("search", "ours", "pip", "install")
    assert code == 0
    assert out.startswith("Guide > Install\n")
    assert PAGE in out
    assert json.loads(typed("search", "ours", "pip", "--json")[1])["hits"]
    code, out, err = typed("search", "ours", "xyzzy")
    assert (code, out) == (1, "")
    assert "procontext fetch ours" in err


def test_fetch_does_not_call_stored_what_the_disk_would_not_have(
    typed: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 4: who goes offline with an empty cache should have been told."""
    held: list[bool] = []

    def holds(_: object, key: str) -> bool:
        held.append(len(held) % 2 == 1)
        return held[-1]

    monkeypatch.setattr("procontext.cache._store.Store.holds", holds)
    assert typed("fetch", "ours")[:2] == (0, "ours: 1 page is in the cache, 1 could not be stored\n")
    assert json.loads(typed("fetch", "ours", "--json")[1]) == {"ours": {"pages": 1, "left_out": 1}}
    monkeypatch.setattr("procontext.cache._store.Store.holds", lambda *_: False)
    code, out, err = typed("fetch", "ours")
    assert (code, out) == (1, "")
    assert "none of the 2 pages of ours could be stored" in err
    assert "procontext doctor" in err


def test_one_library_that_fails_does_not_keep_the_others_from_being_fetched(typed: Typing) -> None:
    """Exit code 1; each is told."""
    code, out, err = typed("fetch", "fastapi", "ours")
    assert code == 1
    assert "ours: 2 pages" in out
    assert "'fastapi' could not be fetched" in err
    code, out, _ = typed("fetch", "fastapi", "ours", "--json")
    assert set(json.loads(out)) == {"fastapi", "ours"}


def test_search_shows_a_section_without_a_heading(typed: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text before the first heading."""
    from procontext.models import Hit

    documents = ScriptedDocuments()
    documents.hits["ours"] = [Hit("https://x/y", 1, (), "before", 1.0)]

    async def open_them(self: Application) -> ScriptedDocuments:
        return documents

    monkeypatch.setattr(Application, "_open", open_them)
    assert typed("search", "ours", "x")[1].startswith("(no heading)\n")


# --- upkeep -----------------------------------------------------------------------------------------------------------


def test_setup_says_which_registry_is_used(
    typed: Typing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reference, section 8."""
    code, out, _ = typed("setup")
    assert code == 0
    assert str(BUNDLED) in out
    assert "No registry.url is set" in out
    assert json.loads(typed("setup", "--json")[1])["updated"] is False
    (tmp_path / "mine.json").write_text('{"version": "1", "libraries": [{"id": "a", "name": "A"}]}')
    monkeypatch.setenv("PROCONTEXT__REGISTRY__PATH", "mine.json")
    assert "The settings name this file" in typed("setup")[1]


@pytest.mark.parametrize(
    ("is_new", "said"), [(True, "just downloaded and checked"), (False, "has no newer one")]
)
def test_setup_gets_the_newest_one(
    is_new: bool, said: str, typed: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reference, section 8: `procontext setup`."""

    async def refresh(self: Application) -> bool:
        return is_new

    monkeypatch.setattr(Application, "refresh", refresh)
    monkeypatch.setenv("PROCONTEXT__REGISTRY__URL", "https://registry.example.com/latest.json")
    assert said in typed("setup")[1]


def test_a_registry_that_cannot_be_fetched_is_told(typed: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline: nothing is sent."""
    monkeypatch.setenv("PROCONTEXT__REGISTRY__URL", "https://registry.example.com/latest.json")
    code, _, err = typed("setup")
    assert code == 1
    assert "https://registry.example.com/latest.json: cannot be fetched" in err
    assert "procontext doctor" in err


def test_serve_takes_settings_from_the_command_line(typed: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default command; a flag wins over a setting."""
    from procontext import app

    seen: list[Any] = []
    monkeypatch.setattr(app, "serve", lambda config, files: seen.append(config) or 0)
    assert typed()[0] == 0
    assert typed("serve", "--transport", "http", "--port", "0", "--host", "::1", "--offline")[0] == 0
    assert typed("--offline")[0] == 0
    assert seen[0].server.transport == "stdio"
    assert (seen[1].server.transport, seen[1].server.port, seen[1].server.host) == ("http", 0, "::1")
    assert seen[2].fetcher.offline
    for port in ("99999", "-1", "x"):
        code, _, err = typed("serve", "--port", port)
        assert code == 2
        assert f"--port: must be a number from 0 to 65535, not {port!r}" in err
    code, _, err = typed("serve", "--port", "8080")
    assert (code, err) == (2, "procontext: --port: is for HTTP: say --transport http as well\n")


def test_what_keeps_a_server_from_listening_is_told(typed: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, in the words of who found out."""
    from jackstay.errors import UsageError
    from procontext import app

    def refuse(config: object, files: object) -> int:
        raise UsageError("HTTP needs the extra `http`")

    monkeypatch.setattr(app, "serve", refuse)
    code, _, err = typed("serve", "--transport", "http")
    assert code == 1
    assert "HTTP needs the extra" in err


def test_a_search_without_hits_names_how_many_pages_were_searched(typed: Typing) -> None:
    """Pages that are there and do not match, and no pages at all, are two things."""
    code, _, err = typed("search", "ours", "nonexistentword")
    assert code == 1
    assert "no page of Our SDK is in the cache" in err
    assert "procontext fetch ours" in err
    assert typed("fetch", "ours")[0] == 0
    code, _, err = typed("search", "ours", "nonexistentword")
    assert code == 1
    assert "none of these words was found in the 2 pages of Our SDK in the cache" in err
