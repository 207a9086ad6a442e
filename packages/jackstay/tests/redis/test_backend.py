"""The backend on a real Redis: the suites, what is checked when it is opened, and clients that are passed in."""

import asyncio
import importlib
import logging
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from jackstay.errors import TransportError, UsageError
from jackstay.redis import RedisBackend, use_redis
from jackstay.redis import _backend as module
from jackstay.server import Backend, Server
from jackstay.testing.backend_suite import BackendSuite
from jackstay.testing.store_suites import RECORD as SESSION
from jackstay.testing.task_store_suite import RECORD as TASK
from peers.redis_server import RedisServer, free_port
from scripted import certificates
from scripted.places import ROOT


class TestRedisBackend(BackendSuite):
    """Two backends, as in two processes."""

    @pytest.fixture(autouse=True)
    def _redis(self, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = redis_server
        redis_server.run("FLUSHALL")
        monkeypatch.setattr("jackstay.testing._guarded.GUARD_SECONDS", 200.0)

    def make(self) -> tuple[Backend, Backend]:
        return RedisBackend(self.server.url, timeout=100.0), RedisBackend(self.server.url, timeout=100.0)


async def test_a_client_can_be_passed_in(redis_server: RedisServer) -> None:
    """It is not closed, and both versions of its protocol work."""
    for protocol in (2, 3):
        client: Any = Redis(unix_socket_path=str(redis_server.socket), protocol=protocol, socket_timeout=100.0)
        backend = RedisBackend(client, timeout=100.0)
        await backend.open("client")
        await backend.limits.set("name", b"value", 60.0)
        assert await backend.limits.get("name") == b"value"
        assert repr(backend) == "<RedisBackend 'jackstay:{client}:'>"
        await backend.close()
        assert await client.ping()
        await client.aclose()


async def test_whatever_a_driver_raises_nobody_waits_and_the_bus_goes_on(redis_server: RedisServer) -> None:
    client: Any = Redis(unix_socket_path=str(redis_server.socket), socket_timeout=100.0)
    backend = RedisBackend(client, timeout=100.0)
    received = asyncio.Event()
    backend.changes.listen(lambda method, _: received.set() if method == "after" else None)
    pipeline, execute = client.pipeline, client.execute_command

    async def fail(*_: Any, **__: Any) -> None:
        client.pipeline, client.execute_command = pipeline, execute
        raise RuntimeError("a defect of the driver")

    def failing(**options: Any) -> Any:
        made = pipeline(**options)
        made.execute = fail
        return made

    await backend.open("driver")
    client.pipeline = failing
    with pytest.raises(TransportError, match="a defect of the driver"):
        await backend.sessions.load("id", 60.0)
    client.execute_command = fail
    while client.execute_command is fail:  # until the bus has read once more
        await asyncio.sleep(0.01)
    backend.changes.publish("after", "")
    await received.wait()
    await backend.close()
    await client.aclose()


def test_a_client_that_decodes_is_refused(redis_server: RedisServer) -> None:
    with pytest.raises(UsageError, match="decode_responses"):
        RedisBackend(Redis(unix_socket_path=str(redis_server.socket), decode_responses=True))


def test_a_command_gives_a_server_a_backend(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By a URL, or by a variable that keeps its password out of the list of processes."""
    monkeypatch.setenv("WHERE", redis_server.url)
    monkeypatch.delenv("REQUEST_STATE_SECRET", raising=False)
    for target in (redis_server.url, "WHERE"):
        server = Server("command")
        use_redis(server, target)
        assert isinstance(server._backend, RedisBackend)
    assert "REQUEST_STATE_SECRET is not set" in caplog.text
    caplog.clear()
    monkeypatch.setenv("REQUEST_STATE_SECRET", "a secret of 16 or more")
    server = Server("command")
    use_redis(server, "WHERE")
    assert server.options.request_state_secrets == (b"a secret of 16 or more",)
    own = Server("command", request_state_secrets=(b"its own secret here",))
    use_redis(own, "WHERE")
    assert own.options.request_state_secrets == (b"its own secret here",)
    assert caplog.text == ""
    with pytest.raises(UsageError, match="not 'NOWHERE'"):
        use_redis(Server("command"), "NOWHERE")
    monkeypatch.setenv("REQUEST_STATE_SECRET", "short")
    with pytest.raises(UsageError, match="at least 16"):
        use_redis(Server("command"), "WHERE")


def test_a_malformed_url_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError) as caught:
        RedisBackend("http://user:secret@host")
    assert "secret" not in str(caught.value)


async def test_wrong_credentials_are_refused() -> None:
    with RedisServer(requirepass="right") as server:
        for url in (server.url, f"unix://:wrong@{server.socket}"):
            with pytest.raises(UsageError, match="Redis refused the credentials"):
                await RedisBackend(url, timeout=100.0).open("auth")
        backend = RedisBackend(f"unix://:right@{server.socket}", timeout=100.0)
        await backend.open("auth")
        await backend.close()


async def use_everything(backend: RedisBackend, name: str) -> None:
    """Use each part of a backend once."""
    received: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    await backend.open(name)
    backend.changes.listen(lambda *message: received.put_nowait(message))
    await backend.sessions.save("a", SESSION, 60.0)
    assert await backend.sessions.load("a", 60.0) == SESSION
    await backend.events.append_many("a", [("s", 0, b"x"), ("s", 1, b"y")])
    assert await backend.events.replay("a", "s", -1) == [(0, b"x"), (1, b"y")]
    assert (await backend.limits.increment("a", 60.0))[0] == 1
    await backend.tasks.now()
    assert await backend.tasks.create(TASK, 1) == TASK
    backend.tasks._has_replicas = True
    with pytest.raises(TransportError, match="no replica of Redis confirmed"):
        await backend.tasks.create(TASK, 1)
    assert await backend.tasks.due(1e9, 1, queued=True) == [TASK]
    assert await backend.tasks.delete(TASK)
    backend.changes.join("w")
    while not await backend.changes.send("w", "letter", "b"):
        pass  # until it has joined
    backend.changes.publish("change", "c")
    assert {await received.get() for _ in range(2)} == {("letter", "b"), ("change", "c")}
    await backend.close()


async def test_a_user_over_tls_needs_only_the_documented_rights(tmp_path: Path) -> None:
    _, authority = certificates.make(tmp_path)
    chain = str(tmp_path / "server.pem")
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    (rights,) = re.findall(r"`(\+@read [^`]+) ~jackstay:\{files\}:\*`", page)
    with RedisServer(
        tls_cert_file=chain, tls_key_file=chain, tls_ca_cert_file=str(authority), tls_auth_clients="no"
    ) as server:
        server.run("ACL", "SETUSER", "worker", "on", ">secret", "~jackstay:{acl}:*", *rights.split())
        port = free_port(server, "tls-port")
        url = f"rediss://worker:secret@127.0.0.1:{port}/0?ssl_ca_certs={authority}"
        await use_everything(RedisBackend(url, timeout=100.0), "acl")
        with pytest.raises(UsageError, match="Redis refused the credentials"):
            await RedisBackend(url.replace("secret", "wrong"), timeout=100.0).open("acl")


async def test_a_cluster_can_be_used() -> None:
    with cluster() as (server, port):
        server.run("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while b"cluster_state:ok" not in server.run("CLUSTER", "INFO"):
            await asyncio.sleep(0.01)
        client = RedisCluster(host="127.0.0.1", port=port, socket_timeout=100.0)
        await use_everything(RedisBackend(client, timeout=100.0), "cluster")
        await client.aclose()


@contextmanager
def cluster() -> Iterator[tuple[RedisServer, int]]:
    """Start a node of a cluster on free ports, which another program may take before it does."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
            ports = [int(row.getsockname()[1]) for row in (first, second)]
        server = RedisServer(port=str(ports[0]), cluster_port=str(ports[1]), cluster_enabled="yes")
        try:
            server.__enter__()
        except AssertionError:
            continue
        try:
            yield server, ports[0]
        finally:
            server.__exit__(None, None, None)
        return


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"redis_version": "7.0.1", "maxmemory_policy": "allkeys-lru", "aof_enabled": 1}, "it may evict sessions"),
        ({"redis_version": "7.0.1", "aof_enabled": 0}, "sessions do not survive its restart"),
        ({"a node": {"redis_version": "7.0.1", "aof_enabled": 0}}, "sessions do not survive its restart"),
        ({"redis_version": "7.0.1", "aof_enabled": 1}, ""),
    ],
)
def test_settings_that_lose_data_are_logged(info: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jackstay.redis"):
        module._check(info)
    assert text in caplog.text
    assert bool(text) == bool(caplog.text)


def test_an_old_redis_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Redis 6\.0\.9 is too old"):
        module._check({"redis_version": "6.0.9"})


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    monkeypatch.delitem(sys.modules, "jackstay.redis._engine")
    with pytest.raises(UsageError, match="needs the extra `redis`"):
        importlib.import_module("jackstay.redis._engine")
