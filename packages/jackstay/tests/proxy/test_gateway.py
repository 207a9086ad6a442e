"""`Gateway`: hosts, health, and reloading, with scripted servers."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jackstay.client import Client, connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.proxy import Gateway, _gateway
from jackstay.proxy._gateway_config import Rule
from jackstay.server import MemoryBackend, use_backend
from jackstay.testing import on_fake_clock
from scripted.between import HANDSHAKE
from scripted.gateway import Office


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(tmp_path / "gateway.toml", monkeypatch)


@asynccontextmanager
async def opened(office: Office) -> AsyncIterator[tuple[Gateway, Client]]:
    gateway = Gateway(office.path)
    async with connect(gateway, versions=(HANDSHAKE,)) as client:
        yield gateway, client


async def names(client: Client) -> list[str]:
    return [tool.name for tool in await client.tools.list()]


async def until(condition: Callable[[], Any]) -> None:
    while not await condition():
        await asyncio.sleep(0.1)


@on_fake_clock
async def test_servers_are_listed_called_and_reported(office: Office) -> None:
    office.write("a", "b", b='deny = ["u"]')
    async with opened(office) as (gateway, client):
        assert await names(client) == ["a_t", "a_u", "b_t"]
        assert (await client.tools.call("b_t")).text == "b"
        with pytest.raises(JsonRpcError, match="unknown tool"):
            await client.tools.call("b_u")
        state, members = await gateway.check_health()
        assert state == "ok"
        assert members["servers"] == {
            "a": {"state": "ok", "restarts": 0, "tools": 2},
            "b": {"state": "ok", "restarts": 0, "tools": 1},
        }
        office.last("a").crash()
        await until(lambda: names_are(client, ["b_t"]))
        servers: Any = (await gateway.check_health())[1]["servers"]
        assert servers["a"]["state"] == "down"
        assert servers["a"]["tools"] == 0
        assert servers["a"]["cause"]
        await until(lambda: names_are(client, ["a_t", "a_u", "b_t"]))
        servers = (await gateway.check_health())[1]["servers"]
        assert servers["a"] == {"state": "ok", "restarts": 1, "tools": 2}


async def names_are(client: Client, expected: list[str]) -> bool:
    return await names(client) == expected


@on_fake_clock
async def test_hosts_show_what_a_rule_allows(office: Office) -> None:
    office.write("a", "b", a='prefix = "x"')
    async with opened(office) as (gateway, _):
        for rule, only, expected in (
            (Rule(("b",)), "", ["b_t", "b_u"]),
            (Rule(None, ("x_t", "b_*")), "", ["x_t", "b_t", "b_u"]),
            (Rule(None, ("x_t",)), "a", ["t"]),
            (Rule(), "b", ["t", "u"]),
            (Rule(("b",)), "a", []),
        ):
            host = gateway.host(rule, only)
            assert host is gateway.host(rule, only)
            async with connect(host, versions=(HANDSHAKE,)) as client:
                assert await names(client) == expected if expected else client.server_capabilities.tools is None


@on_fake_clock
async def test_a_change_of_the_file_is_applied_without_dropping_calls(office: Office) -> None:
    office.write("a", "b")
    async with opened(office) as (gateway, client):
        first = office.last("a")
        first.on["tools/call"] = None
        call = client.submit("tools/call", {"name": "a_t"})
        received = await first.expect("tools/call")
        unchanged = gateway.running["b"]
        office.write("a", "b", "c", a="timeout = 7")
        await until(lambda: names_are(client, ["a_t", "a_u", "b_t", "b_u", "c_t", "c_u"]))
        assert gateway.running["b"] is unchanged
        assert gateway.running["a"].proxy.proxy_options.timeout == 7
        assert list(gateway.running) == ["a", "b", "c"]
        assert (await client.tools.call("a_u")).text == "a"
        assert not first.got("notifications/cancelled")
        received.respond({"content": [{"type": "text", "text": "late"}]})
        assert (await call)["content"][0]["text"] == "late"
        await first.until(lambda: first._transport is None)

        office.write("b")
        await until(lambda: names_are(client, ["b_t", "b_u"]))
        assert list(gateway.running) == ["b"]
        with pytest.raises(JsonRpcError, match="unknown tool"):
            await client.tools.call("a_t")


@on_fake_clock
async def test_an_invalid_file_changes_nothing(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    office.write("a")
    async with opened(office) as (gateway, client):
        for text, message in (
            ("[servers", "is not valid TOML"),
            ("[servers.a]\ntimeout = 'x'\n", "servers.a.timeout must be"),
        ):
            office.path.write_text(text)
            await gateway.reload()
            assert message in caplog.text
        os.unlink(office.path)
        await asyncio.sleep(5 * _gateway.RELOAD_INTERVAL)
        assert await names(client) == ["a_t", "a_u"]


@on_fake_clock
async def test_authentication_cannot_be_switched_on_while_it_runs(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.write("a")
    async with opened(office) as (gateway, _):
        app = gateway.asgi()
        office.write("a", more='[keys]\nbob = "a-long-secret-of-bob"\n')
        await gateway.reload()
        assert "restart the gateway" in caplog.text
        assert not gateway.config.has_auth
        del app


def test_capabilities_remain_while_all_servers_are_replaced(office: Office) -> None:
    office.write("a")
    gateway = Gateway(office.path)
    assert gateway._mounts is not None
    before = gateway._current_config()[1]
    gateway._mounts.rows.clear()  # as between the removal of the old ones and the start of the new ones
    assert gateway._current_config()[1] == before == {"tools", "resources", "prompts", "completions"}


def test_an_invalid_file_is_refused_at_the_start(office: Office) -> None:
    office.write()
    with pytest.raises(UsageError, match=r"has no table \[servers.NAME\]"):
        Gateway(office.path)


@on_fake_clock
async def test_a_server_that_is_retiring_is_stopped_with_the_gateway(office: Office) -> None:
    office.write("a", "b")
    async with opened(office) as (gateway, client):
        peer = office.last("a")
        peer.on["tools/call"] = None
        call = client.submit("tools/call", {"name": "a_t"})
        await peer.expect("tools/call")
        office.write("b")
        await gateway.reload()
    await peer.until(lambda: peer._transport is None)
    with pytest.raises(Exception, match=r"closed|lost|stopped|shut"):
        await call


@on_fake_clock
async def test_subscriptions_and_the_log_level_continue_after_a_reload(office: Office) -> None:
    office.capabilities = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}
    empty = ("resources/subscribe", "resources/unsubscribe", "logging/setLevel")
    resource = {"uri": "notes://all", "name": "all"}
    office.responses = {
        "resources/list": {"resources": [resource]},
        "resources/templates/list": {"resourceTemplates": []},
        **{method: dict[str, Any]() for method in empty},
    }
    office.write("a")
    gateway = Gateway(office.path)
    updated: asyncio.Queue[str] = asyncio.Queue()
    async with connect(gateway, versions=(HANDSHAKE,)) as client:
        client.on_notification(lambda sent: updated.put_nowait(sent.params["uri"]) if "uri" in sent.params else None)
        await client.resources.subscribe("notes://a/all")
        await client.logging.set_level("warning")
        await office.last("a").expect("logging/setLevel")
        office.write("a", a="timeout = 7")
        await gateway.reload()
        second = office.last("a")
        assert second is not office.peers["a"][0]
        assert (await second.expect("resources/subscribe")).params == {"uri": "notes://all"}
        assert (await second.expect("logging/setLevel")).params == {"level": "warning"}
        second.notify("notifications/resources/updated", uri="notes://all")
        assert await updated.get() == "notes://a/all"
        await client.resources.unsubscribe("notes://a/all")
        await second.expect("resources/unsubscribe")


@on_fake_clock
async def test_an_error_names_the_server(office: Office) -> None:
    office.write("a", "b", a="wait = 0")
    async with opened(office) as (_, client):
        office.last("a").crash()
        with pytest.raises(JsonRpcError, match="a: the upstream server is down; the call did not run") as caught:
            await client.tools.call("a_t")
        assert caught.value.data["server"] == "a"


TRANSFORMS = """
[servers.a.transforms.t]
name = "find"
description = "Find it."
arguments = { q = { name = "words", description = "What to find." }, limit = { value = 3 } }

[servers.a.transforms]
"u*" = false
"""


@on_fake_clock
async def test_transforms_in_the_file_change_what_a_server_has(office: Office) -> None:
    office.write("a", "b", more=TRANSFORMS)
    async with opened(office) as (gateway, client):
        find, *others = await client.tools.list()
        assert [find.name, *(tool.name for tool in others)] == ["a_find", "b_t", "b_u"]
        assert find.description == "Find it."
        assert list(find.input_schema["properties"]) == ["words"]
        await client.tools.call("a_find", {"words": "x"})
        sent = (await office.last("a").expect("tools/call")).params
        assert (sent["name"], sent["arguments"]) == ("t", {"q": "x", "limit": 3})
        async with connect(gateway.host(Rule(None, ("a_find",))), versions=(HANDSHAKE,)) as limited:
            assert await names(limited) == ["a_find"], "rules name tools as callers see them"
        office.write("a", "b")
        await gateway.reload()
        await until(lambda: names_are(client, ["a_t", "a_u", "b_t", "b_u"]))


@on_fake_clock
async def test_hosts_share_the_backend_of_the_gateway(office: Office) -> None:
    """Its stores are for the sessions of all hosts, and messages of other workers reach each of them."""
    office.write("a", "b")
    backend = MemoryBackend()
    gateway = Gateway(office.path)
    use_backend(gateway, backend)
    host = gateway.host(Rule(("b",)))
    assert gateway.asgi(sessions=True).options.session_store is backend.sessions
    await gateway.startup("test")
    await host.startup("test")
    assert "2 listeners" in repr(backend)
    await host.shutdown("test")
    await gateway.shutdown("test")
    assert "0 listeners" in repr(backend)
