"""The complete server as a process, over stdio and HTTP, offline, with a folder of documents as its source."""

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
from procontext import app as module
from procontext.app import Application, make_registry, serve
from procontext.config import Config, RegistrySettings, ServerSettings
from procontext.errors import ConfigError, RegistryError
from procontext.registry import Store
from scripted.documents import ScriptedDocuments

SETTINGS = """
sources:
  - id: demo
    name: Demo SDK
    packages: {pypi: [demo-sdk]}
    path: ./docs
fetcher: {offline: true}
"""
GUIDE = "# Guide\n\nHello.\n\n## Install\n\npip install demo-sdk\n\n## Use\n\nCall `the_thing()`.\n"
PAGE = "https://folder.procontext.invalid/demo/guide.md"
KEY = "a-key-of-more-than-16-characters"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with settings and a source."""
    (tmp_path / "procontext.yaml").write_text(SETTINGS)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(GUIDE)
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PROCONTEXT__")}
    source = str(Path(module.__file__).parent.parent)
    directories = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "DATA", "CONFIG")}
    file = str(folder / "procontext.yaml")
    return {**inherited, "PYTHONPATH": source, "PROCONTEXT_CONFIG": file, **directories, **more}


# --- stdio ------------------------------------------------------------------------------------------------------------


async def test_workflow_over_stdio(folder: Path) -> None:
    """Find a library, its pages, and a section."""
    target = stdio(sys.executable, "-m", "procontext", cwd=str(folder), env=environment(folder))
    async with connect(target) as client:
        found = await call(client, "resolve_library", query="demo-sdk>=1")
        assert found["matches"][0]["library_id"] == "demo"
        contents = await call(client, "get_library_docs", library_id="demo")
        assert f"[Guide]({PAGE})" in contents["content"]
        assert contents["source"] == "folder"
        page = await call(client, "read_page", url=PAGE, heading="Install")
        assert page["content"] == "## Install\n\npip install demo-sdk\n"
        assert page["headings"] == ""
        whole = await call(client, "read_page", url=PAGE)
        assert whole["headings"] == "1: # Guide\n5: ## Install\n9: ## Use"
        hits = await call(client, "search_docs", library_id="demo", query="the_thing")
        assert [hit["heading_path"] for hit in hits["hits"]] == [["Guide", "Use"]]
        rejected = await call(client, "read_page", url="http://169.254.169.254/latest/")
        assert rejected["error"]["code"] == "URL_NOT_ALLOWED"
        offline = await call(client, "get_library_docs", library_id="fastapi")
        assert offline["error"]["code"] == "LLMS_TXT_FETCH_FAILED"


async def call(client: Any, name: str, **arguments: Any) -> Any:
    result = await client.tools.call(name, arguments, raise_on_error=False)
    return json.loads(result.error_text or result.text)


def test_server_started_event(folder: Path) -> None:
    """The event is on stderr and has `registry_version`. The process ends with stdin."""
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
    """Run the server and close its stdin after its first line on stderr."""
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
    out, err = process.communicate(timeout=240)
    return subprocess.CompletedProcess(process.args, process.returncode, out, first + err)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"PROCONTEXT__CASCHE__DIR": "x"}, "PROCONTEXT__CASCHE__DIR: unknown setting; did you mean 'cache'?"),
        ({"PROCONTEXT__REGISTRY__PATH": "absent.json"}, "registry.path: file not found: "),
        (
            {
                "PROCONTEXT__SERVER__TRANSPORT": "http",
                "PROCONTEXT__SERVER__AUTH_ENABLED": "1",
                "PROCONTEXT__SERVER__AUTH_KEY": "short",
            },
            "server.auth_key: key too short: 5 characters",
        ),
    ],
)
def test_wrong_settings_end_the_process(more: dict[str, str], problem: str, folder: Path) -> None:
    """The exit code is 2, and there is no traceback."""
    done = run_serve(folder, **more)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_invalid_registry_ends_the_process(folder: Path) -> None:
    (folder / "broken.json").write_text("{}")
    done = run_serve(folder, PROCONTEXT__REGISTRY__PATH="broken.json")
    assert done.returncode not in (0, 2)
    assert "registry_load_failed" in done.stderr


# --- HTTP -------------------------------------------------------------------------------------------------------------


class RunningServer:
    """A server process, and plain HTTP requests to it."""

    def __init__(self, port: int, process: "subprocess.Popen[str]") -> None:
        self.port = port
        self.process = process
        self.stderr: list[str] = []

    def send(
        self, method: str, body: Any = None, path: str = "/mcp", **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        try:
            connection.putrequest(method, path, skip_accept_encoding=True, skip_host="Host" in headers)
            data = b"" if body is None else json.dumps(body).encode()
            for name, value in {**sent, "Content-Length": str(len(data))}.items():
                connection.putheader(name, value.encode("utf-8"))
            connection.endheaders(data)
            response = connection.getresponse()
            text = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, json.loads(text) if text[:1] in (b"{", b"[") else text
        finally:
            connection.close()

    def initialize(self, version: str = "2025-11-25", **headers: str) -> str:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        status, found, _ = self.send("POST", rpc("initialize", params), **headers)
        assert status == 200
        session = found["mcp-session-id"]
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.send("POST", notification, Mcp_Session_Id=session, **headers)[0] == 202
        return session


def rpc(method: str, params: dict[str, Any] | None = None, id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return rpc("tools/call", {"name": name, "arguments": arguments})


@contextmanager
def listening(folder: Path, **more: str) -> Iterator[RunningServer]:
    """Run `procontext` over HTTP on a free port, and collect its stderr."""
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
    running = RunningServer(0, process)
    reading = threading.Thread(target=lambda: None)
    try:
        for line in process.stderr:
            running.stderr.append(line)
            found = re.search(r"serves http://[^:]+:(\d+)/mcp", line)
            if found is not None:
                running.port = int(found[1])
                break
        # Further output must not fill the pipe.
        reading = threading.Thread(target=lambda: running.stderr.extend(process.stderr or ()), daemon=True)
        reading.start()
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)
        reading.join(120)
        process.stderr.close()


def test_http_sessions_origins_and_versions(folder: Path) -> None:
    """One process serves all requests of this test."""
    with listening(folder) as server:
        session = server.initialize()
        body = tool("resolve_library", query="demo-sdk")
        status, _, response = server.send("POST", body, Mcp_Session_Id=session)
        assert status == 200
        assert response["result"]["structuredContent"]["matches"][0]["library_id"] == "demo"
        # Sessions: required after initialize, 404 if unknown, each with its own list.
        assert server.send("POST", body)[0] == 400
        assert server.send("POST", body, Mcp_Session_Id="sess_abc123")[0] == 404
        read = rpc("resources/read", {"uri": "procontext://session/libraries"})
        _, _, first = server.send("POST", read, Mcp_Session_Id=session)
        _, _, other = server.send("POST", read, Mcp_Session_Id=server.initialize())
        assert "demo" in first["result"]["contents"][0]["text"]
        assert other["result"]["contents"][0]["text"] == '{"resolved_libraries":[]}'
        # Protocol versions: validated if present.
        for version, expected in (
            ("2025-11-25", 200),
            ("2025-03-26", 200),
            ("2025-06-18", 200),
            ("2024-11-05", 200),
            ("1999-01-01", 400),
            ("x", 400),
        ):
            found = server.send("POST", body, Mcp_Session_Id=session, MCP_Protocol_Version=version)
            assert found[0] == expected, version
        # The SSE stream of server messages.
        stream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
        stream.request("GET", "/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session})
        opened = stream.getresponse()
        assert (opened.status, opened.getheader("content-type")) == (200, "text/event-stream")
        stream.close()
        assert server.send("PUT", body, Mcp_Session_Id=session)[0] == 405
        assert server.send("POST", body, Mcp_Session_Id=session, Content_Type="text/plain")[0] == 415
        # Origins: only pages of this machine.
        for origin, expected in (
            ("http://localhost", 200),
            ("https://localhost:3000", 200),
            ("http://127.0.0.1:5000", 200),
            ("http://[::1]:5000", 200),
            ("https://evil.example", 403),
            ("http://localhost.evil.example", 403),
            ("null", 403),
        ):
            assert server.send("POST", body, Mcp_Session_Id=session, Origin=origin)[0] == expected, origin
        assert server.send("GET", path="/metrics")[0] == 404
        status, _, health = server.send("GET", path="/health")
        assert (status, health["status"], health["name"]) == (200, "ok", "procontext")
    events = [json.loads(line) for line in server.stderr if line.startswith("{")]
    assert [event["level"] for event in events if event["event"] == "auth_disabled"] == ["warning"]
    assert [event["transport"] for event in events if event["event"] == "server_started"] == ["http"]


def test_allowed_hosts_on_a_wildcard_address(folder: Path) -> None:
    """Containers listen on a wildcard address. Allowed origins stay local."""
    settings = {
        "PROCONTEXT__SERVER__HOST": "0.0.0.0",  # requests go to loopback only
        "PROCONTEXT__SERVER__ALLOWED_HOSTS": '["docs.corp.example", "other.example:9000"]',
    }
    with listening(folder, **settings) as server:
        session = server.initialize(Host="docs.corp.example")
        body = tool("resolve_library", query="demo-sdk")
        for host, expected in (
            ("localhost", 200),
            ("docs.corp.example:8080", 200),
            ("other.example:9000", 200),
            ("other.example", 403),
            ("0.0.0.0", 403),
            ("evil.example", 403),
        ):
            assert server.send("POST", body, Mcp_Session_Id=session, Host=host)[0] == expected, host
        for origin, expected in (("http://localhost:3000", 200), ("http://docs.corp.example", 403)):
            assert server.send("POST", body, Mcp_Session_Id=session, Origin=origin)[0] == expected, origin
        assert server.send("GET", path="/health", Host="10.0.0.7")[0] == 200  # probes use an address
    events = [json.loads(line) for line in server.stderr if line.startswith("{")]
    (warned,) = [event for event in events if event["event"] == "auth_disabled"]
    assert warned["detail"] == "everyone who can reach this address can call this server"
    assert not [event for event in events if event["event"] == "answers_as_localhost_only"]


def test_wildcard_address_without_allowed_hosts_is_logged(folder: Path) -> None:
    """Requests for other hosts get 403, so the warning names the setting."""
    with listening(folder, PROCONTEXT__SERVER__HOST="0.0.0.0") as server:
        server.initialize(Host="localhost")
        assert server.send("POST", rpc("ping"), Host="docs.corp.example")[0] == 403
    events = [json.loads(line) for line in server.stderr if line.startswith("{")]
    (warned,) = [event for event in events if event["event"] == "answers_as_localhost_only"]
    assert "server.allowed_hosts" in warned["detail"]


OWN_NAMES: list[tuple[str, tuple[str, ...]]] = [
    ("127.0.0.1", ("127.0.0.1",)),
    ("::1", ("[::1]",)),
    ("::", ()),
    ("a.corp", ("a.corp",)),
]


def test_own_names() -> None:
    for host, names in OWN_NAMES:
        assert module._own_names(host) == names, host


def test_every_request_requires_the_key(folder: Path) -> None:
    """A missing, wrong or non-ASCII key is 401."""
    key = {"PROCONTEXT__SERVER__AUTH_ENABLED": "true", "PROCONTEXT__SERVER__AUTH_KEY": KEY}
    key["PROCONTEXT__SERVER__METRICS"] = "true"
    with listening(folder, **key) as server:
        right = f"Bearer {KEY}"
        session = server.initialize(Authorization=right)
        body = tool("resolve_library", query="demo-sdk")
        assert server.send("POST", body, Mcp_Session_Id=session, Authorization=right)[0] == 200
        for wrong in (
            "",
            KEY,
            "Bearer",
            "Bearer wrong-key-of-16-characters",
            f"Basic {KEY}",
            "Bearer ключ",
            f"{right} x",
        ):
            status, headers, _ = server.send("POST", body, Mcp_Session_Id=session, Authorization=wrong)
            assert status == 401, wrong
            assert headers["www-authenticate"].startswith("Bearer ")
        assert server.send("POST", body, Mcp_Session_Id=session)[0] == 401
        assert server.send("GET", path="/metrics")[0] == 401
        status, _, metrics = server.send("GET", path="/metrics", Authorization=right)
        assert status == 200
        assert b'procontext_tool_calls_total{tool="resolve_library",outcome="ok"} 1\n' in metrics
    assert KEY not in "".join(server.stderr)


def test_generated_key_is_printed(folder: Path) -> None:
    """The key is printed once, at every log level."""
    settings = {"PROCONTEXT__SERVER__AUTH_ENABLED": "true", "PROCONTEXT__LOGGING__LEVEL": "error"}
    with listening(folder, **settings) as server:
        (line,) = [line for line in server.stderr if "the key of this run is" in line]
        key = line.split()[-1]
        assert len(key) >= 32
        server.initialize(Authorization=f"Bearer {key}")


def test_port_in_use(folder: Path) -> None:
    """The exit code is 1."""
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
            timeout=240,
            check=False,
        )
    assert done.returncode == 1
    assert port in done.stderr
    assert "Traceback" not in done.stderr


# --- in this process --------------------------------------------------------------------------------------------------


async def test_documents_are_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two concurrent callers, one of which is cancelled."""
    opened: list[ScriptedDocuments] = []
    gate = asyncio.Event()

    async def open_documents(self: Application) -> ScriptedDocuments:
        opened.append(ScriptedDocuments())
        await gate.wait()
        return opened[-1]

    monkeypatch.setattr(Application, "_open", open_documents)
    application = Application(Config())
    await application.close()
    first = asyncio.ensure_future(application.documents())
    second = asyncio.ensure_future(application.documents())
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await second is opened[0] is await application.documents()
    await application.close()
    assert len(opened) == 1
    assert opened[0].is_closed
    assert "Application" in repr(application)


async def test_refresh_installs_newer_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generation of the registry is incremented."""
    newer = json.dumps({"version": "2999.01.01", "libraries": [{"id": "new", "name": "New"}]}).encode()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    config = Config(registry=RegistrySettings(url="https://registry.example.com/latest.json"))
    application = Application(config)
    application.registry.load()

    async def updated(store: Store, url: str, download: Any, current_version: str) -> object:
        assert (url, current_version) == (config.registry.url, application.registry.version)
        state = store.state()
        return None if state is not None else store.replace(newer, url)

    monkeypatch.setattr(module, "update", updated)
    assert await application.refresh() is True
    assert (application.registry.version, application.registry.generation) == ("2999.01.01", 2)
    assert await application.refresh() is False


async def test_refresh_without_url() -> None:
    with pytest.raises(RegistryError, match=r"registry\.url: not set"):
        await Application(Config()).refresh()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """Record the options of `Server.run` instead of running it."""
    runs: list[dict[str, Any]] = []
    from jackstay import Server

    def run(self: Server, **options: Any) -> int:
        runs.append(options)
        for thread in threading.enumerate():
            if thread.name == "procontext-registry":
                thread.join(120)  # so that its events are captured
        return 0

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(Server, "run", run)
    yield runs
    for name in ("procontext", "jackstay"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


def test_stdio_options(served: list[dict[str, Any]]) -> None:
    assert serve(Config()) == 0
    assert served == [{}]


def test_backend_option(served: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, str]] = []
    monkeypatch.setattr("jackstay.redis.use_redis", lambda server, target: used.append((server.name, target)))
    assert serve(Config(server=ServerSettings(backend="redis://host"))) == 0
    assert used == [("procontext", "redis://host")]
    assert len(served) == 1


def test_http_options(
    served: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `registry.url`, the registry is refreshed in the background."""
    refreshed = threading.Event()

    async def refresh(call: Any, *, every: float) -> None:
        assert every == 24 * 3600
        refreshed.set()

    monkeypatch.setattr(module, "keep_fresh", refresh)
    config = Config(
        server=ServerSettings(transport="http", port=0, auth_enabled=True),
        registry=RegistrySettings(url="https://registry.example.com/latest.json"),
    )
    assert serve(config) == 0
    assert refreshed.wait(120)
    (options,) = served
    assert callable(options["wrap_app"](None))  # the status page
    assert (options["host"], options["port"], options["sessions"], options["health"]) == (
        "127.0.0.1",
        0,
        True,
        True,
    )
    assert "the key of this run is" in capsys.readouterr().err


def test_failed_registry_sets_the_exit_code(
    served: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal ends the server, so that it shuts down gracefully."""
    ended = threading.Event()
    monkeypatch.setattr(os, "kill", lambda *_: ended.set())
    from jackstay import Server

    monkeypatch.setattr(Server, "run", lambda self, **_: 0 if ended.wait(120) else 3)
    config = Config(registry=RegistrySettings(path=str(tmp_path / "absent.json")))
    assert serve(config) == 1


def test_disabled_auth_is_logged(served: list[dict[str, Any]], capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(Config(server=ServerSettings(transport="http", port=0))) == 0
    assert served[0]["auth"] is None
    assert '"event": "auth_disabled"' in capfd.readouterr().err


KEYS: list[tuple[str, int | None]] = [
    (f"Bearer {KEY}", None),
    ("Bearer ключ", 401),
    (f"Bearer {KEY} x", 401),
    ("Bearer " + "x" * 20_000, 401),
    ("", 401),
]


async def test_invalid_keys_are_401(subtests: pytest.Subtests) -> None:
    for header, status in KEYS:
        with subtests.test(header=header):
            config = Config(server=ServerSettings(auth_enabled=True, auth_key=KEY))
            guard = module._auth(config)
            assert guard is not None
            answer = await guard.authenticate("POST", "/mcp", {"authorization": header} if header else {})
            assert getattr(answer, "status", None) == status


def test_metrics_option(served: list[dict[str, Any]]) -> None:
    """`server.metrics` adds the metrics route."""
    assert serve(Config(server=ServerSettings(transport="http", port=0, metrics=True))) == 0
    assert callable(served[0]["wrap_app"](None))
    metrics = Application(Config(server=ServerSettings(metrics=True))).metrics
    assert metrics is not None
    assert "procontext_registry_libraries " in metrics.text()
    assert "procontext_registry_generation " in metrics.text()
    assert Application(Config()).metrics is None


def test_invalid_auth_key_setting(served: list[dict[str, Any]]) -> None:
    """The error is raised before the server runs."""
    config = Config(server=ServerSettings(transport="http", auth_enabled=True, auth_key="ключ"))
    with pytest.raises(ConfigError, match=r"server\.auth_key: invalid key"):
        serve(config)
    assert served == []
    assert msgspec.to_builtins(config)["server"]["auth_enabled"] is True
