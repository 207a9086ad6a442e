"""The official SDKs with two server processes that share sessions, behind a proxy that alternates between them.

They share a file and a bus over sockets, or a Redis; in front of the latter there is also a real nginx.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interop.known_clients import PROGRAMS
from interop.peers import BY_NAME, node
from jackstay import connect
from jackstay.types import ElicitResult
from peers.http_process import HANDSHAKE, INITIALIZED, initialize, post, stateless_call
from peers.redis_server import RedisServer
from peers.round_robin import RoundRobin
from peers.shared_processes import SharedServers, nginx_servers, processes, redis_servers, shared_servers

PROGRAM_SECONDS = 150.0


CLIENTS = pytest.mark.parametrize(
    ("peer", "mode", "revision"),
    [("sdk1", "", "2025-11-25"), ("sdk2", "legacy", "2025-11-25"), ("sdk2", "auto", "2026-07-28")],
)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module", params=[redis_servers, nginx_servers], ids=["round robin", "nginx"])
def redis_pair(request: pytest.FixtureRequest, redis: RedisServer) -> Iterator[SharedServers]:
    with request.param(redis) as servers:
        yield servers


@CLIENTS
def test_with_redis_any_process_serves_any_request(
    redis_pair: SharedServers, peer: str, mode: str, revision: str
) -> None:
    use_client(redis_pair, peer, mode, revision)


@pytest.mark.parametrize(
    ("peer", "mode", "revision"), [("typescript", "1", "2025-11-25"), ("typescript2", "auto", "2026-07-28")]
)
def test_the_typescript_client_behind_nginx(redis: RedisServer, peer: str, mode: str, revision: str) -> None:
    with nginx_servers(redis) as servers:
        use_client(servers, peer, mode, revision)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_our_client_behind_nginx(redis: RedisServer, version: str) -> None:
    with nginx_servers(redis) as servers:
        client = connect(servers.proxy.url, versions=(version,))

        @client.elicitation.handle
        async def elicit(params: Any) -> ElicitResult:
            return ElicitResult(action="accept", content={"subject": params.message})

        async with client:
            results = await asyncio.gather(*(client.tools.call("confirm", {"subject": str(row)}) for row in range(8)))
            assert [result.text for result in results] == [f"{row}: {row}" for row in range(8)]
            pids = {str(serving.process.pid) for serving in servers.processes}
            while pids:  # both processes serve the client
                pids.discard((await client.tools.call("pid")).text)


@CLIENTS
def test_any_process_serves_any_request(peer: str, mode: str, revision: str, tmp_path: Path) -> None:
    """Responses, cancellations and changes reach the process or the client that they concern."""
    with shared_servers(tmp_path) as servers:
        use_client(servers, peer, mode, revision)


HANDSHAKE_CLIENTS = (("sdk1", ""), ("sdk2", "legacy"))


def test_without_a_bus_an_elicitation_in_a_session_is_refused_at_once(tmp_path: Path) -> None:
    with shared_servers(tmp_path, has_bus=False) as servers:
        for peer, mode in HANDSHAKE_CLIENTS:
            assert "no bus passes it on" in text_of(call_once(servers.proxy.url, peer, mode, "confirm"))


def test_the_calls_of_killed_processes_end_with_an_unknown_outcome() -> None:
    """Both clients resume their streams at a process that is left."""
    with RedisServer() as redis, processes(redis, 3) as each, RoundRobin(*(row.port for row in each)) as proxy:
        running = [call_once(proxy.url, peer, mode, "wait") for peer, mode in HANDSHAKE_CLIENTS]
        servers = SharedServers(each, proxy, None)
        begun = {servers.wait_for_next("begun") for _ in running}
        # Events are stored after they were sent; one that was not stored cannot be resumed.
        while count_stored_progress(redis) < len(running):
            pass
        for index in begun:
            each[index].process.kill()
        for program in running:
            assert "whether the request completed is unknown" in text_of(program)


@pytest.mark.parametrize(("peer", "mode"), HANDSHAKE_CLIENTS)
def test_the_get_stream_of_a_killed_process_continues_at_another_one(redis: RedisServer, peer: str, mode: str) -> None:
    with processes(redis, 3) as each, RoundRobin(*(row.port for row in each)) as proxy:
        servers = SharedServers(each, proxy, None)
        program = call_once(proxy.url, peer, mode, "standing")
        paused = [servers.wait_for_next("paused")]
        (owner,) = {index for index, line in proxy.log if line.startswith("GET")}
        if paused[0] == owner:  # its call must end first; the next one is at another process
            resume(servers, owner)
            paused.append(servers.wait_for_next("paused"))
        assert paused[-1] != owner
        each[owner].process.kill()
        each[owner].process.wait()
        resume(servers, paused[-1])
        if len(paused) == 1:
            resume(servers, servers.wait_for_next("paused"))
        seen = seen_by(program)
        assert seen["paused"] == ["resumed", "resumed"]
        # The second change may be found out by a comparison, and announced once more.
        assert seen["changes"] >= 2
        assert seen["updates"] == 1
        assert {index for index, line in proxy.log if line.startswith("GET")} - {owner}, "no other process has a stream"


def count_stored_progress(redis: RedisServer) -> int:
    keys = redis.run("KEYS", "jackstay:{shared}:e:*")
    return sum(b"notifications/progress" in str(redis.run("XRANGE", key, "-", "+")).encode() for key in keys)


def call_once(url: str, peer: str, mode: str, tool: str) -> "subprocess.Popen[str]":
    """Start a client that calls a tool and prints the text of its result or error."""
    command = [BY_NAME[peer].python, PROGRAMS / f"shared_{peer}.py", *([mode] if mode else []), url, tool]
    pipe = subprocess.PIPE
    return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def text_of(program: "subprocess.Popen[str]") -> str:
    output, errors = program.communicate(timeout=PROGRAM_SECONDS)
    assert program.returncode == 0, errors
    return str(json.loads(output)["text"])


def use_client(servers: SharedServers, peer: str, mode: str, revision: str) -> None:
    cancelled = [serving.lines.count("cancelled") for serving in servers.processes]
    if peer.startswith("typescript"):
        command = [node(), PROGRAMS / "shared_typescript.mjs", BY_NAME[peer].home, mode, servers.proxy.url]
    else:
        command = [BY_NAME[peer].python, PROGRAMS / f"shared_{peer}.py", *([mode] if mode else []), servers.proxy.url]
    done = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["revision"] == revision
    assert seen["pids"] == sorted(str(serving.process.pid) for serving in servers.processes)
    assert seen["confirmed"] == {f"delete {number}": f"delete {number}: delete {number}" for number in range(8)}
    assert seen["changes"] >= 4
    assert seen["updates"] >= 4
    began = servers.wait_for_next("begun")
    servers.processes[began].wait_for_line("cancelled", cancelled[began] + 1)
    for serving in servers.processes:
        # The client has deleted its session, and closed responses: it is gone, and does not read too slowly.
        while serving.request("GET", "/health").json["sessions"]:
            pass
        assert not [line for line in serving.lines if "too slowly" in line]


# --- one fault each ---------------------------------------------------------------------------------------------------


def run_scenario(servers: SharedServers, peer: str, mode: str, scenario: str) -> "subprocess.Popen[str]":
    return call_once(servers.proxy.url, peer, mode, scenario)


def seen_by(program: "subprocess.Popen[str]") -> Any:
    output, errors = program.communicate(timeout=PROGRAM_SECONDS)
    assert program.returncode == 0, errors
    return json.loads(output)


def resume(servers: SharedServers, index: int) -> None:
    """End the call of `pause` in this process."""
    assert stateless_call(servers.processes[index].port, "resume").text == "done"


@CLIENTS
def test_processes_that_start_are_no_change(redis: RedisServer, peer: str, mode: str, revision: str) -> None:
    """They register their tools and resources, which concerns nobody."""
    with redis_servers(redis) as servers:
        program = run_scenario(servers, peer, mode, "changes")
        paused = servers.wait_for_next("paused")
        with processes(redis) as others:
            assert all(other.port for other in others)
            resume(servers, paused)
            assert seen_by(program)["changes"] == 1


@CLIENTS
def test_many_idle_sessions_are_limited_and_not_visited(
    redis: RedisServer, peer: str, mode: str, revision: str
) -> None:
    """The sessions that a client uses continue; subscriptions at both processes are joined."""
    with redis_servers(redis, max_sessions=20) as servers:
        for _ in range(100):
            idle = post(servers.proxy.port, initialize()).headers["mcp-session-id"]
            headers = {"mcp-session-id": idle, "mcp-protocol-version": HANDSHAKE}
            assert post(servers.proxy.port, INITIALIZED, headers).status == 202
        program = run_scenario(servers, peer, mode, "updates")
        seen = seen_by(program)
        assert (seen["changes"], seen["updates"]) == (4, 4)
        for serving in servers.processes:
            assert serving.request("GET", "/health").json["sessions"] <= 20
            # Of each change and each update at most the client, and at most once.
            assert int(stateless_call(serving.port, "visited").text) <= 8


@CLIENTS
def test_events_of_one_turn_are_stored_together(redis: RedisServer, peer: str, mode: str, revision: str) -> None:
    with redis_servers(redis) as servers:
        assert all(serving.port for serving in servers.processes)
        redis.run("CONFIG", "RESETSTAT")
        seen = seen_by(run_scenario(servers, peer, mode, "report"))
        assert seen == {"progress": list(range(50)), "text": "done"}
        assert redis.run("INFO", "commandstats").get("cmdstat_eval", {"calls": 0})["calls"] < 40


@CLIENTS
def test_a_process_above_its_limit_of_requests_refuses_at_once(
    redis: RedisServer, peer: str, mode: str, revision: str
) -> None:
    limit = 4
    with ThreadPoolExecutor(limit) as threads, redis_servers(redis, max_requests=limit) as servers:
        program = run_scenario(servers, peer, mode, "busy")
        paused = servers.wait_for_next("paused")
        full = servers.processes[1 - paused]

        def wait() -> None:
            while stateless_call(full.port, "wait").json.get("error", {}).get("data", {}).get("reason") == "busy":
                pass  # a call below had the last place

        for _ in range(limit):
            threads.submit(wait)
        while (refused := stateless_call(full.port, "pid")).status != 503:
            pass
        assert refused.headers["retry-after"] == "1"
        assert refused.json["error"]["data"] == {"retryable": True, "mayHaveRun": False, "reason": "busy"}
        resume(servers, paused)
        output, errors = program.communicate(timeout=PROGRAM_SECONDS)
        if peer == "sdk1":  # its whole client ends with the first response that is not 200, at once
            assert "503 Service Unavailable" in errors
            return
        assert program.returncode == 0, errors
        found = json.loads(output)["found"]
        served = str(servers.processes[paused].process.pid)
        assert served in found
        assert all(text == served or text.startswith("failed: MCPError") for text in found), found


@CLIENTS
def test_the_stream_of_a_cancelled_call_is_not_resumed_again_and_again(
    redis: RedisServer, peer: str, mode: str, revision: str
) -> None:
    with redis_servers(redis, retry=0.05) as servers:
        assert seen_by(run_scenario(servers, peer, mode, "cancelled"))["text"] == "awake"
        # The GET stream, a resumed one, and what an SDK tries once more; for two seconds, 40 times the interval.
        assert len([line for _, line in servers.proxy.log if line.startswith("GET")]) <= 5, servers.proxy.log
        for serving in servers.processes:
            assert not [line for line in serving.lines if "too slowly" in line]
