"""`jackstay serve`: loading, options, stdio and HTTP."""

import json
import logging
import re
import signal
import socket
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.redirected_stdio import redirected_stdio
from jackstay.cli import _serve, main
from jackstay.errors import UsageError
from jackstay.server.http import HTTP_OPTIONS, RUN_OPTIONS, HttpOptions, RunOptions
from peers.http_process import Serving, call
from scripted import certificates
from scripted.places import PYTHONPATH, ROOT

SOURCE = PYTHONPATH
CODE = """
from jackstay.server import Server
app = Server("app")
@app.tool
async def hello() -> str:
    return "hello"
"""


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore paths, modules and log handlers of the process."""
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


def served(tmp_path: Path, target: str, *words: str) -> int:
    (tmp_path / "in").write_bytes(b"")
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        redirected_stdio(stdin.fileno(), stdout.fileno()),
    ):
        return _serve.run(parsed(target, *words))


@pytest.mark.parametrize("name", ["", ":app"])
def test_a_file_is_served(tmp_path: Path, name: str) -> None:
    (tmp_path / "serving_app.py").write_text(CODE)
    assert served(tmp_path, f"{tmp_path / 'serving_app.py'}{name}") == 0


def test_a_module_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "serving_module.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    assert served(tmp_path, "serving_module:app") == 0


@pytest.mark.parametrize("target", ["nowhere.py", "nowhere_module", "nowhere_module.inside:app"])
def test_a_missing_file_or_module_is_named(target: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such file|file not found"):
        served(tmp_path, target)


def test_a_missing_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "serving_broken.py").write_text("import nowhere_at_all")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"ModuleNotFoundError: .*nowhere_at_all.*\(serving_broken.py, line 1\)"):
        served(tmp_path, "serving_broken")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\nraise ValueError('at import')", r"ValueError: at import \(faulty.py, line 2\)"),
        ("def f(:", r"SyntaxError: .*\(faulty.py, line 1\)"),
        ("from jackstay import Server\nServer('')", r"UsageError: name must be a non-empty str"),
    ],
)
def test_code_that_raises_is_one_line_with_the_traceback_in_the_log(
    tmp_path: Path, code: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faulty.py").write_text(code)
    with pytest.raises(UsageError, match=message):
        served(tmp_path, str(tmp_path / "faulty.py"))
    assert capsys.readouterr().err == ""
    with pytest.raises(UsageError):
        served(tmp_path, str(tmp_path / "faulty.py"), "--log-level", "debug")
    assert "Traceback" in capsys.readouterr().err


def test_a_file_that_is_not_python_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(UsageError, match=r"notes.txt' is not a Python file: its name must end in .py"):
        served(tmp_path, str(tmp_path / "notes.txt"))


def test_logs_of_the_whole_process_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import logging\nlogging.getLogger('application').info('loading')\n"
    (tmp_path / "serving_logs.py").write_text(code + CODE)
    before = list(logging.getLogger().handlers)
    words = ("--log-level", "debug", "--log-format", "json")
    assert served(tmp_path, str(tmp_path / "serving_logs.py"), *words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert ("application", "info", "loading") in [(line["logger"], line["level"], line["message"]) for line in lines]
    assert "jackstay.server" in {line["logger"] for line in lines}
    assert logging.getLogger().handlers == before, "restored afterwards"


def test_serve_as_a_process(tmp_path: Path) -> None:
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
        "from argparse import ArgumentParser\nfrom jackstay.cli import _serve\n"
        "parser = ArgumentParser(); _serve.add_arguments(parser)\n"
        "sys.exit(_serve.run(parser.parse_args()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "app.py")],
        input=json.dumps(request).encode(),
        capture_output=True,
        timeout=240,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "hello"


# --- over HTTP --------------------------------------------------------------------------------------------------------


def options(*words: str) -> dict[str, Any] | None:
    return _serve.http_options(parsed("app.py", *words))


def test_stdio_is_the_default() -> None:
    assert options() is None


def test_valid_addresses() -> None:
    for address, host, port in (
        ("8000", "127.0.0.1", 8000),
        ("0", "127.0.0.1", 0),
        ("localhost:80", "localhost", 80),
        ("0.0.0.0:8000", "0.0.0.0", 8000),
        ("[::1]:8000", "::1", 8000),
    ):
        assert options("--http", address) == {"host": host, "port": port}


def test_invalid_addresses() -> None:
    for address in ("", "x", ":8000", "::1:8000", "host:", "1.2.3.4", "80:80:80", "1" * 20):
        with pytest.raises(UsageError, match="--http"):
            options("--http", address)


def test_every_flag_sets_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_KEY", "one-0123456789abcdef")
    monkeypatch.setenv("TWO_KEYS", "two-0123456789abcdef, three-0123456789abcdef")
    http_options = options(
        *("--http", "0", "--path", "/x", "--sessions", "--workers", "4", "--health", "--access-log"),
        *("--auth-key-env", "ONE_KEY", "--auth-key-env", "TWO_KEYS", "--allow-host", "mcp.example.com"),
        *("--cors", "https://a.example", "--cors", "https://b.example", "--tls-cert", "c", "--tls-key", "k"),
        *("--trusted-proxy", "10.0.0.1"),
    )
    assert http_options is not None
    assert repr(http_options.pop("auth")) == "<Keys of ONE_KEY, TWO_KEYS>"
    assert http_options == {
        "host": "127.0.0.1",
        "port": 0,
        "path": "/x",
        "sessions": True,
        "workers": 4,
        "health": True,
        "access_log": True,
        "hosts": ("localhost", "127.0.0.1", "[::1]", "127.0.0.1", "mcp.example.com"),
        "cors": ["https://a.example", "https://b.example"],
        "certfile": "c",
        "keyfile": "k",
        "trusted_proxies": ["10.0.0.1"],
    }


@pytest.mark.parametrize(
    ("address", "hosts"),
    [("0.0.0.0:1", ("x",)), ("10.0.0.5:1", ("10.0.0.5", "x")), ("[fd00::1]:1", ("[fd00::1]", "x"))],
)
def test_the_listening_address_is_an_allowed_host(address: str, hosts: tuple[str, ...]) -> None:
    http_options = options("--http", address, "--allow-host", "x")
    assert http_options is not None
    assert http_options["hosts"][3:] == hosts


def test_http_options_require_http() -> None:
    for row in _serve.FLAGS:
        words = (row.flag, "1") if row.metavar else (row.flag,)
        with pytest.raises(UsageError, match=f"{row.flag} requires --http PORT"):
            options(*words)


def test_a_missing_key_is_named_and_a_short_one_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    with pytest.raises(UsageError, match="'NO_KEY' is not set or empty"):
        options("--http", "0", "--auth-key-env", "NO_KEY")
    monkeypatch.setenv("NO_KEY", "hunter2")
    with pytest.raises(UsageError, match="at least 16") as caught:
        options("--http", "0", "--auth-key-env", "NO_KEY")
    assert "hunter2" not in str(caught.value)


def test_workers_must_be_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options("--http", "0", "--workers", "many")
    assert "argument --workers: invalid int value: 'many'" in capsys.readouterr().err


def test_a_backend_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the server of the file, before it runs."""
    used: list[tuple[str, str]] = []
    monkeypatch.setattr("jackstay.redis.use_redis", lambda server, target: used.append((server.name, target)))
    (tmp_path / "serving_app.py").write_text(CODE)
    assert served(tmp_path, str(tmp_path / "serving_app.py"), "--backend", "redis://host") == 0
    assert used == [("app", "redis://host")]


def test_help_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = ArgumentParser()
    _serve.add_arguments(parser)
    assert len(parser.format_help().splitlines()) <= 32
    for row in _serve.FLAGS:
        assert row.flag in parser.format_help()


def test_flags_accept_what_their_options_do() -> None:
    """They are not derived from the options, whose import would delay a server over stdio."""
    defaults = msgspec.structs.asdict(HttpOptions()) | msgspec.structs.asdict(RunOptions())
    for row in _serve.FLAGS:
        setting, default = (HTTP_OPTIONS | RUN_OPTIONS)[row.option], defaults[row.option]
        assert setting.is_flag == (not row.metavar), row
        assert isinstance(default, tuple) == (row.is_repeatable and row.option != "auth"), row
        shown = re.search(r"\(default: (/\w+)\)", row.help)
        assert (shown is not None) == (row.option == "path"), row
        assert shown is None or shown[1] == default, row


def test_every_flag_is_documented() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    assert [row.flag for row in _serve.FLAGS if row.flag not in page] == []


class Command(Serving):
    """`jackstay serve` as a process."""

    def __init__(self, file: Path, *words: str) -> None:
        path = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); "
        code = path + "from jackstay.cli import main; sys.exit(main(sys.argv[1:]))"
        super().__init__(sys.executable, "-c", code, "serve", str(file), "--http", *words)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_file_is_served_over_http_with_a_key(
    tmp_path: Path, number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(CODE)
    monkeypatch.setenv("APP_KEY", "app-0123456789abcdef")
    with Command(tmp_path / "app.py", "0", "--auth-key-env", "APP_KEY", "--path", "/x") as serving:
        assert serving.request("POST", "/x", call("hello")).status == 401
        key = {"authorization": "Bearer app-0123456789abcdef"}
        assert serving.request("POST", "/x", call("hello"), key).text == "hello"
        serving.signal(number)
        assert serving.ended() == code
        assert "app-0123456789abcdef" not in serving.stderr


def test_workers(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CODE)
    with Command(tmp_path / "app.py", "0", "--workers", "2") as serving:
        serving.wait_for_line(r"app serves http://127\.0\.0\.1:\d+/mcp \(2 workers\)")
        assert serving.call("hello").text == "hello"
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("0", "--workers", "2", "--sessions"), 2, "disable sessions"),
        (("0", "--tls-cert", "/no/such/file"), 2, "--tls-cert does not exist or is not a file"),
        (("0", "--cors", "nonsense"), 2, "--cors must be origins such as"),
        (("192.0.2.1:0",), 3, "not an address of this machine"),
    ],
)
def test_options_that_cannot_be_used(tmp_path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    (tmp_path / "app.py").write_text(CODE)
    with Command(tmp_path / "app.py", *words) as serving:
        assert serving.ended() == code
        serving.wait_for_line(f"^jackstay: .*{message}")
        assert "Traceback" not in serving.stderr


def test_tls_with_ca(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error without `--ca` names the option."""
    _, ca = certificates.make(tmp_path)
    (tmp_path / "app.py").write_text(CODE)
    chain = str(tmp_path / "server.pem")
    with Command(tmp_path / "app.py", "0", "--tls-cert", chain, "--tls-key", chain) as serving:
        url = serving.wait_for_line(r"app serves (https://127\.0\.0\.1:\d+/mcp)")[1]
        assert main(["ping", url]) == 3
        assert "untrusted certificate" in (stderr := capsys.readouterr().err)
        assert "pass the CA's certificate with --ca FILE or set SSL_CERT_FILE" in stderr
        assert main(["ping", "--ca", str(ca), url]) == 0
        assert "server/discover: response in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "path", "typed"),
    [
        ("workers must be a whole number", "workers", "--workers must be a whole number"),
        (
            "certfile and keyfile cannot be used: why",
            "certfile",
            "--tls-cert and --tls-key cannot be used: why",
        ),
        ("certfile: there is no file x", "certfile", "--tls-cert: there is no file x"),
        ("there is no file x", "certfile", "--tls-cert: there is no file x"),
        ("port must be a number, not a path", "port", "port must be a number, not a path"),
    ],
)
def test_errors_name_the_flag(message: str, path: str, typed: str) -> None:
    assert str(_serve._with_flag_names(UsageError(message, path=path))) == typed


def test_errors_of_the_server_name_the_flag(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CODE)
    with pytest.raises(UsageError, match=r"^--workers must be an int from 1 to 256, not 0$"):
        served(tmp_path, str(tmp_path / "app.py"), "--http", "0", "--workers", "0")
    with pytest.raises(UsageError, match=r"^--http expects a port from 0 to 65535, got 70000$"):
        options("--http", "70000")


def test_a_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory; name the file in it"):
        _serve.load(str(tmp_path))


def test_a_port_in_use_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CODE)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        Command(tmp_path / "app.py", str(taken.getsockname()[1])) as serving,
    ):
        assert serving.ended() == 3
        serving.wait_for_line("^jackstay: cannot listen on 127.0.0.1:.*: the port is already in use")


def test_traceback_of_a_file_that_cannot_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.py"
    path.write_text("1 / 0\n")
    assert main(["serve", "--traceback", str(path)]) == 2
    written = capsys.readouterr().err
    assert written.startswith(f'Traceback (most recent call last):\n  File "{path}", line 1, in <module>\n')
    assert "\nZeroDivisionError: division by zero\n" in written
    assert "shows the traceback" not in written
