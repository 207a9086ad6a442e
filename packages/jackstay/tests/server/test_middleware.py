"""The ready-made middleware, in both eras; limits and caches by caller over HTTP; the store in memory."""

import json
import logging
from typing import Any

import pytest

from chaos.servers_own.conversation import STATELESS, connected
from jackstay import Context, Server, ToolError
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import (
    MemoryBackend,
    MemoryMiddlewareStore,
    RateLimit,
    ResponseCache,
    ResponseSizeLimit,
    Retry,
    StructuredLogging,
    Timing,
)
from jackstay.server._middleware import outcome_of
from jackstay.server.http import Principal
from scripted.asgi import http_client, initialize, stateless, tool

ERAS = ("2025-11-25", STATELESS)


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Tokens:
    """Verifies tokens such as `alice.admin`: the principal alice with the scope admin."""

    async def verify(self, token: str) -> Principal | None:
        name, _, scope = token.partition(".")
        return Principal(name, frozenset({scope}) if scope else frozenset())


def make(*middleware: Any) -> Server:
    server = Server("limited", middleware=middleware)
    calls = 0

    @server.tool(read_only=True, blocking=False)
    def count(step: int = 1, other: int = 0) -> int:
        nonlocal calls
        calls += step
        return calls

    @server.tool(blocking=False)
    def write(step: int = 1) -> int:
        nonlocal calls
        calls += step
        return calls

    @server.tool(blocking=False, read_only=True)
    def broken() -> str:
        nonlocal calls
        calls += 1
        raise ToolError(f"broken {calls}")

    @server.tool(read_only=True)
    async def confirm(ctx: Context) -> str:
        form: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return str((await ctx.elicit("Your name?", form)).content)

    @server.resource("test://long")
    def long() -> str:
        return "x" * 1000

    return server


async def text(peer: Any, name: str, **arguments: Any) -> str:
    return str((await peer.call(name, **arguments))["content"][0]["text"])


# --- rate limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
async def test_a_rate_limit_ends_with_its_window(version: str) -> None:
    clock = Clock()
    limit = RateLimit(2, per=10, store=MemoryMiddlewareStore(clock=clock))
    async with connected(make(limit), version) as peer:
        assert await text(peer, "count") == "1"
        await peer.result("tools/list")
        clock.now += 4
        result = await peer.call("count")
        assert result["isError"]
        assert result["content"][0]["text"] == "rate limit of 2 requests in 10 s exceeded; retry in 6 s"
        error = await peer.error("resources/read", {"uri": "test://long"})
        assert (error["code"], error["data"]) == (-32000, {"retryAfter": 6})
        clock.now += 6
        assert await text(peer, "count") == "2"


async def test_servers_with_one_backend_share_limits_and_results() -> None:
    """Two workers have equal servers. A server with another name shares nothing, even on the same backend."""
    backend = MemoryBackend()
    first, second, other = (Server(name, backend=backend) for name in ("a", "a", "b"))
    for number, server in enumerate((first, second, other)):
        server.add_middleware(RateLimit(2, by="tool"))
        server.add_middleware(ResponseCache())
        server.tool(name="read", read_only=True, blocking=False)(lambda number=number: number)
    async with connected(first) as one, connected(second) as two, connected(other) as three:
        assert await text(one, "read") == "0"
        assert await text(two, "read") == "0", "the result of the other worker"
        assert "rate limit of 2" in await text(two, "read")
        assert "rate limit of 2" in await text(one, "read")
        assert await text(three, "read") == "2"


async def test_a_store_of_its_own_is_not_that_of_the_backend() -> None:
    backend, store = MemoryBackend(), MemoryMiddlewareStore()
    server = Server("a", backend=backend, middleware=RateLimit(1, store=store))
    server.tool(name="read", blocking=False)(lambda: "x")
    async with connected(server) as peer:
        await text(peer, "read")
    assert ("1 counters" in repr(store), "0 counters" in repr(backend.limits)) == (True, True)


async def test_a_rate_limit_by_tool_counts_calls_of_each_tool() -> None:
    async with connected(make(RateLimit(1, by="tool"))) as peer:
        assert await text(peer, "count") == "1"
        assert await text(peer, "write") == "2"
        for _ in range(3):
            await peer.result("tools/list")
        assert "rate limit" in await text(peer, "count")


async def test_unknown_tools_do_not_displace_the_counters_of_tools() -> None:
    store = MemoryMiddlewareStore(max_keys=3)
    async with connected(make(RateLimit(2, by="tool", store=store))) as peer:
        for _ in range(3):
            last = await peer.call("write")
        assert last["isError"]
        assert (await peer.error("tools/call", {"name": "unknown0"}))["message"] == "unknown tool: unknown0"
        assert (await peer.error("tools/call", {"name": "unknown1"}))["message"] == "unknown tool: unknown1"
        for number in range(2, 10):
            assert (await peer.call(f"unknown{number}"))["isError"], "they are counted together"
        assert (await peer.call("write"))["isError"]


async def test_a_rate_limit_by_a_function_allows_requests_without_a_key() -> None:
    limit = RateLimit(1, by=lambda ctx: "writes" if ctx.params.get("name") == "write" else "")
    async with connected(make(limit)) as peer:
        for expected in ("1", "2"):
            assert await text(peer, "count") == expected
        assert await text(peer, "write") == "3"
        assert "rate limit" in await text(peer, "write")


async def post(http: Any, token: str, message: dict[str, Any]) -> str:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    response = await http.post(message, headers=headers)
    return str(response.json["result"]["content"][0]["text"])


async def test_principals_have_limits_of_their_own_over_http() -> None:
    async with http_client(make(RateLimit(1)).asgi(auth=Tokens())) as http:
        call = stateless("tools/call", {"name": "count", "arguments": {}})
        assert await post(http, "alice", call) == "1"
        assert await post(http, "bob", call) == "2"
        assert "rate limit" in await post(http, "alice.admin", tool("count"))


async def test_anonymous_callers_are_limited_by_address() -> None:
    for by in ("principal", "address"):
        async with http_client(make(RateLimit(1, by=by)).asgi()) as http:  # type: ignore[arg-type]  # a literal
            assert await post(http, "", tool("count")) == "1"
            assert "rate limit" in await post(http, "", tool("count"))


async def test_a_session_has_the_address_of_its_client() -> None:
    seen: list[str] = []

    def by(ctx: Context) -> str:
        seen.append(ctx._caller.address)
        return ""

    served = make(RateLimit(1, by=by)).asgi(sessions=True)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await served({**scope, "client": ("192.0.2.7", 5)}, receive, send)

    async with http_client(app) as http:
        session = (await http.post(initialize())).headers["mcp-session-id"]
        await http.post(tool("count"), headers={"mcp-session-id": session})
        await http.post(stateless("tools/list"))
    assert seen == ["192.0.2.7"] * 2


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
async def test_equal_calls_of_read_only_tools_are_cached(version: str) -> None:
    clock = Clock()
    cache = ResponseCache(ttl=5, store=MemoryMiddlewareStore(clock=clock))
    async with connected(make(cache), version, {"elicitation": {"form": {}}}) as peer:
        first = await peer.call("count", step=1, other=2)
        assert await peer.call("count", other=2, step=1) == first
        assert await text(peer, "count", step=2) == "3"
        assert [await text(peer, "write") for _ in range(2)] == ["4", "5"]
        clock.now += 5
        assert await text(peer, "count", step=1, other=2) == "6"
        assert [await text(peer, "broken") for _ in range(2)] == ["broken 7", "broken 8"], "errors are not cached"


async def test_a_result_that_requires_input_is_not_cached() -> None:
    async with connected(make(ResponseCache()), STATELESS, {"elicitation": {"form": {}}}) as peer:
        for name in ("Ada", "Grace"):
            required = await peer.result("tools/call", {"name": "confirm"})
            assert required["resultType"] == "input_required"
            (key,) = required["inputRequests"]
            responses = {key: {"action": "accept", "content": {"name": name}}}
            params = {"name": "confirm", "requestState": required["requestState"], "inputResponses": responses}
            assert name in (await peer.result("tools/call", params))["content"][0]["text"]


async def test_named_tools_are_cached_for_each_caller_or_for_all() -> None:
    call = stateless("tools/call", {"name": "write", "arguments": {}})
    async with http_client(make(ResponseCache(tools=["write"])).asgi(auth=Tokens())) as http:
        assert [await post(http, token, call) for token in ("a", "a", "b", "a.admin")] == ["1", "1", "2", "3"]
    async with http_client(make(ResponseCache(tools=["write"], shared=True)).asgi(auth=Tokens())) as http:
        assert [await post(http, token, call) for token in ("a", "b")] == ["1", "1"]
        assert await post(http, "a", tool("write")) == "2", "another revision has another encoding"


@pytest.mark.parametrize("shared", [False, True])
async def test_the_cache_does_not_serve_what_a_caller_may_not_call(shared: bool) -> None:
    names = ("scoped", "hidden", "disabled")
    server = Server("cached", middleware=[ResponseCache(tools=names, shared=shared)])
    server.tool(name="scoped", scopes={"admin"}, blocking=False)(lambda: "secret")
    server.tool(name="hidden", blocking=False)(lambda: "secret")
    server.tool(name="disabled", blocking=False)(lambda: "secret")
    server.visible("hidden", scopes={"admin"})
    async with http_client(server.asgi(auth=Tokens())) as http:
        for name in names:
            assert await post(http, "root.admin", stateless("tools/call", {"name": name, "arguments": {}})) == "secret"
        server.disable("disabled")
        for name in names:
            call = stateless("tools/call", {"name": name, "arguments": {}})
            response = await http.post(call, headers={"authorization": "Bearer alice"})
            assert "error" in response.json, name


async def test_anonymous_callers_differ_by_their_headers_and_sessions() -> None:
    server = Server("cached", middleware=[ResponseCache()])

    @server.tool(read_only=True)
    async def me(ctx: Context) -> str:
        return ctx.headers.get("x-forwarded-user", "") + ctx.headers.get("authorization", "") + str(ctx.request_id)

    call = stateless("tools/call", {"name": "me", "arguments": {}})
    async with http_client(server.asgi()) as http:
        found = []
        for number, headers in enumerate(
            (
                {"x-forwarded-user": "alice"},
                {"x-forwarded-user": "bob"},
                {"authorization": "Bearer a"},
                {"authorization": "Bearer b"},
                {"x-forwarded-user": "alice", "x-request-id": "7", "user-agent": "another"},
            )
        ):
            response = await http.post({**call, "id": number}, headers=headers)
            found.append(response.json["result"]["content"][0]["text"])
    assert found == ["alice0", "bob1", "Bearer a2", "Bearer b3", "alice0"]


async def test_calls_without_a_valid_name_are_not_cached() -> None:
    async with connected(make(ResponseCache())) as peer:
        for params in ({}, {"name": 5}, {"name": "unknown"}):
            assert (await peer.error("tools/call", params))["code"] == -32602


# --- size, timing, logging --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
async def test_a_large_result_is_an_error(version: str) -> None:
    async with connected(make(ResponseSizeLimit(500)), version) as peer:
        assert await text(peer, "count") == "1"
        error = await peer.error("resources/read", {"uri": "test://long"})
        assert "more than the limit of 500; request less" in error["message"]
    async with connected(make(ResponseSizeLimit(10)), version) as peer:
        result = await peer.call("count")
        assert result["isError"]
        assert "more than the limit of 10" in result["content"][0]["text"]


async def test_timing_reports_or_logs_every_request(caplog: pytest.LogCaptureFixture) -> None:
    reported: list[str] = []
    with caplog.at_level(logging.INFO, "jackstay.server.timing"):
        timings = (Timing(report=lambda request, _: reported.append(request)), Timing(), Timing(slow=1000.0))
        async with connected(make(*timings)) as peer:
            await peer.call("count")
            await peer.result("tools/list")
            await peer.error("tools/call", {"name": 7})
    assert reported == ["tools/call count", "tools/list", "tools/call"]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == reported


@pytest.mark.parametrize("version", ERAS)
async def test_each_request_is_logged_as_json(version: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jackstay.server.requests"):
        async with connected(make(StructuredLogging()), version) as peer:
            await peer.call("count")
            await peer.call("broken")
            await peer.error("resources/read", {"uri": "test://none"})
    rows = [json.loads(record.getMessage()) for record in caplog.records]
    assert [(row["method"], row["target"], row["outcome"]) for row in rows] == [
        ("tools/call", "count", "ok"),
        ("tools/call", "broken", "tool_error"),
        ("resources/read", "test://none", "jsonrpc"),
    ]
    assert all(row["ms"] >= 0 and row["version"] == version and row["id"] for row in rows)
    assert rows[0]["bytes"] > 10
    assert rows[2]["code"] in (-32002, -32602)


async def test_unexpected_exceptions_are_logged_by_class(caplog: pytest.LogCaptureFixture) -> None:
    async def failing(ctx: Context, call_next: Any) -> bytes:
        raise KeyError("x")

    with caplog.at_level(logging.INFO, "jackstay.server.requests"):
        async with connected(make(StructuredLogging(), failing)) as peer:
            await peer.error("tools/list")
    (row,) = [json.loads(record.getMessage()) for record in caplog.records if record.name.endswith("requests")]
    assert (row["outcome"], row["code"]) == ("KeyError", None)


def test_the_outcome_of_a_result() -> None:
    assert outcome_of(b"") == "ok"
    assert outcome_of(b'{"content":[]}') == "ok"
    assert outcome_of(b'{"content":[],"isError":true}') == "tool_error"
    assert outcome_of(b'{"resultType":"input_required"}') == "input_required"


# --- retries ----------------------------------------------------------------------------------------------------------


def flaky(error: Exception, failures: int, **options: Any) -> tuple[Server, list[int]]:
    server, calls = Server("flaky", middleware=[Retry(attempts=3, delay=0)]), [0]

    @server.tool(**options)
    async def fetch() -> str:
        calls[0] += 1
        if calls[0] <= failures:
            raise error
        return "fetched"

    return server, calls


@pytest.mark.parametrize("version", ERAS)
async def test_an_idempotent_tool_is_called_again(version: str) -> None:
    for options in ({"idempotent": True}, {"read_only": True}):
        server, calls = flaky(ConnectionResetError(), 2, **options)
        async with connected(server, version) as peer:
            assert await peer.text("fetch") == "fetched"
        assert calls == [3]


async def test_attempts_are_limited_and_other_failures_are_not_retried() -> None:
    cases: tuple[tuple[Exception, dict[str, bool], int], ...] = (
        (TimeoutError(), {"idempotent": True}, 3),
        (ValueError(), {"idempotent": True}, 1),
        (ToolError("no such city"), {"idempotent": True}, 1),
        (TimeoutError(), {}, 1),
        (TimeoutError(), {"idempotent": False}, 1),
    )
    for error, options, expected in cases:
        server, calls = flaky(error, 100, **options)
        async with connected(server) as peer:
            assert (await peer.call("fetch"))["isError"]
        assert calls == [expected], (error, options)


async def test_a_blocking_tool_is_retried() -> None:
    server, calls = Server("x", middleware=[Retry(delay=0, on=(KeyError, JsonRpcError))]), []

    @server.tool(idempotent=True)
    def fetch() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError
        return len(calls)

    async with connected(server) as peer:
        assert await peer.text("fetch") == "2"


# --- the store, and bad options ---------------------------------------------------------------------------------------


async def test_the_store_is_bounded() -> None:
    clock = Clock()
    store = MemoryMiddlewareStore(max_keys=3, max_bytes=10, clock=clock)
    for key in "abcd":
        assert await store.increment(key, 5) == (1, 5.0)
    assert (await store.increment("d", 5))[0] == 2
    assert (await store.increment("a", 5))[0] == 1, "the oldest was dropped"
    for key in "abcd":
        await store.set(key, b"xx", 5)
    assert [await store.get(key) for key in "abcd"] == [None, b"xx", b"xx", b"xx"]
    await store.set("e", b"x" * 9, 5)
    assert [await store.get(key) for key in "bcde"] == [None, None, None, b"x" * 9]
    await store.set("e", b"x" * 11, 5)
    assert await store.get("e") is None, "larger than the store"
    await store.set("f", b"f", 5)
    clock.now += 5
    assert await store.get("f") is None
    assert repr(store) == "<MemoryMiddlewareStore 3 counters, 0 values>"


def test_bad_options_are_rejected() -> None:
    wrong: Any = "x"
    for make_it, message in (
        (lambda: RateLimit(0), "limit must be an int from 1, not 0"),
        (lambda: RateLimit(1.5), "limit must be an int from 1, not 1.5"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: RateLimit(1, per=-1), "per must be a number greater than 0, not -1"),
        (lambda: RateLimit(1, by=wrong), "by must be 'principal', 'tool', 'address' or a function, not 'x'"),
        (lambda: ResponseCache(ttl=float("inf")), "ttl must be a number greater than 0, not inf"),
        (lambda: ResponseCache(tools="x"), "tools must be a collection of names, not 'x'"),
        (lambda: ResponseSizeLimit(wrong), "max_bytes must be an int from 1, not 'x'"),
        (lambda: Timing(slow=-1), "slow must be a number of at least 0, not -1"),
        (lambda: Timing(report=wrong), "report must be callable, not 'x'"),
        (lambda: Retry(0), "attempts must be an int from 1, not 0"),
        (lambda: Retry(on=()), r"on must be exception classes such as \(OSError,\), not \(\)"),
        (lambda: Retry(on=wrong), r"on must be exception classes such as \(OSError,\), not 'x'"),
        (lambda: MemoryMiddlewareStore(max_keys=0), "max_keys must be an int from 1, not 0"),
    ):
        with pytest.raises(UsageError, match=message):
            make_it()
