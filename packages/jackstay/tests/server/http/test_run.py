"""`run(transport="http")`: options, startup, shutdown and output, in this process."""

import asyncio
import datetime
import http.client
import io
import logging
import os
import re
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from jackstay.errors import TransportError, UnexpectedOptionError, UsageError
from jackstay.server import Server
from jackstay.server._input_required import KeyRing
from jackstay.server.http import (
    HTTP_OPTIONS,
    RUN_OPTIONS,
    App,
    Asgi,
    BearerAuth,
    HttpOptions,
    MemorySessionStore,
    RunOptions,
    _run,
    keys,
    run_http,
)
from jackstay.server.http._options import as_sequences
from jackstay.server.http._sockets import bind_sockets, port_of
from jackstay.server.http._workers import Worker
from peers.http_process import GUARD, HttpReply, call, send_request
from scripted.places import ROOT

# --- options ----------------------------------------------------------------------------------------------------------


def test_an_invalid_option_is_named(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"workers": 0}, "workers"),
        ({"workers": 1000}, "workers"),
        ({"workers": True}, "workers"),
        ({"max_header_bytes": 10}, "max_header_bytes"),
        ({"keepalive_timeout": 0}, "keepalive_timeout"),
        ({"header_timeout": "soon"}, "header_timeout"),
        ({"parser": "llhttp"}, "parser"),
        ({"loop": "trio"}, "loop"),
        ({"keyfile": __file__}, "certfile"),
        ({"certfile": "/no/such/file"}, "certfile"),
        ({"certfile": 5}, "certfile"),
        ({"host": 5}, "host"),
        ({"port": "8000"}, "port"),
        ({"port": 65_536}, "port"),
        ({"trusted_proxies": ("nonsense",)}, "trusted_proxies"),
        ({"trusted_proxies": "10.0.0.5"}, "trusted_proxies"),
        ({"access_log": "no"}, "access_log"),
        ({"keyfile_password": b"hidden"}, "keyfile_password"),
    ]
    for options, path in cases:
        with subtests.test(options=options, path=path):
            with pytest.raises(UsageError) as caught:
                RunOptions(**options)
            assert caught.value.path == path
            assert "hidden" not in str(caught.value)


def test_an_unknown_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnexpectedOptionError, match=r"unexpected option 'prt'; did you mean 'port'\?") as caught:
        Server("x").run(transport="http", prt=8000)  # type: ignore[call-overload]  # as a mistake would
    assert caught.value.path == "prt"
    with pytest.raises(UnexpectedOptionError, match=r"unexpected option 'zzz'; valid options: .* port, .* path, "):
        Server("x").run(transport="http", zzz=1)  # type: ignore[call-overload]  # as a mistake would


def test_every_option_has_a_row_and_every_row_an_option() -> None:
    assert tuple(RUN_OPTIONS) == RunOptions.__struct_fields__
    assert tuple(HTTP_OPTIONS) == HttpOptions.__struct_fields__


def test_trusted_proxies_are_addresses_or_networks_or_a_single_one() -> None:
    assert RunOptions(trusted_proxies=["10.0.0.0/8", "::1", "*"]).trusted_proxies
    single = as_sequences({"trusted_proxies": "10.0.0.5"}, "trusted_proxies")
    assert RunOptions(**single).trusted_proxies == ("10.0.0.5",)


def test_every_option_is_documented() -> None:
    docs = ROOT / "docs"
    page = (docs / "deployment.md").read_text(encoding="utf-8")
    assert [name for name in RunOptions.__struct_fields__ if f"`{name}`" not in page] == []
    page = (docs / "server.md").read_text(encoding="utf-8")
    assert [name for name in HttpOptions.__struct_fields__ if f"`{name}`" not in page] == []


def test_options_that_do_not_fit_the_transport_are_refused() -> None:
    server = Server("x")
    with pytest.raises(UsageError, match="'stdio' or 'http'"):
        server.run(transport="carrier pigeon")
    with pytest.raises(UsageError, match="options for transport='http' only: port"):
        server.run(port=8000)


async def test_inside_a_loop_the_error_suggests_asgi() -> None:
    with pytest.raises(UsageError, match=r"server\.asgi\(\)"):
        Server("x").run(transport="http", port=0)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "missing_modules", lambda extra: ("uvicorn",))
    with pytest.raises(UsageError, match=r"jackstay\[http\]"):
        run_http(Server("x"), {"port": 0})


def test_several_workers_need_a_shared_session_store() -> None:
    server = Server("x")
    for more in ({}, {"session_store": MemorySessionStore()}):
        options: Any = {"port": 0, "workers": 2, "sessions": True, **more}
        with pytest.raises(UsageError, match="disable sessions, or pass a shared session_store") as caught:
            run_http(server, options)
        assert caught.value.path == "workers"
    with pytest.raises(UsageError, match="sse_path"):
        run_http(server, {"port": 0, "workers": 2, "sse_path": "/sse"})


def test_several_workers_need_the_main_thread() -> None:
    caught: list[BaseException] = []

    def test() -> None:
        try:
            run_http(Server("x"), {"port": 0, "workers": 2})
        except UsageError as error:
            caught.append(error)

    thread = threading.Thread(target=test)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def test_the_listening_address_is_an_allowed_host(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, dict[str, Any], Any]] = [
        ("127.0.0.1", {}, None),
        ("0.0.0.0", {}, None),
        ("192.168.1.5", {}, ("localhost", "127.0.0.1", "[::1]", "192.168.1.5")),
        ("fd00::5", {}, ("localhost", "127.0.0.1", "[::1]", "[fd00::5]")),
        ("192.168.1.5", {"hosts": ["x"]}, ["x"]),
    ]
    for host, options, hosts in cases:
        with subtests.test(host=host, options=options, hosts=hosts):
            assert _run._with_host(host, options).get("hosts") == hosts


def test_a_missing_library_is_replaced_unless_it_was_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setitem(sys.modules, "httptools", None)
    server = Server("x")

    def make(**options: Any) -> Any:
        app = server.asgi()
        context = _run.ServeContext(RunOptions(**options), app, app, "", [], None)
        return _run._make_http_server(context, on_ready=lambda: None, drain=lambda: None)

    assert _run._loop_factory("auto") is asyncio.new_event_loop
    assert isinstance(make(), uvicorn.Server)
    with pytest.raises(UsageError, match="uvloop"):
        _run._loop_factory("uvloop")
    with pytest.raises(UsageError, match="httptools"):
        make(parser="httptools")


# --- in this process --------------------------------------------------------------------------------------------------


def served(
    server: Server, work: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[int, list[int]]:
    """Serve on the main thread while `work(port)` runs on another, then send SIGTERM.

    Returns the exit code, and the codes passed to `exit_process`.
    """
    sockets = bind_sockets("127.0.0.1", 0)
    monkeypatch.setattr(_run, "bind_sockets", lambda host, port: sockets)
    failed: list[BaseException] = []
    exits: list[int] = []
    is_over = threading.Event()

    def working() -> None:
        # Wait for the signal handler: a short `work` could otherwise send SIGTERM before it is installed.
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and not is_over.wait(0.005):
            pass
        try:
            work(port_of(sockets))
        except BaseException as error:  # noqa: BLE001  # raised below
            failed.append(error)
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # otherwise the signal would end the test process
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=working)
    thread.start()
    try:
        code = run_http(server, options, exit_process=exits.append)  # type: ignore[arg-type]  # any options
    finally:
        is_over.set()
        thread.join()
    if failed:
        raise failed[0]
    return code, exits


def request(port: int, method: str = "GET", path: str = "/health", body: Any = None, **headers: str) -> HttpReply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        return send_request(
            connection, method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )
    finally:
        connection.close()


def echoing(**options: Any) -> Server:
    server = Server("x", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


@pytest.mark.parametrize("parser", ["httptools", "h11"])
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_every_parser_and_loop_serves_and_is_cleaned_up(
    parser: str, loop: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    threads = set(threading.enumerate())

    def work(port: int) -> None:
        answer = request(port, "POST", "/mcp", call("echo", text="hello"))
        assert answer.text == "hello"
        assert "server" not in answer.headers

    assert served(echoing(), work, monkeypatch, parser=parser, loop=loop) == (0, [])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
    assert {thread for thread in threading.enumerate() if not thread.daemon} <= threads
    assert "x serves http://127.0.0.1:" in capsys.readouterr().err


def test_a_loop_factory_is_used_and_hooks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    ran: list[bool] = []
    server = echoing()

    @server.on_shutdown
    async def hook() -> None:
        ran.append(True)

    def factory() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[0]

    sockets = bind_sockets("127.0.0.1", 0)
    monkeypatch.setattr(_run, "bind_sockets", lambda host, port: sockets)
    real = _run.ServeContext.announce

    def announce(context: _run.ServeContext) -> None:
        real(context)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_run.ServeContext, "announce", announce)
    assert server.run(transport="http", loop_factory=factory) == 130
    assert made[0].is_closed()
    assert ran == [True]


def test_startup_hooks_are_awaited_before_it_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = echoing()
    seen: list[str] = []

    @server.on_startup
    async def first() -> None:
        await asyncio.sleep(0)
        seen.append(capsys.readouterr().err)

    assert served(server, request, monkeypatch) == (0, [])  # type: ignore[arg-type]  # its result is ignored
    assert seen == [""]
    assert "serves" in capsys.readouterr().err


def test_a_signal_during_startup_prevents_serving(capsys: pytest.CaptureFixture[str]) -> None:
    server = echoing()
    ended: list[str] = []

    @server.on_startup
    async def hang() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    server.on_shutdown(lambda: ended.append("over"))
    assert server.run(transport="http", port=0) == 130
    assert ended == ["over"]
    assert "serves" not in capsys.readouterr().err


def test_a_hung_thread_is_ended_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun = threading.Event(), threading.Event()
    server = Server("x", drain_timeout=0.05)

    @server.tool
    def hang() -> None:
        begun.set()
        gate.wait(GUARD)

    def work(port: int) -> None:
        def send() -> None:
            try:
                request(port, "POST", "/mcp", call("hang"))
            except (OSError, http.client.HTTPException):
                pass  # the outcome is checked by other tests

        threading.Thread(target=send, daemon=True).start()
        assert begun.wait(GUARD)

    assert served(server, work, monkeypatch) == (0, [0])
    gate.set()


def test_a_new_request_on_an_old_connection_is_refused_while_draining(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """503 with Retry-After, and an error that is marked as retryable."""
    server = Server("x", drain_timeout=60)
    gate: list[asyncio.Event] = []
    begun = threading.Event()

    @server.tool
    async def wait() -> str:
        gate.append(asyncio.Event())
        begun.set()
        await gate[0].wait()
        return "done"

    app: list[Any] = []
    real = server.asgi
    monkeypatch.setattr(server, "asgi", lambda **options: app.append(real(**options)) or app[0])
    # uvicorn's next tick would close the port, on a busy machine before the request below is sent.
    may_close, drain = threading.Event(), _run.Shutdown.drain
    monkeypatch.setattr(_run.Shutdown, "drain", lambda self: drain(self) if may_close.is_set() else None)

    def work(port: int) -> None:
        answers: list[HttpReply] = []
        waiting = threading.Thread(target=lambda: answers.append(request(port, "POST", "/mcp", call("wait"))))
        waiting.start()
        assert begun.wait(GUARD)
        app[0].refuse_new()
        refused = request(port, "POST", "/mcp", call("wait"))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.json["error"]["data"] == {"retryable": True, "mayHaveRun": False}
        assert request(port).status == 503
        may_close.set()
        gate[0]._loop.call_soon_threadsafe(gate[0].set)  # type: ignore[attr-defined]  # the loop that waits on it
        waiting.join(GUARD)
        assert answers[0].text == "done"

    assert served(server, work, monkeypatch, health=True) == (0, [])


def test_wrap_app_adds_paths_beside_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    server = echoing()
    sockets = bind_sockets("127.0.0.1", 0)
    monkeypatch.setattr(_run, "bind_sockets", lambda host, port: sockets)

    def wrap_app(app: App) -> Asgi:
        async def asgi(scope: Any, receive: Any, send: Any) -> None:
            if scope["path"] == "/page":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"page"})
            else:
                await app(scope, receive, send)

        return asgi

    found: list[Any] = []

    def work() -> None:
        found.append(request(port_of(sockets), path="/page").body)
        found.append(request(port_of(sockets), "POST", "/mcp", call("echo", text="x")).text)
        server.drain()

    thread = threading.Thread(target=work)
    thread.start()
    exits: list[int] = []
    assert server.run(transport="http", wrap_app=wrap_app, exit_process=exits.append) == 0
    thread.join()
    assert found == [b"page", "x"]
    assert exits == []


def test_run_returns_after_server_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """`server.drain()` is thread-safe. As over stdio, `run()` returns."""
    server = echoing()
    sockets = bind_sockets("127.0.0.1", 0)
    monkeypatch.setattr(_run, "bind_sockets", lambda host, port: sockets)

    def work() -> None:
        assert request(port_of(sockets), "POST", "/mcp", call("echo", text="x")).text == "x"
        server.drain()

    thread = threading.Thread(target=work)
    thread.start()
    assert server.run(transport="http") == 0
    thread.join()


def test_metadata_contains_the_selected_port(monkeypatch: pytest.MonkeyPatch) -> None:
    auth = BearerAuth(keys("alice-0123456789abcdef"), authorization_servers=["https://auth.example.com"])

    def work(port: int) -> None:
        found = request(port, path="/.well-known/oauth-protected-resource/mcp").json
        assert found["resource"] == f"http://127.0.0.1:{port}/mcp"
        challenge = request(port, "POST", "/mcp", call("echo")).headers["www-authenticate"]
        assert f'resource_metadata="http://127.0.0.1:{port}/.well-known/oauth-protected-resource/mcp"' in challenge

    served(echoing(), work, monkeypatch, auth=auth)


def test_the_access_log_is_optional_and_only_trusted_proxies_are_believed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def work(port: int) -> None:
        request(port, path="/health?access_token=secret", x_forwarded_for="203.0.113.9")

    with caplog.at_level(logging.INFO, "jackstay"):
        served(echoing(), work, monkeypatch, health=True)
        assert "/health" not in caplog.text
        served(echoing(), work, monkeypatch, health=True, access_log=True)
        assert "127.0.0.1:" in caplog.text
        assert "203.0.113.9" not in caplog.text
        served(echoing(), work, monkeypatch, health=True, access_log=True, trusted_proxies=("127.0.0.1",))
        assert "203.0.113.9" in caplog.text
    assert "secret" not in caplog.text
    assert "GET /health 200" in caplog.text


def test_listening_on_every_address_without_hosts_logs_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(port: int) -> None:
        assert request(port, "POST", "/mcp", call("echo", text="x"), host="mcp.example.com").status == 403

    served(echoing(), work, monkeypatch, host="0.0.0.0", sse_path="/sse")
    assert "only requests to localhost are accepted" in caplog.text
    announced = capsys.readouterr().err
    assert re.search(r"serves http://localhost:(\d+)/mcp and http://localhost:\1/sse$", announced, re.MULTILINE)


def test_a_port_in_use_is_reported_before_anything_is_started() -> None:
    taken = bind_sockets("127.0.0.1", 0)
    try:
        with pytest.raises(TransportError, match="the port is already in use"):
            Server("x").run(transport="http", port=port_of(taken))
    finally:
        taken[0].close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for localhost."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def test_a_certificate_enables_tls(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cert, key = certificate

    def work(port: int) -> None:
        context = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection("localhost", port, timeout=GUARD, context=context)
        assert send_request(connection, "POST", "/mcp", call("echo", text="safe")).text == "safe"
        connection.close()

    served(echoing(), work, monkeypatch, certfile=str(cert), keyfile=str(key))
    assert "serves https://127.0.0.1:" in capsys.readouterr().err


def test_an_invalid_certificate_is_reported_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("not a certificate")
    with pytest.raises(UsageError, match="cannot load certfile and keyfile"):
        Server("x").run(transport="http", port=0, certfile=str(tmp_path / "cert.pem"))


# --- as a worker, and as a supervisor ---------------------------------------------------------------------------------


def test_a_worker_uses_its_sockets_and_secrets_and_ends_with_its_supervisor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    supervisor_control, control = socket.socketpair()
    control.setblocking(False)
    sockets = bind_sockets("127.0.0.1", 0)
    server = echoing()
    monkeypatch.setattr(Worker, "from_env", lambda: Worker(control, sockets, (b"k" * 32,)))
    received: list[object] = []

    def work() -> None:
        received.append(supervisor_control.recv(1))
        received.append(request(port_of(sockets), "POST", "/mcp", call("echo", text="x")).text)
        supervisor_control.sendall(b"?")  # unknown data is ignored
        received.append(request(port_of(sockets), "POST", "/mcp", call("echo", text="y")).text)
        supervisor_control.close()

    thread = threading.Thread(target=work)
    thread.start()
    exits: list[int] = []
    assert run_http(server, {"port": 1, "workers": 4}, exit_process=exits.append) == 0
    thread.join()
    assert received == [b"r", "x", "y"]
    assert server._key_ring.verify(KeyRing((b"k" * 32,)).sign(b"x")) == b"x"
    assert "the supervisor process has exited" in caplog.text
    assert "serves" not in capsys.readouterr().err
    assert control.fileno() == -1


def test_configured_secrets_take_precedence_over_those_of_the_supervisor() -> None:
    server = Server("x", request_state_secrets=(b"o" * 32,))
    server._shared_secrets = (b"k" * 32,)
    assert server._key_ring.verify(KeyRing((b"k" * 32,)).sign(b"x")) is None


@pytest.mark.parametrize("secrets", [(), (b"o" * 32,)])
def test_the_supervisor_gets_what_workers_need(
    secrets: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[Any, ...]] = []

    class FakeSupervisor:
        def __init__(self, command: list[str], sockets: list[socket.socket], count: int, **more: Any) -> None:
            made.append((command, len(sockets), count, more))
            more["on_ready"]()

        def run(self) -> int:
            return 7

    monkeypatch.setattr(_run, "Supervisor", FakeSupervisor)
    monkeypatch.setattr(_run, "own_command", lambda: ["again"])
    server = Server("x", request_state_secrets=secrets, drain_timeout=3)
    assert server.run(transport="http", port=0, workers=3) == 7
    ((command, listening, count, more),) = made
    assert (command, listening, count) == (["again"], 1, 3)
    assert more["end_timeout"] == pytest.approx(3 + server.options.shutdown_timeout + _run.END_MARGIN)
    assert [len(secret) for secret in more["request_state_secrets"]] == [32]
    assert not secrets or more["request_state_secrets"] == secrets
    assert "(3 workers)" in capsys.readouterr().err


def test_the_address_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log line of another thread cannot come between the line and its newline."""
    writes: list[str] = []

    class Stderr(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stderr", Stderr())
    _run._announce("demo serves http://127.0.0.1:8000/mcp")
    assert list(filter(None, writes)) == ["demo serves http://127.0.0.1:8000/mcp\n"]
