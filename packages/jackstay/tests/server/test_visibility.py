"""Visibility by tag, scope, principal and function, in lists and calls; enabling and disabling while clients listen."""

from typing import Any

import msgspec
import pytest

from chaos.servers_own.conversation import STATELESS, connected
from jackstay import Server
from jackstay.errors import UsageError
from jackstay.server import Caller
from jackstay.server._catalogue import Kind
from jackstay.server._visibility import MAX_CLASSES
from jackstay.server.http import Principal
from scripted.asgi import http_client, initialize, request, stateless

ERAS = ("2025-11-25", STATELESS)


class Tokens:
    """Verifies tokens such as `alice.admin`: the principal alice with the scope admin."""

    async def verify(self, token: str) -> Principal | None:
        name, _, scope = token.partition(".")
        return Principal(name, frozenset({scope}) if scope else frozenset())


def make(**options: Any) -> Server:
    server = Server("seen", **options)
    for name, tags in (("read", ["all"]), ("wipe", ["admin"]), ("spy", ["secret", "admin"])):
        server.tool(name=name, tags=tags, blocking=False)(lambda name=name: name)
    server.resource("test://open")(lambda: "open")
    server.resource("test://closed", tags=["admin"])(lambda: "closed")
    server.resource("test://closed/{number}", tags=["admin"])(lambda number: number)
    server.prompt(name="plain")(lambda: "plain")

    @server.prompt(name="hidden", tags=["admin"])
    def hidden(topic: str) -> str:
        return topic

    server.completion("hidden", "topic")(lambda value: ["secret"])
    server.completion("test://closed/{number}", "number")(lambda value: ["7"])
    return server


class HttpCaller:
    """A caller over HTTP, in one of the eras."""

    def __init__(self, http: Any, token: str, version: str) -> None:
        self.http = http
        self.token = token
        self.version = version

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Any:
        message = stateless(method, params) if self.version == STATELESS else request(method, params or {})
        response = await self.http.post(message, headers={"authorization": f"Bearer {self.token}"})
        return response.json

    async def names(self, kind: str = "tools", key: str = "name") -> list[str]:
        method = {"resourceTemplates": "resources/templates/list"}.get(kind, f"{kind}/list")
        return [row[key] for row in (await self.send(method))["result"][kind]]


@pytest.mark.parametrize("version", ERAS)
async def test_hidden_entries_are_neither_listed_nor_found(version: str) -> None:
    server = make()
    server.visible(tags={"admin"}, scopes={"admin"})
    async with http_client(server.asgi(auth=Tokens())) as http:
        alice, root = HttpCaller(http, "alice", version), HttpCaller(http, "root.admin", version)
        assert await alice.names() == ["read"]
        assert await root.names() == ["read", "wipe", "spy"]
        assert await alice.names("resources", "uri") == ["test://open"]
        assert await root.names("resources", "uri") == ["test://open", "test://closed"]
        assert await alice.names("resourceTemplates") == []
        assert await alice.names("prompts") == ["plain"]
        # Each request for a hidden entry gets the response for an unknown one, except for its name.
        for method, hidden, unknown in (
            ("tools/call", {"name": "wipe"}, {"name": "none"}),
            ("prompts/get", {"name": "hidden", "arguments": {"topic": "x"}}, {"name": "none"}),
            ("resources/read", {"uri": "test://closed"}, {"uri": "test://none"}),
            ("resources/read", {"uri": "test://closed/7"}, {"uri": "test://none/7"}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "hidden"}, "argument": {"name": "topic", "value": ""}},
                {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "topic", "value": ""}},
            ),
        ):
            refused = await alice.send(method, hidden)
            assert "error" in refused
            assert str(refused).replace("hidden", "none").replace("wipe", "none").replace("closed", "none") == str(
                await alice.send(method, unknown)
            )
            assert "result" in await root.send(method, hidden), method


@pytest.mark.parametrize("version", ERAS)
async def test_hidden_resources_cannot_be_subscribed(version: str) -> None:
    server = make()
    server.resource("test://{name}")(lambda name: f"template {name}")
    server.visible(tags={"admin"}, principals={"root"})
    uris = ["test://closed/7", "test://open"]
    async with connected(server, version) as peer:
        read = await peer.result("resources/read", {"uri": "test://closed"})
        assert read["contents"][0]["text"] == "template closed", "the visible template, not the hidden resource"
        if version == STATELESS:
            peer.send_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
            accepted = await peer.notification("notifications/subscriptions/acknowledged")
            assert accepted["notifications"]["resourceSubscriptions"] == ["test://open"]
        else:
            assert (await peer.error("resources/subscribe", {"uri": uris[0]}))["message"] == "resource not found"
            await peer.result("resources/subscribe", {"uri": uris[1]})
        for params in ({"name": 5}, {"name": {}}, {}):
            assert (await peer.error("tools/call", params))["code"] == -32602


async def test_rules_apply_to_mounted_entries_however_they_are_added() -> None:
    for order in ("mount visible", "visible mount"):
        upstream, server = make(), Server("host")
        async with connected(server) as early:
            for step in order.split():
                if step == "mount":
                    server.mount(upstream, prefix="up")
                else:
                    server.visible("up_wipe", principals={"root"})
            async with connected(server) as peer:
                names = [row["name"] for row in (await peer.result("tools/list"))["tools"]]
                assert "up_read" in names
                assert "up_wipe" not in names
                assert (await peer.error("tools/call", {"name": "up_wipe"}))["message"] == "unknown tool: up_wipe"
                assert await peer.text("up_read") == "read"
            assert early.version


@pytest.mark.parametrize("version", ERAS)
async def test_rules_of_a_mounted_server_apply_at_each_host(version: str) -> None:
    inner, middle, host = make(), Server("middle"), Server("host")
    inner.visible(tags={"admin"}, scopes={"admin"})
    middle.mount(inner, prefix="b")
    host.mount(middle, prefix="a")
    inner.visible("read", principals={"root"})  # after it was mounted
    async with http_client(host.asgi(auth=Tokens())) as http:
        alice, root = HttpCaller(http, "alice", version), HttpCaller(http, "root.admin", version)
        assert await alice.names() == []
        assert await root.names() == ["a_b_read", "a_b_wipe", "a_b_spy"]
        assert await alice.names("resources", "uri") == ["test://a/b/open"]
        assert await alice.names("resourceTemplates") == []
        assert await alice.names("prompts") == ["a_b_plain"]
        refused = await alice.send("tools/call", {"name": "a_b_wipe", "arguments": {}})
        assert refused["error"]["message"] == "unknown tool: a_b_wipe"
        assert (await alice.send("resources/read", {"uri": "test://a/b/closed/7"}))["error"]["data"] == {
            "uri": "test://a/b/closed/7"
        }
        called = await root.send("tools/call", {"name": "a_b_wipe", "arguments": {}})
        assert called["result"]["content"][0]["text"] == "wipe"


async def test_rules_of_a_removed_mount_are_discarded_at_each_host() -> None:
    inner, middle, host = make(), Server("middle"), Server("host")
    inner.visible(tags={"admin"}, scopes={"admin"})
    middle.mount(inner, prefix="b")
    host.mount(middle, prefix="a")
    host.visible("a_c_read", principals={"root"})  # a rule of its own stays
    for _ in range(3):
        assert middle._mounts is not None
        middle._mounts.remove(middle._mounts.rows[0])
        middle.mount(inner, prefix="c")
    assert middle._views is not None
    assert host._views is not None
    assert (len(middle._views.rules), len(host._views.rules)) == (1, 2)
    async with http_client(host.asgi(auth=Tokens())) as http:
        alice, root = HttpCaller(http, "alice", STATELESS), HttpCaller(http, "root.admin", STATELESS)
        assert await alice.names() == []
        assert await root.names() == ["a_c_read", "a_c_wipe", "a_c_spy"]


async def test_tags_of_a_mounted_tool_that_is_replaced_are_those_of_the_new_one() -> None:
    inner, host = Server("inner"), Server("host")
    host.mount(inner)
    host.visible(tags={"admin"}, principals={"root"})
    inner.tool(name="wipe", blocking=False)(lambda: "wiped")
    async with connected(host) as peer:
        assert await peer.call("wipe")
        [entry] = inner.catalogue.entries(Kind.TOOLS)
        inner.catalogue.add_tools(msgspec.structs.replace(entry, tags=frozenset({"admin"})), replace=True)
        assert (await peer.error("tools/call", {"name": "wipe"}))["message"] == "unknown tool: wipe"


async def test_rules_by_principal_name_and_function_are_combined() -> None:
    server = make()
    server.visible(tags={"admin"}, principals={"root", "ops"})
    server.visible("spy", when=lambda caller: caller.headers.get("x-spy") == "1")
    async with http_client(server.asgi(auth=Tokens())) as http:
        for token, headers, expected in (
            ("alice", {"x-spy": "1"}, ["read"]),
            ("ops", {}, ["read", "wipe"]),
            ("root", {"x-spy": "1"}, ["read", "wipe", "spy"]),
        ):
            sent = {"authorization": f"Bearer {token}", **headers}
            response = await http.post(stateless("tools/list"), headers=sent)
            assert [row["name"] for row in response.json["result"]["tools"]] == expected


async def test_a_rule_without_names_and_tags_restricts_everything_and_one_that_raises_hides() -> None:
    def fail(caller: Caller) -> bool:
        raise KeyError(caller.principal)

    server = make()
    server.visible(when=fail)
    async with connected(server) as peer:
        assert (await peer.result("tools/list"))["tools"] == []
        assert (await peer.error("tools/call", {"name": "read"}))["message"] == "unknown tool: read"


async def test_over_stdio_and_in_memory_callers_have_no_scopes_and_no_principal() -> None:
    server = make()
    server.visible(tags={"admin"}, scopes={"admin"})
    async with connected(server) as peer:
        assert len((await peer.result("tools/list"))["tools"]) == 3
    server.visible(tags={"admin"}, principals={"root"})
    async with connected(server) as peer:
        assert len((await peer.result("tools/list"))["tools"]) == 1


async def test_the_prepared_pages_are_kept_for_each_class_of_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    from jackstay.server._catalogue import Listing

    encoded: list[str] = []
    encode = Listing._encode

    def observed(self: Any, *args: Any) -> bytes:
        encoded.append(self.kind)
        return encode(self, *args)

    monkeypatch.setattr(Listing, "_encode", observed)
    server = make(ttl_ms=5000, cache_scope="public")
    server.visible(tags={"admin"}, scopes={"admin"})
    async with http_client(server.asgi(auth=Tokens())) as http:
        for number in range(10):
            for token in (f"user{number}", f"root{number}.admin"):
                page = (await HttpCaller(http, token, STATELESS).send("tools/list"))["result"]
                assert (page["ttlMs"], page["cacheScope"]) == (5000, "private"), "a shared cache must not keep it"
        assert encoded == ["tools", "tools"], "one for each class"
        server.resource("test://new")(lambda: "new")
        await HttpCaller(http, "alice", STATELESS).names()
        assert encoded == ["tools", "tools"], "the list of tools has not changed"


async def test_headers_do_not_reveal_a_hidden_tool() -> None:
    """2026-07-28 basic/transports/streamable-http: a call that lacks the headers of a tool is refused."""
    server = Server("seen")
    schema: Any = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    server.add_tool("deploy", input_schema=schema, handler=lambda _: "done")
    server.visible("deploy", principals={"root"})
    async with http_client(server.asgi(auth=Tokens())) as http:
        for token, message in (("alice", "unknown tool: deploy"), ("root", "Mcp-Param-Region")):
            call = stateless("tools/call", {"name": "deploy", "arguments": {"region": "eu"}})
            response = await http.post(call, headers={"authorization": f"Bearer {token}"})
            assert message.lower() in response.json["error"]["message"].lower()


async def test_the_number_of_classes_is_bounded() -> None:
    server = make()
    for number in range(10):
        server.visible("spy", when=lambda caller, bit=1 << number: int(caller.headers.get("x-bits", "0")) & bit)
    async with http_client(server.asgi()) as http:
        for bits in range(MAX_CLASSES + 10):
            response = await http.post(stateless("tools/call", {"name": "read"}), headers={"x-bits": str(bits)})
            assert "result" in response.json
    assert server._views is not None
    assert len(server._views._dispatches) <= MAX_CLASSES


# --- changes ----------------------------------------------------------------------------------------------------------

CHANGED = "notifications/tools/list_changed"


async def test_entries_are_disabled_and_enabled_at_run_time() -> None:
    server = make()
    async with connected(server) as peer:
        server.disable("wipe", "test://open", "test://closed/{number}", "plain")
        for method in (CHANGED, "notifications/resources/list_changed", "notifications/prompts/list_changed"):
            await peer.notification(method)
        assert [row["name"] for row in (await peer.result("tools/list"))["tools"]] == ["read", "spy"]
        assert (await peer.error("tools/call", {"name": "wipe"}))["message"] == "unknown tool: wipe"
        server.enable(tags={"admin"})
        await peer.notification(CHANGED)
        assert [row["name"] for row in (await peer.result("tools/list"))["tools"]] == ["read", "wipe", "spy"]
        assert await peer.text("wipe") == "wipe"


@pytest.mark.parametrize("version", ERAS)
async def test_list_changed_is_sent_to_whom_it_concerns(version: str) -> None:
    """In a server with two classes of callers; `principal` stands for the transport that authenticates."""
    server = make()
    server.visible(tags={"admin"}, when=lambda caller: caller.principal == "root")
    async with connected(server, version) as alice, connected(server, version) as root:
        for peer in (alice, root):
            await peer.result("tools/list")
        alices, roots = server._connections.values()
        roots.caller = Caller("root")
        assert alices.caller.principal == ""
        for peer in (alice, root):
            if version == STATELESS:
                peer.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
                await peer.notification("notifications/subscriptions/acknowledged")
            await peer.result("tools/list")
        server.disable("wipe")
        await root.notification(CHANGED)
        server.enable("wipe")
        await root.notification(CHANGED)
        server.disable("read")
        await root.notification(CHANGED)
        await alice.notification(CHANGED)  # the only one
        assert [row["name"] for row in (await alice.result("tools/list"))["tools"]] == []
        assert [row["name"] for row in (await root.result("tools/list"))["tools"]] == ["wipe", "spy"]
        sent = [frame for frame in alice.received if isinstance(frame, dict) and frame.get("method") == CHANGED]
        assert len(sent) == 1


async def test_a_rule_that_is_added_later_is_announced() -> None:
    server = make()
    async with connected(server) as peer:
        assert len((await peer.result("tools/list"))["tools"]) == 3
        server.visible(tags={"admin"}, principals={"root"})
        await peer.notification(CHANGED)
        assert len((await peer.result("tools/list"))["tools"]) == 1


async def test_a_session_uses_the_caller_of_each_request() -> None:
    server = make()
    server.visible(tags={"admin"}, scopes={"admin"})
    async with http_client(server.asgi(sessions=True, auth=Tokens())) as http:
        opened = await http.post(initialize(), headers={"authorization": "Bearer alice.admin"})
        for token, number in (("alice.admin", 3), ("alice", 1), ("alice.admin", 3)):
            headers = {"authorization": f"Bearer {token}", "mcp-session-id": opened.headers["mcp-session-id"]}
            response = await http.post(request("tools/list"), headers=headers)
            assert len(response.json["result"]["tools"]) == number


def test_bad_rules_are_rejected() -> None:
    server = make()
    for options, message in (
        ({"tags": {"admin"}}, "needs scopes, principals or when"),
        ({"scopes": {"a b\n\x00"}}, "invalid scope"),
        ({"principals": "root"}, "principals must be a collection of strings, not 'root'"),
        ({"when": 5}, "when must be callable, not 5"),
        ({"tags": "admin", "scopes": {"x"}}, "tags must be a set of strings"),
    ):
        with pytest.raises(UsageError, match=message):
            server.visible(**options)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(UsageError, match="no such tool, resource or prompt: 'whipe'; did you mean 'wipe'"):
        server.disable("whipe")
    with pytest.raises(UsageError, match="need names, URIs or tags"):
        server.enable()
