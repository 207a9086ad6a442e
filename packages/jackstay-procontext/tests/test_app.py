"""The whole server as a process: stdio and HTTP, a real client, real settings, a folder of documents as its source.

The rules of HTTP are the reference's, section 7. Nothing here leaves the machine: the source is a folder, the rest is offline.
"""

import asyncio
import http.client
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackstay import connect, stdio
from procontext import app as home
from procontext.app import Application, make_registry, serve
from procontext.config import Config, RegistrySettings, ServerSettings
from procontext.errors import ConfigError, RegistryError
from procontext.registry import Store
from scripted.documents import ScriptedDocuments
from scripted.loop import timed

SETTINGS = """
sources:
  - id: ours
    name: Our SDK
    packages: {pypi: [our-sdk]}
    path: ./docs
fetcher: {offline: true}
"""
GUIDE = "# Guide\n\nHello.\n\n## Install\n\npip install our-sdk\n\n## Use\n\nCall `the_thing()`.\n"
PAGE = "https://folder.procontext.invalid/ours/guide.md"
KEY = "a-key-of-more-than-16-characters"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with settings and a source."""
    (tmp_path / "procontext.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(GUIDE)
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROCONTEXT__")}
    source = str(Path(home.__file__).parent.parent)
    places = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "DATA", "CONFIG")}
    file = str(folder / "procontext.yaml")
    return {**kept, "PYTHONPATH": source, "PROCONTEXT_CONFIG": file, **places, **more}


# --- stdio ------------------------------------------------------------------------------------------------------------


def test_a_client_finds_a_library_its_pages_and_the_section_it_needs(folder: Path) -> None:
    """The workflow of the reference, over stdio, in a process of its own."""

    @timed
    async def check() -> None:
        target = stdio(sys.executable, "-m", "procontext", cwd=str(folder), env=environment(folder))
        async with connect(target) as client:
            found = await call(client, "resolve_library", query="our-sdk>=1")
            assert found["matches"][0]["library_id"] == "ours"
            contents = await call(client, "get_library_docs", library_id="ours")
            assert f"[Guide]({PAGE})" in contents["content"]
            assert contents["source"] == "folder"
            page = await call(client, "read_page", url=PAGE, heading="Install")
            assert page["content"] == "## Install\n\npip install our-sdk\n"
            assert page["headings"] == "1: # Guide\n5: ## Install\n9: ## Use"
            hits = await call(client, "search_docs", library_id="ours", query="the_thing")
            assert [hit["heading_path"] for hit in hits["hits"]] == [["Guide", "Use"]]
            refused = await call(client, "read_page", url="http://169.254.169.254/latest/")
            assert refused["error"]["code"] == "URL_NOT_ALLOWED"
            offline = await call(client, "get_library_docs", library_id="fastapi")
            assert offline["error"]["code"] == "LLMS_TXT_FETCH_FAILED"

    check()


async def call(client: Any, name: str, **arguments: Any) -> Any:
    result = await client.tools.call(name, arguments)
    return json.loads(result.text)


def test_the_process_says_that_it_started_and_with_which_registry(folder: Path) -> None:
    """Reference, section 8: `server_started` with `registry_version`, on stderr; the process ends with stdin."""
    done = run_serve(folder)
    assert done.returncode == 0
    assert done.stdout == ""
    events = [json.loads(line) for line in done.stderr.splitlines()]
    (started,) = [event for event in events if event["event"] == "server_started"]
    assert started["registry_version"] == make_registry_version()
    assert (started["transport"], started["level"]) == ("stdio", "info")
    assert started["settings"] == str(folder / "procontext.yaml")


def make_registry_version() -> str:
    registry = make_registry(Config())
    registry.load()
    return registry.version


def run_serve(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """The server with a client that says hello and goes, once the server has said that it started, or ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "procontext"],
        cwd=folder,
        env=environment(folder, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    out, err = process.communicate(timeout=50)
    return subprocess.CompletedProcess(process.args, process.returncode, out, first + err)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"PROCONTEXT__CASCHE__DIR": "x"}, "PROCONTEXT__CASCHE__DIR: is no setting"),
        ({"PROCONTEXT__REGISTRY__PATH": "absent.json"}, "registry.path: there is no file"),
        (
            {
                "PROCONTEXT__SERVER__TRANSPORT": "http",
                "PROCONTEXT__SERVER__AUTH_ENABLED": "1",
                "PROCONTEXT__SERVER__AUTH_KEY": "short",
            },
            "server.auth_key: a key must have at least 16 characters",
        ),
    ],
)
def test_wrong_settings_are_refused_by_name_at_start(more: dict[str, str], said: str, folder: Path) -> None:
    """Exit code 2, one line, no traceback."""
    done = run_serve(folder, **more)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_registry_that_is_none_ends_the_server_with_an_error(folder: Path) -> None:
    """Reference, section 8: the server exits with an error."""
    (folder / "broken.json").write_text("{}")
    done = run_serve(folder, PROCONTEXT__REGISTRY__PATH="broken.json")
    assert done.returncode not in (0, 2)
    assert "registry_load_failed" in done.stderr


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Running:
    """A server on a port, and plain requests to it."""

    def __init__(self, port: int, process: "subprocess.Popen[str]") -> None:
        self.port = port
        self.process = process
        self.said: list[str] = []

    def send(
        self, method: str, body: Any = None, path: str = "/mcp", **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        try:
            connection.putrequest(method, path, skip_accept_encoding=True, skip_host="Host" in headers)
            data = b"" if body is None else json.dumps(body).encode()
            for name, value in {**sent, "Content-Length": str(len(data))}.items():
                connection.putheader(name, value.encode("utf-8"))
            connection.endheaders(data)
            answer = connection.getresponse()
            text = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, json.loads(text) if text[:1] in (b"{", b"[") else text
        finally:
            connection.close()

    def initialize(self, version: str = "2025-11-25", **headers: str) -> str:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        status, found, _ = self.send("POST", rpc("initialize", params), **headers)
        assert status == 200
        session = found["mcp-session-id"]
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.send("POST", told, Mcp_Session_Id=session, **headers)[0] == 202
        return session


def rpc(method: str, params: dict[str, Any] | None = None, id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return rpc("tools/call", {"name": name, "arguments": arguments})


@contextmanager
def listening(folder: Path, **more: str) -> Iterator[Running]:
    """`procontext` over HTTP on a free port; its stderr is in `said` until it serves."""
    settings = {"PROCONTEXT__SERVER__TRANSPORT": "http", "PROCONTEXT__SERVER__PORT": "0", **more}
    process = subprocess.Popen(
        [sys.executable, "-m", "procontext"],
        cwd=folder,
        env=environment(folder, **settings),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    running = Running(0, process)
    reading = threading.Thread(target=lambda: None)
    try:
        for line in process.stderr:
            running.said.append(line)
            found = re.search(r"serves http://[^:]+:(\d+)/mcp", line)
            if found is not None:
                running.port = int(found[1])
                break
        # What it says later must not fill the pipe.
        reading = threading.Thread(target=lambda: running.said.extend(process.stderr or ()), daemon=True)
        reading.start()
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        reading.join(30)
        process.stderr.close()


def test_http_serves_the_tools_with_sessions_and_origin_and_version_rules(folder: Path) -> None:
    """Reference, 7.2, one process for all of its rows."""
    with listening(folder) as server:
        session = server.initialize()
        asked = tool("resolve_library", query="our-sdk")
        status, _, answer = server.send("POST", asked, Mcp_Session_Id=session)
        assert status == 200
        assert answer["result"]["structuredContent"]["matches"][0]["library_id"] == "ours"
        # Sessions: needed after initialize, unknown ones are gone, each has its own list.
        assert server.send("POST", asked)[0] == 400
        assert server.send("POST", asked, Mcp_Session_Id="sess_abc123")[0] == 404
        read = rpc("resources/read", {"uri": "procontext://session/libraries"})
        _, _, mine = server.send("POST", read, Mcp_Session_Id=session)
        _, _, other = server.send("POST", read, Mcp_Session_Id=server.initialize())
        assert "ours" in mine["result"]["contents"][0]["text"]
        assert other["result"]["contents"][0]["text"] == '{"resolved_libraries":[]}'
        # Versions: checked if present.
        for version, expected in (
            ("2025-11-25", 200),
            ("2025-03-26", 200),
            ("2025-06-18", 200),
            ("2024-11-05", 200),
            ("1999-01-01", 400),
            ("x", 400),
        ):
            found = server.send("POST", asked, Mcp_Session_Id=session, MCP_Protocol_Version=version)
            assert found[0] == expected, version
        # The stream of the server's own messages: open until somebody goes.
        stream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        stream.request("GET", "/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session})
        opened = stream.getresponse()
        assert (opened.status, opened.getheader("content-type")) == (200, "text/event-stream")
        stream.close()
        assert server.send("PUT", asked, Mcp_Session_Id=session)[0] == 405
        assert server.send("POST", asked, Mcp_Session_Id=session, Content_Type="text/plain")[0] == 415
        # Origins: this machine's pages, and nobody else's.
        for origin, expected in (
            ("http://localhost", 200),
            ("https://localhost:3000", 200),
            ("http://127.0.0.1:5000", 200),
            ("http://[::1]:5000", 200),
            ("https://evil.example", 403),
            ("http://localhost.evil.example", 403),
            ("null", 403),
        ):
            assert server.send("POST", asked, Mcp_Session_Id=session, Origin=origin)[0] == expected, origin
        assert server.send("GET", path="/metrics")[0] == 404
        status, _, health = server.send("GET", path="/health")
        assert (status, health["status"], health["name"]) == (200, "ok", "procontext")
    events = [json.loads(line) for line in server.said if line.startswith("{")]
    assert [event["level"] for event in events if event["event"] == "auth_disabled"] == ["warning"]
    assert [event["transport"] for event in events if event["event"] == "server_started"] == ["http"]


def test_on_every_address_it_answers_as_the_hosts_that_are_named(folder: Path) -> None:
    """As in a container: `server.host` is 0.0.0.0, and `server.allowed_hosts` says what it is called. Pages stay local."""
    named = {
        "PROCONTEXT__SERVER__HOST": "0.0.0.0",  # what is tested; the requests are to loopback
        "PROCONTEXT__SERVER__ALLOWED_HOSTS": '["docs.corp.example", "other.example:9000"]',
    }
    with listening(folder, **named) as server:
        session = server.initialize(Host="docs.corp.example")
        asked = tool("resolve_library", query="our-sdk")
        for host, expected in (
            ("localhost", 200),
            ("docs.corp.example:8080", 200),
            ("other.example:9000", 200),
            ("other.example", 403),
            ("0.0.0.0", 403),
            ("evil.example", 403),
        ):
            assert server.send("POST", asked, Mcp_Session_Id=session, Host=host)[0] == expected, host
        for origin, expected in (("http://localhost:3000", 200), ("http://docs.corp.example", 403)):
            assert server.send("POST", asked, Mcp_Session_Id=session, Origin=origin)[0] == expected, origin
        assert server.send("GET", path="/health", Host="10.0.0.7")[0] == 200  # a probe comes to an address
    events = [json.loads(line) for line in server.said if line.startswith("{")]
    (warned,) = [event for event in events if event["event"] == "auth_disabled"]
    assert warned["detail"] == "everybody who can reach this address can call this server"
    assert not [event for event in events if event["event"] == "answers_as_localhost_only"]


def test_on_every_address_without_names_it_is_told_that_only_localhost_is_answered(folder: Path) -> None:
    """The setting is named: who calls it by another name gets 403, and wonders."""
    with listening(folder, PROCONTEXT__SERVER__HOST="0.0.0.0") as server:  # what is tested
        server.initialize(Host="localhost")
        assert server.send("POST", rpc("ping"), Host="docs.corp.example")[0] == 403
    events = [json.loads(line) for line in server.said if line.startswith("{")]
    (warned,) = [event for event in events if event["event"] == "answers_as_localhost_only"]
    assert "server.allowed_hosts" in warned["detail"]


@pytest.mark.parametrize(
    ("host", "names"),
    [("127.0.0.1", ("127.0.0.1",)), ("::1", ("[::1]",)), ("::", ()), ("a.corp", ("a.corp",))],
)
def test_a_server_is_called_by_the_address_it_listens_on(host: str, names: tuple[str, ...]) -> None:
    assert home._own_names(host) == names


def test_with_a_key_every_request_needs_it(folder: Path) -> None:
    """Reference, 7.2: missing or incorrect is 401; a non-ASCII header is 401 and not 500."""
    key = {"PROCONTEXT__SERVER__AUTH_ENABLED": "true", "PROCONTEXT__SERVER__AUTH_KEY": KEY}
    key["PROCONTEXT__SERVER__METRICS"] = "true"
    with listening(folder, **key) as server:
        right = f"Bearer {KEY}"
        session = server.initialize(Authorization=right)
        asked = tool("resolve_library", query="our-sdk")
        assert server.send("POST", asked, Mcp_Session_Id=session, Authorization=right)[0] == 200
        for wrong in (
            "",
            KEY,
            "Bearer",
            "Bearer wrong-key-of-16-characters",
            f"Basic {KEY}",
            "Bearer ключ",
            f"{right} x",
        ):
            status, headers, _ = server.send("POST", asked, Mcp_Session_Id=session, Authorization=wrong)
            assert status == 401, wrong
            assert headers["www-authenticate"].startswith("Bearer ")
        assert server.send("POST", asked, Mcp_Session_Id=session)[0] == 401
        assert server.send("GET", path="/metrics")[0] == 401
        status, _, numbers = server.send("GET", path="/metrics", Authorization=right)
        assert status == 200
        assert b'procontext_tool_calls_total{tool="resolve_library",outcome="ok"} 1\n' in numbers
    assert KEY not in "".join(server.said)


def test_without_a_key_of_its_own_one_is_made_and_printed_whatever_the_log_level(folder: Path) -> None:
    """Design, section 1: printed to stderr once."""
    made = {"PROCONTEXT__SERVER__AUTH_ENABLED": "true", "PROCONTEXT__LOGGING__LEVEL": "error"}
    with listening(folder, **made) as server:
        (line,) = [line for line in server.said if "the key of this run is" in line]
        key = line.split()[-1]
        assert len(key) >= 32
        server.initialize(Authorization=f"Bearer {key}")


def test_a_port_that_is_taken_is_told_in_words(folder: Path) -> None:
    """Exit code 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "procontext", "serve", "--transport", "http", "--port", port],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    assert done.returncode == 1
    assert port in done.stderr
    assert "Traceback" not in done.stderr


# --- in this process --------------------------------------------------------------------------------------------------


@timed
async def test_the_documents_are_opened_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that ask at the same time, one of which goes away."""
    opened: list[ScriptedDocuments] = []
    gate = asyncio.Event()

    async def open_them(self: Application) -> ScriptedDocuments:
        opened.append(ScriptedDocuments())
        await gate.wait()
        return opened[-1]

    monkeypatch.setattr(Application, "_open", open_them)
    application = Application(Config())
    await application.close()
    impatient = asyncio.ensure_future(application.documents())
    patient = asyncio.ensure_future(application.documents())
    await asyncio.sleep(0)
    impatient.cancel()
    gate.set()
    assert await patient is opened[0] is await application.documents()
    await application.close()
    assert len(opened) == 1
    assert opened[0].is_closed
    assert "Application" in repr(application)


@timed
async def test_a_newer_registry_is_taken_while_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Background refresh: rows are replaced, and the generation grows."""
    newer = json.dumps({"version": "2999.01.01", "libraries": [{"id": "new", "name": "New"}]}).encode()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    config = Config(registry=RegistrySettings(url="https://registry.example.com/latest.json"))
    application = Application(config)
    application.registry.load()

    async def updated(store: Store, url: str, download: Any, in_use: str) -> object:
        assert (url, in_use) == (config.registry.url, application.registry.version)
        state = store.state()
        return None if state is not None else store.replace(newer, url)

    monkeypatch.setattr(home, "update", updated)
    assert await application.refresh() is True
    assert (application.registry.version, application.registry.generation) == ("2999.01.01", 2)
    assert await application.refresh() is False


@timed
async def test_without_an_address_there_is_nothing_to_refresh_from() -> None:
    """Said in words: the command shows it."""
    with pytest.raises(RegistryError, match=r"registry\.url: is not set"):
        await Application(Config()).refresh()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """What the server was run with, instead of running it."""
    runs: list[dict[str, Any]] = []
    from jackstay import Server

    def run(self: Server, **options: Any) -> int:
        runs.append(options)
        for thread in threading.enumerate():
            if thread.name == "procontext-registry":
                thread.join(30)  # what it has to say is said while somebody listens
        return 0

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(Server, "run", run)
    yield runs
    for name in ("procontext", "jackstay"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


def test_stdio_is_run_without_options(served: list[dict[str, Any]]) -> None:
    """Reference, 7.1."""
    assert serve(Config()) == 0
    assert served == [{}]


def test_http_is_run_as_the_settings_say(
    served: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reference, 7.2; and the registry is refreshed in the background where an address is set."""
    refreshed = threading.Event()

    async def refresh(call: Any, *, every: float) -> None:
        assert every == 24 * 3600
        refreshed.set()

    monkeypatch.setattr(home, "keep_fresh", refresh)
    config = Config(
        server=ServerSettings(transport="http", port=0, auth_enabled=True),
        registry=RegistrySettings(url="https://registry.example.com/latest.json"),
    )
    assert serve(config) == 0
    assert refreshed.wait(30)
    (options,) = served
    assert options["around"] is None
    assert (options["host"], options["port"], options["sessions"], options["health"]) == (
        "127.0.0.1",
        0,
        True,
        True,
    )
    assert "the key of this run is" in capsys.readouterr().err


def test_a_registry_that_fails_behind_the_server_is_the_exit_code(
    served: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is asked for by a signal, so that everything is flushed."""
    ended = threading.Event()
    monkeypatch.setattr(os, "kill", lambda *_: ended.set())
    from jackstay import Server

    monkeypatch.setattr(Server, "run", lambda self, **_: 0 if ended.wait(30) else 3)
    config = Config(registry=RegistrySettings(path=str(tmp_path / "absent.json")))
    assert serve(config) == 1


def test_without_authentication_a_warning_is_logged(
    served: list[dict[str, Any]], capfd: pytest.CaptureFixture[str]
) -> None:
    """Reference, 7.2: auth off logs a warning at start."""
    assert serve(Config(server=ServerSettings(transport="http", port=0))) == 0
    assert served[0]["auth"] is None
    assert '"event": "auth_disabled"' in capfd.readouterr().err


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {KEY}", None),
        ("Bearer ключ", 401),
        (f"Bearer {KEY} x", 401),
        ("Bearer " + "x" * 20_000, 401),
        ("", 401),
    ],
)
def test_whatever_is_wrong_with_a_key_is_401(header: str, status: int | None) -> None:
    """Reference, 7.2; design, section 1."""

    @timed
    async def check() -> None:
        config = Config(server=ServerSettings(auth_enabled=True, auth_key=KEY))
        guard = home._auth(config)
        assert guard is not None
        answer = await guard.admit("POST", "/mcp", {"authorization": header} if header else {})
        assert getattr(answer, "status", None) == status

    check()


def test_numbers_are_served_where_the_settings_say_so(served: list[dict[str, Any]]) -> None:
    """`server.metrics`."""
    assert serve(Config(server=ServerSettings(transport="http", port=0, metrics=True))) == 0
    app = served[0]["around"](None)
    assert set(app._gauges()) == {"registry_libraries", "registry_generation"}


def test_a_key_that_cannot_be_one_is_a_wrong_setting(served: list[dict[str, Any]]) -> None:
    """Told before anything runs."""
    config = Config(server=ServerSettings(transport="http", auth_enabled=True, auth_key="ключ"))
    with pytest.raises(ConfigError, match=r"server\.auth_key: a key must be letters"):
        serve(config)
    assert served == []
    assert msgspec.to_builtins(config)["server"]["auth_enabled"] is True
