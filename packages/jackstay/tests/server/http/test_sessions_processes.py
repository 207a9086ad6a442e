"""Sessions that two processes share, behind a proxy that sends each request to the next one.

They share a file and a bus over sockets, as a user may write them, or a real Redis.
"""

import asyncio
import socket
import sqlite3
import sys
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from jackstay import Client, McpError, connect
from jackstay.types import ElicitResult
from peers.http_process import HANDSHAKE, STATELESS, Serving, call, initialize, post, stateless_call
from peers.nginx import Nginx
from peers.redis_server import RedisServer
from peers.shared_processes import SharedServers, processes, redis_servers, shared_servers

# `make test` installs them on Debian.
NEEDS_REDIS = pytest.mark.skipif(sys.platform != "linux", reason="needs redis-server")
NEEDS_NGINX = pytest.mark.skipif(sys.platform != "linux", reason="needs nginx")
VERSIONS = pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])


@pytest.fixture(scope="module", params=["file", pytest.param("redis", marks=NEEDS_REDIS)])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    if request.param == "file":
        with shared_servers(tmp_path_factory.mktemp("shared")) as started:
            yield started
    else:
        with RedisServer() as redis, redis_servers(redis) as started:
            yield started


def new_client(servers: SharedServers, version: str) -> Client:
    return connect(servers.proxy.url, versions=(version,))


def confirm_subjects(client: Client, count: int) -> None:
    """Respond to `count` elicitations at once with their own subject, when all of them have arrived."""
    barrier = asyncio.Barrier(count)

    @client.elicitation.handle
    async def elicit(params: Any) -> ElicitResult:
        await barrier.wait()
        return ElicitResult(action="accept", content={"subject": params.message})


@VERSIONS
async def test_simultaneous_elicitations_get_their_own_responses(servers: SharedServers, version: str) -> None:
    client = new_client(servers, version)
    confirm_subjects(client, 4)
    async with client:
        subjects = ["delete a", "delete b", "delete c", "delete d"]
        results = await asyncio.gather(*(client.tools.call("confirm", {"subject": row}) for row in subjects))
        assert [result.text for result in results] == [f"{row}: {row}" for row in subjects]
        pids = {str(serving.process.pid) for serving in servers.processes}
        while pids:  # both processes serve the client
            pids.discard((await client.tools.call("pid")).text)


async def test_without_a_bus_an_elicitation_in_a_session_is_refused_at_once(tmp_path: Path) -> None:
    with shared_servers(tmp_path, has_bus=False) as servers:
        client = new_client(servers, HANDSHAKE)
        confirm_subjects(client, 1)
        async with client:
            result = await client.tools.call("confirm", {"subject": "delete"}, raise_on_error=False)
            assert result.is_error
            assert "no bus passes it on; use Server(changes=...)" in result.error_text


@VERSIONS
async def test_a_change_in_any_process_reaches_the_client(servers: SharedServers, version: str) -> None:
    client = new_client(servers, version)
    received: asyncio.Queue[str] = asyncio.Queue()
    client.on_notification(lambda notification: received.put_nowait(notification.method))
    async with client:
        await client.resources.subscribe("memo://1", received.put_nowait)
        while received.empty():  # until the subscription to list changes is open
            await client.tools.call("add", {"name": "added"})
        for _ in range(4):  # two calls in each process
            await client.tools.call("add", {"name": "added"})
            while await received.get() != "notifications/tools/list_changed":
                pass
            await client.tools.call("update", {"uri": "memo://1"})
            while await received.get() != "memo://1":
                pass


@VERSIONS
async def test_a_cancelled_call_is_cancelled_in_its_process(servers: SharedServers, version: str) -> None:
    async with new_client(servers, version) as client:
        for _ in range(2):  # one in each process, if no other request comes between
            call = asyncio.ensure_future(client.tools.call("wait"))
            counts = [sum(line == "cancelled" for line in serving.lines) for serving in servers.processes]
            begun = await asyncio.to_thread(servers.wait_for_next, "begun")
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(servers.processes[begun].wait_for_line, "cancelled", counts[begun] + 1)


async def test_a_session_ends_in_all_processes(servers: SharedServers) -> None:
    async with new_client(servers, HANDSHAKE) as client:
        await asyncio.gather(*(client.tools.call("pid") for _ in range(4)))
        call = asyncio.ensure_future(client.tools.call("wait", raise_on_error=False))
        counts = [sum(line == "cancelled" for line in serving.lines) for serving in servers.processes]
        begun = await asyncio.to_thread(servers.wait_for_next, "begun")
    with pytest.raises(Exception):  # noqa: B017  # the client was stopped
        await call
    await asyncio.to_thread(servers.processes[begun].wait_for_line, "cancelled", counts[begun] + 1)


def count_progress_events(path: Path) -> int:
    with closing(sqlite3.connect(path, timeout=60)) as events:
        rows = events.execute("SELECT data FROM events").fetchall()
    return sum(b"notifications/progress" in data for (data,) in rows)


async def test_the_call_of_a_killed_process_ends_with_an_unknown_outcome(tmp_path: Path) -> None:
    """The client resumes its stream at the other process, which finds the first one dead."""
    with shared_servers(tmp_path, has_events=True) as servers:
        async with new_client(servers, HANDSHAKE) as client:
            await asyncio.gather(*(client.tools.call("pid") for _ in range(4)))
            has_begun = asyncio.Event()
            call = asyncio.ensure_future(client.tools.call("wait", timeout=200, on_progress=lambda _: has_begun.set()))
            begun = await asyncio.to_thread(servers.wait_for_next, "begun")
            await has_begun.wait()
            # Events are stored after they were sent; one that was not stored cannot be resumed.
            while not count_progress_events(tmp_path / "shared.db"):
                await asyncio.sleep(0.01)
            servers.processes[begun].process.kill()
            with pytest.raises(McpError, match="whether the request completed is unknown") as caught:
                await call
            assert caught.value.may_have_run


def count_stored_progress(redis: RedisServer) -> int:
    keys = redis.run("KEYS", "jackstay:{shared}:e:*")
    return sum(b"notifications/progress" in str(redis.run("XRANGE", key, "-", "+")).encode() for key in keys)


@NEEDS_REDIS
async def test_with_redis_the_call_of_a_killed_process_ends_with_an_unknown_outcome() -> None:
    with RedisServer() as redis, redis_servers(redis) as servers:
        async with new_client(servers, HANDSHAKE) as client:
            await asyncio.gather(*(client.tools.call("pid") for _ in range(4)))
            has_begun = asyncio.Event()
            call = asyncio.ensure_future(client.tools.call("wait", timeout=200, on_progress=lambda _: has_begun.set()))
            begun = await asyncio.to_thread(servers.wait_for_next, "begun")
            await has_begun.wait()
            while not count_stored_progress(redis):
                await asyncio.sleep(0.01)
            servers.processes[begun].process.kill()
            with pytest.raises(McpError, match="whether the request completed is unknown") as caught:
                await call
            assert caught.value.may_have_run


async def error_of(call: Awaitable[object]) -> McpError | None:
    try:
        await call
    except McpError as error:
        return error
    return None


@NEEDS_REDIS
async def test_while_redis_is_down_stateless_calls_go_on_and_sessions_continue_afterwards() -> None:
    with RedisServer(appendonly="yes") as redis, redis_servers(redis) as servers:
        async with new_client(servers, HANDSHAKE) as old, new_client(servers, STATELESS) as stateless:
            changes: asyncio.Queue[str] = asyncio.Queue()
            stateless.on_notification(lambda notification: changes.put_nowait(notification.method))
            await stateless.tools.list()
            while changes.empty():  # until the subscription to list changes is open
                await stateless.tools.call("add", {"name": "added"})
            for _ in range(2):
                await old.tools.call("pid")
            await asyncio.to_thread(redis.kill)
            for _ in range(4):
                assert (await stateless.tools.call("pid")).text
            while not changes.empty():
                changes.get_nowait()
            await asyncio.to_thread(redis.start)
            # A worker that has the session serves it; another one may refuse it until Redis responds.
            while (error := await error_of(old.tools.call("pid"))) is not None:
                assert error.may_have_run is False
            await changes.get()  # the gap: anything may have changed


@NEEDS_REDIS
async def test_subscriptions_at_two_processes_are_joined_and_a_new_process_changes_nothing() -> None:
    """The proxy alternates, so each of the processes gets every other subscription."""
    with RedisServer() as redis, redis_servers(redis) as servers:
        async with new_client(servers, HANDSHAKE) as client:
            received: asyncio.Queue[str] = asyncio.Queue()
            client.on_notification(lambda notification: received.put_nowait(notification.method))
            uris = [f"memo://{number}" for number in range(4)]
            for uri in uris:
                await client.resources.subscribe(uri, received.put_nowait)
            with processes(redis) as others:
                await asyncio.to_thread(lambda: [serving.port for serving in others])
            for uri in uris:
                await client.tools.call("update", {"uri": uri})
                while (found := await received.get()) != uri:
                    assert found == "notifications/resources/updated"


@NEEDS_REDIS
def test_the_limit_of_sessions_holds_in_each_process_and_evicts_none_of_another() -> None:
    with RedisServer() as redis, redis_servers(redis, max_sessions=2, health=True) as servers:
        ids = []
        for _ in range(5):
            opened = post(servers.proxy.port, initialize())
            ids.append({"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": HANDSHAKE})
            assert (
                post(servers.proxy.port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, ids[-1]).status
                == 202
            )
        for headers in ids * 2:
            assert post(servers.proxy.port, call("pid"), headers).status == 200
        for serving in servers.processes:
            assert serving.request("GET", "/health").json["sessions"] <= 2


@NEEDS_REDIS
def test_the_stream_of_a_cancelled_call_cannot_be_resumed_at_any_process() -> None:
    with RedisServer() as redis, redis_servers(redis) as servers:
        session = post(servers.proxy.port, initialize()).headers["mcp-session-id"]
        headers = {"mcp-session-id": session, "mcp-protocol-version": HANDSHAKE}
        post(servers.proxy.port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        message = call("wait")
        message["params"]["_meta"] = {"progressToken": 1}
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(post, servers.proxy.port, message, headers)
            begun = servers.wait_for_next("begun")
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            assert post(servers.proxy.port, cancel, headers).status == 202
            stream = running.result(200.0).body
        last = next(line for line in stream.splitlines() if line.startswith(b"id:")).partition(b":")[2].strip().decode()
        more = {**headers, "accept": "text/event-stream", "last-event-id": last}
        for serving in servers.processes:
            while (resumed := serving.request("GET", "/mcp", headers=more)).status == 200:
                pass  # events are stored after they were sent
            assert resumed.status == 400
        # A client that closed its response is gone, and does not read too slowly.
        assert not [line for line in servers.processes[begun].lines if "too slowly" in line]


@NEEDS_REDIS
def test_events_of_one_turn_are_stored_together_and_resumed_at_the_other_process() -> None:
    with RedisServer() as redis, redis_servers(redis) as servers:
        first, second = servers.processes
        session = post(first.port, initialize()).headers["mcp-session-id"]
        headers = {"mcp-session-id": session, "mcp-protocol-version": HANDSHAKE}
        post(first.port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        message = call("report", count=50)
        message["params"]["_meta"] = {"progressToken": 1}
        redis.run("CONFIG", "RESETSTAT")
        sent = event_ids(post(first.port, message, headers).body)
        assert len(sent) > 50
        # They are stored after they were sent.
        while not any(redis.run("XLEN", key) == len(sent) for key in redis.run("KEYS", "jackstay:{shared}:e:*")):
            pass
        assert redis.run("INFO", "commandstats")["cmdstat_eval"]["calls"] < 25
        more = {**headers, "accept": "text/event-stream", "last-event-id": sent[0]}
        assert event_ids(second.request("GET", "/mcp", headers=more).body) == sent[1:]


def event_ids(stream: bytes) -> list[str]:
    return [line[3:].strip().decode() for line in stream.splitlines() if line.startswith(b"id:")]


@NEEDS_REDIS
def test_a_process_above_its_limit_of_requests_refuses_and_the_other_serves() -> None:
    with RedisServer() as redis, redis_servers(redis, max_requests=1) as servers:
        first, second = servers.processes
        with ThreadPoolExecutor(1) as thread:
            thread.submit(stateless_call, first.port, "wait")
            first.wait_for_line("begun")
            refused = stateless_call(first.port, "pid")
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert refused.json["error"]["data"] == {"retryable": True, "mayHaveRun": False, "reason": "busy"}
            assert stateless_call(second.port, "pid").text == str(second.process.pid)
            first.process.kill()


@NEEDS_NGINX
def test_nginx_uses_a_server_as_soon_as_it_runs_again() -> None:
    """Both were down within the same seconds, so that nginx knows none that did not fail."""
    with Serving() as first, Serving() as second, Nginx(first.port, second.port) as nginx:
        ports = (first.port, second.port)
        for serving in (first, second):
            assert stateless_call(nginx.port, "pid").status == 200
            serving.process.kill()
            serving.process.wait()
        for _ in range(4):
            assert stateless_call(nginx.port, "pid").status == 502
        with Serving(port=ports[0]) as again:
            assert again.port == ports[0]
            for _ in range(4):
                assert stateless_call(nginx.port, "pid").text == str(again.process.pid)


@NEEDS_NGINX
def test_nginx_passes_on_what_a_machine_does_not_accept() -> None:
    """Its queue of connections is full, so it responds to no packet, as a machine without power."""
    with Serving() as serving, ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        nginx = stack.enter_context(Nginx(full.getsockname()[1], serving.port))
        for _ in range(3):
            assert stateless_call(nginx.port, "pid").text == str(serving.process.pid)
