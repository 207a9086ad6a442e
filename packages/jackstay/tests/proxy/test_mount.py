"""Servers elsewhere, mounted in a server: lost and restored, late, and wrong."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from jackstay.client import Client, Config, Fleet, Notification, connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.proxy import Gateway, Proxy, ProxyOptions, _mirror, proxies_for
from jackstay.server import Server, Transform
from jackstay.testing import ScriptedError, ScriptedPeer, on_fake_clock
from jackstay.transport import memory_pair, stdio
from jackstay.types import META_LOG_LEVEL, CreateMessageResult, ResourceTemplateReference, TextContent
from scripted.between import FAST, HANDSHAKE, PAIRS, STATELESS


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def tools(*names: str) -> dict[str, Any]:
    return {"tools": [tool(name) for name in names]}


class Mounted:
    """A host with two mounted servers, `a` and `b`, and a client of it."""

    def __init__(self, host: Server, peers: dict[str, ScriptedPeer], stack: AsyncExitStack) -> None:
        self.host, self.peers, self._stack = host, peers, stack
        self.changed: asyncio.Queue[str] = asyncio.Queue()

    async def join(self, version: str = HANDSHAKE, **settings: Any) -> Client:
        pair = memory_pair("front")
        serving = asyncio.ensure_future(self.host.serve(pair.server))
        client = connect(pair.client, versions=(version,), **settings)

        @client.on_notification
        def received(notification: Notification) -> None:
            self.changed.put_nowait(notification.method)

        async def end() -> None:
            await client.stop()
            await serving

        await client.open()
        self._stack.push_async_callback(end)
        return client

    async def names(self, client: Client) -> list[str]:
        return [row.name for row in await client.tools.list()]


@asynccontextmanager
async def mounted(back: str = HANDSHAKE, **options: Any) -> AsyncIterator[Mounted]:
    host, peers = Server("host"), {}
    async with AsyncExitStack() as stack:
        for name in "ab":
            peer = peers[name] = await stack.enter_async_context(ScriptedPeer(back, {"tools": {}}, name=name))
            peer.on["tools/list"] = tools("t")
            peer.on["tools/call"] = {"content": [{"type": "text", "text": name}]}
            host.mount(Proxy(peer.target, ProxyOptions(**options), settings=FAST), prefix=name)
        async with AsyncExitStack() as clients:
            yield Mounted(host, peers, clients)


@pytest.mark.parametrize(("front", "back"), PAIRS)
@on_fake_clock
async def test_a_lost_server_costs_its_own_entries_which_come_back(front: str, back: str) -> None:
    async with mounted(back) as harness:
        client = await harness.join(front)
        assert await harness.names(client) == ["a_t", "b_t"]
        harness.peers["a"].crash()
        while await harness.names(client) != ["b_t"]:
            await asyncio.sleep(0.01)
        assert (await client.tools.call("b_t")).text == "b"
        assert (await client.tools.call("a_t")).text == "a", "the call waited for the restart"
        while await harness.names(client) != ["a_t", "b_t"]:
            await asyncio.sleep(0.01)


@on_fake_clock
async def test_a_list_changes_once_when_a_server_is_lost_and_once_when_it_is_back() -> None:
    async with mounted() as harness:
        client = await harness.join()
        await harness.names(client)
        harness.peers["a"].crash()
        await asyncio.sleep(5)
        assert await harness.names(client) == ["a_t", "b_t"]
        assert [harness.changed.get_nowait() for _ in range(harness.changed.qsize())] == [
            "notifications/tools/list_changed"
        ] * 2


@on_fake_clock
async def test_an_announced_change_is_listed_once() -> None:
    async with mounted() as harness:
        client, peer = await harness.join(), harness.peers["a"]
        await harness.names(client)
        peer.on["tools/list"] = tools("t", "u")
        for _ in range(100):  # a flood
            peer.notify("notifications/tools/list_changed")
        assert await harness.changed.get() == "notifications/tools/list_changed"
        assert await harness.names(client) == ["a_t", "a_u", "b_t"]
        await asyncio.sleep(5)
        assert harness.changed.empty()
        assert len(peer.got("tools/list")) <= 4


@on_fake_clock
async def test_a_server_that_is_down_at_the_start_appears_later(caplog: pytest.LogCaptureFixture) -> None:
    host, late = Server("host"), ScriptedPeer(capabilities={"tools": {}}, name="late")
    late.on["tools/list"] = tools("t")
    host.mount(Proxy(late.target, ProxyOptions(wait=1), settings={**FAST, "init_timeout": 1.0}), prefix="late")
    async with connect(host, versions=(HANDSHAKE,)) as client:
        assert client.server_capabilities.tools is not None
        assert await client.tools.list() == []
        assert "mounted without its entries until it is ready" in caplog.text
        calls: list[Any] = [
            client.tools.call("late_t"),
            client.prompts.get("late_p"),
            client.resources.read("a://late/x"),
        ]
        for call in calls:
            with pytest.raises(JsonRpcError, match="the upstream server is down; the call did not run") as caught:
                await call
            assert caught.value.data["retryable"] is True  # type: ignore[index,call-overload]
        await late.open()
        while not await client.tools.list():
            await asyncio.sleep(0.01)
    await late.close()


@on_fake_clock
async def test_a_server_that_stays_down_fails_its_calls_only() -> None:
    async with mounted(wait=2) as harness:
        client, peer = await harness.join(), harness.peers["a"]
        await harness.names(client)
        peer.reopens = False
        peer.crash()
        while await harness.names(client) != ["b_t"]:
            await asyncio.sleep(0.01)
        with pytest.raises(JsonRpcError, match="down") as caught:
            await client.tools.call("a_t")
        assert caught.value.data["mayHaveRun"] is False  # type: ignore[index,call-overload]
        assert (await client.tools.call("b_t")).text == "b"


def _raise(_: Any) -> Any:
    raise ScriptedError(-32603, "broken")


LIES: list[Any] = [
    {"tools": 7},
    {"tools": []},
    {},
    {"tools": [{"name": 7}, {"name": "u"}, tool("t"), tool("t")]},
    {"tools": [tool("x")], "nextCursor": "again"},
    {"tools": [], "nextCursor": 7},
    _raise,
]


@pytest.mark.parametrize("lie", LIES)
@on_fake_clock
async def test_invalid_lists_cost_only_their_server(lie: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mirror, "MAX_LIST_PAGES", 5)
    async with mounted() as harness:
        harness.peers["a"].on["tools/list"] = lie
        client = await harness.join()
        names = await harness.names(client)
        assert names[-1] == "b_t"
        assert names[:-1] in ([], ["a_t"])
        assert (await client.tools.call("b_t")).text == "b"


@pytest.mark.parametrize(("code", "attempts"), [(-32601, 1), (-32603, 3)])
@on_fake_clock
async def test_a_list_that_fails_costs_no_other_list_and_is_fetched_again(
    code: int, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Many servers declare resources and do not implement `resources/templates/list`: for them it is empty."""
    answers: list[Any] = [ScriptedError(code, "no")] * 2 + [
        {"resourceTemplates": [{"name": "x", "uriTemplate": "a://{x}"}]}
    ]

    def templates(_: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, ScriptedError):
            raise answer
        return answer

    async with mounted() as harness:
        peer = harness.peers["a"]
        peer.capabilities = {"tools": {}, "resources": {}, "prompts": {}}
        peer.on["resources/list"] = {"resources": [{"name": "r", "uri": "a://r"}]}
        peer.on["resources/templates/list"] = templates
        peer.on["prompts/list"] = None  # does not respond
        client = await harness.join()
        assert await harness.names(client) == ["a_t", "b_t"]
        assert [row.uri for row in await client.resources.list()] == ["a://a/r"]
        while len(peer.got("resources/templates/list")) < attempts:
            assert await client.resources.templates() == []
            await asyncio.sleep(1)
        peer.on["prompts/list"] = {"prompts": [{"name": "p"}]}
        while not await client.prompts.list():  # after the timeout
            await asyncio.sleep(1)
        assert [row.name for row in await client.resources.templates()] == ["x"] * (attempts > 1)
    assert caplog.text.count("cannot list the entries: resources/templates/list") == (attempts > 1)


@on_fake_clock
async def test_too_many_and_too_large_entries_are_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_mirror, "MAX_LISTED", 2)
    monkeypatch.setattr(_mirror, "MAX_ITEM_BYTES", 500)
    async with mounted() as harness:
        harness.peers["a"].on["tools/list"] = tools("1", "2", "3")
        harness.peers["b"].on["tools/list"] = {"tools": [{**tool("big"), "description": "x" * 500}, tool("small")]}
        client = await harness.join()
        assert await harness.names(client) == ["b_small"]
        assert "more than 2 entries" in caplog.text
        assert "more than 500 bytes" in caplog.text


@on_fake_clock
async def test_a_repeated_cursor_ends_the_list(caplog: pytest.LogCaptureFixture) -> None:
    async with mounted() as harness:
        harness.peers["a"].on["tools/list"] = {"tools": [{"name": 7}], "nextCursor": "again"}
        client = await harness.join()
        assert await harness.names(client) == ["b_t"]
        assert "tools/list returned the same cursor twice: 'again'" in caplog.text
        assert len(harness.peers["a"].got("tools/list")) == 2


@on_fake_clock
async def test_the_reasons_for_what_is_left_out_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with mounted() as harness:
        peer = harness.peers["a"]
        peer.on["tools/list"] = {"tools": [{"name": 7}, {"name": 8}, {"name": 9}, tool("t")]}
        client = await harness.join()
        for number in range(5):
            peer.on["tools/list"]["tools"][3] = tool(f"t{number}")
            peer.notify("notifications/tools/list_changed")
            await harness.changed.get()
        assert await harness.names(client) == ["a_t4", "b_t"]
        assert caplog.text.count("left out: invalid item in the list of tools") == 1
        assert "(and 2 more)" in caplog.text


@on_fake_clock
async def test_a_server_that_hangs_does_not_delay_the_others_for_long() -> None:
    async with mounted() as harness:
        harness.peers["a"].on["tools/list"] = None
        loop = asyncio.get_running_loop()
        began = loop.time()
        client = await harness.join()
        assert loop.time() - began <= _mirror.START_TIMEOUT + 0.1
        assert await harness.names(client) == ["b_t"]


@on_fake_clock
async def test_requests_of_a_shared_server_reach_only_the_client_whose_call_is_in_flight() -> None:
    async with mounted() as harness:
        peer = harness.peers["a"]
        peer.on["tools/call"] = None
        first, second = connect(harness.host, versions=(HANDSHAKE,)), connect(harness.host, versions=(HANDSHAKE,))
        for client, text in ((first, "one"), (second, "two")):

            @client.sampling.handle
            async def sample(_: Any, text: str = text) -> CreateMessageResult:
                return CreateMessageResult(role="assistant", content=TextContent(text=text), model="m")

        async with first, second:
            call = second.submit("tools/call", {"name": "a_t"})
            received = await peer.expect("tools/call")
            peer.request(1, "sampling/createMessage", {"messages": [], "maxTokens": 1})
            response = await peer.response_to(1)
            assert response["result"]["content"]["text"] == "two"
            other = first.submit("tools/call", {"name": "a_t"})
            await peer.expect("tools/call")
            peer.request(2, "sampling/createMessage", {"messages": [], "maxTokens": 1})
            assert "the client it is for is unknown" in (await peer.response_to(2))["error"]["message"]
            received.respond({"content": []})
            await call
            other.cancel()
            await peer.expect("notifications/cancelled")


@pytest.mark.parametrize("back", [HANDSHAKE, STATELESS])
@on_fake_clock
async def test_the_log_level_and_changed_roots_are_forwarded(back: str) -> None:
    async with mounted(back) as harness:
        client = connect(harness.host, versions=(HANDSHAKE,))
        client.roots.set(["file:///a"])
        async with client:
            await client.logging.set_level("warning")
            client.roots.set(["file:///b"])
            assert (await client.tools.call("a_t")).text == "a"
            for peer in harness.peers.values() if back == HANDSHAKE else ():
                assert (await peer.expect("logging/setLevel")).params == {"level": "warning"}
                await peer.expect("notifications/roots/list_changed")
            call = harness.peers["a"].got("tools/call")[0].params
            assert call.get("_meta", {}).get(META_LOG_LEVEL) == ("warning" if back == STATELESS else None)


@on_fake_clock
async def test_uris_that_are_not_listed_and_templates_with_any_expression_are_routed() -> None:
    async with mounted() as harness:
        peer = harness.peers["a"]
        peer.capabilities = {"resources": {}, "completions": {}}
        peer.on["resources/list"] = {"resources": []}
        template = {"uriTemplate": "a://b{?x*}", "name": "n"}
        peer.on["resources/templates/list"] = {"resourceTemplates": [template]}
        peer.on["resources/read"] = lambda params: {"contents": [{"uri": params["uri"], "text": "x"}]}
        peer.on["completion/complete"] = lambda params: {"completion": {"values": [params["ref"]["uri"]]}}
        client = await harness.join()
        assert [row.uri_template for row in await client.resources.templates()] == ["a://a/b{?x*}"]
        assert (await client.resources.read("a://a/b?x=1")).contents[0].uri == "a://a/b?x=1"
        assert peer.got("resources/read")[0].params["uri"] == "a://b?x=1"
        reference = ResourceTemplateReference(uri="a://a/b{?x*}")
        assert (await client.completion.complete(reference, "x", "")).values == ["a://b{?x*}"]


# --- what can be mounted ----------------------------------------------------------------------------------------------

PROGRAM = """
import os
from jackstay.server import Server, Transform
server = Server("program")
@server.tool
def pid() -> int:
    return os.getpid()
server.run()
"""


def test_urls_targets_programs_files_and_fleets_are_understood(tmp_path: Path) -> None:
    program, config = tmp_path / "program.py", tmp_path / "mcp.json"
    program.write_text(PROGRAM)
    entry = {"command": sys.executable, "args": [str(program)]}
    config.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry, "off": {**entry, "disabled": True}}}))
    fleet = Fleet({"git": stdio("git-server"), "web": stdio("web-server")})
    rows: list[tuple[Any, list[tuple[str, str]]]] = [
        ("http://127.0.0.1:1/mcp", [("p", "_")]),
        (stdio("program"), [("p", "_")]),
        (program, [("p", "_")]),
        (str(config), [("p_one", "_"), ("p_two", "_")]),
        (fleet, [("p__git", "__"), ("p__web", "__")]),
    ]
    for other, expected in rows:
        found = proxies_for(other, "p", "_")
        assert [(prefix, separator) for prefix, separator, *_ in found] == expected, other
        assert all(isinstance(proxy, Proxy) for _, _, proxy, *_ in found)
    assert [prefix for prefix, *_ in proxies_for(config, "", "_")] == ["one", "two"]


FILE = """
[servers.one]
command = "one"
prefix = ""
timeout = 7
deny = ["drop"]
transforms.read = { name = "load" }

[servers.two]
command = "two"
prefix = "second"
allow = ["read"]
transforms.read = { name = "load" }
"""


async def test_everything_in_a_file_applies_to_its_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "servers.toml"
    file.write_text(FILE)
    peers = {name: ScriptedPeer(capabilities={"tools": {}}, name=name) for name in ("one", "two")}
    monkeypatch.setattr(Config, "target", lambda _, name: peers[name].target)
    found = proxies_for(file, "p", "_")
    assert [(prefix, proxy.proxy_options.timeout) for prefix, _, proxy, *_ in found] == [("p", 7.0), ("p_second", None)]
    host = Server("host")
    for peer in peers.values():
        peer.on["tools/list"] = tools("read", "drop", "keep")
        await peer.open()
    host.mount(file, transforms={"keep": Transform(name="hold")})
    async with connect(host) as client:
        assert [tool.name for tool in await client.tools.list()] == ["load", "hold", "second_load"]
        for refused in ("drop", "second_drop", "second_hold"):
            with pytest.raises(JsonRpcError, match="unknown tool"):
                await client.tools.call(refused)
    for peer in peers.values():
        await peer.close()


def test_a_file_with_keys_is_not_mounted(tmp_path: Path) -> None:
    """Its keys and rules would not apply."""
    file = tmp_path / "servers.toml"
    file.write_text(FILE + '[keys]\nada = "0123456789abcdef0123456789abcdef"\n')
    with pytest.raises(UsageError, match=r"servers.toml has \[keys\] or \[jwt\], which apply only if .* gateway"):
        Server("host").mount(file)
    with pytest.raises(UsageError, match="do not apply to a gateway that is mounted"):
        Server("host").mount(Gateway(file))


async def test_an_open_fleet_is_refused() -> None:
    async with Fleet({}) as empty:
        assert proxies_for(empty, "", "_") == []
    async with Fleet({"x": ScriptedPeer().target}, max_attempts=1, init_timeout=0.1) as fleet:
        with pytest.raises(UsageError, match="a Fleet that is not open"):
            Server("host").mount(fleet)


async def test_a_program_is_mounted_over_stdio_and_restarted_after_it_was_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    host = Server("host")
    host.mount(Proxy(stdio(sys.executable, program), settings={"backoff_min": 0.01}), prefix="p")
    async with connect(host) as client:
        pid = int((await client.tools.call("p_pid")).text)
        os.kill(pid, signal.SIGKILL)
        found = pid
        while found == pid:
            with suppress(JsonRpcError):  # the call was sent before the loss was known
                found = int((await client.tools.call("p_pid")).text)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
