"""Mounted servers: everything that a client can do with a server works through its host, in both eras."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackstay.client import Client, Notification, connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Context, Depends, Next, Server, ToolError
from jackstay.testing import on_fake_clock
from jackstay.transport import InProcessTarget
from jackstay.types import (
    META_LOG_LEVEL,
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from scripted.between import ERAS, HANDSHAKE, STATELESS


class Orders:
    """A server with everything, and what it has seen."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

        @asynccontextmanager
        async def lifespan(_: Server) -> AsyncIterator[str]:
            self.events.append("up")
            yield "the state"
            self.events.append("down")

        async def watch(ctx: Context, call_next: Next) -> bytes:
            self.events.append(ctx.method)
            return await call_next()

        self.server = server = Server("orders", lifespan=lifespan, middleware=[watch])

        def pool(ctx: Context) -> str:
            return f"{ctx.state} of {ctx.client_info.name if ctx.client_info else '?'}"

        @server.tool(scopes={"orders:read"})
        def find(query: str, *, pool: str = Depends(pool)) -> str:
            """Find orders."""
            return f"{query}: {pool}"

        @server.tool
        async def work(ctx: Context) -> str:
            ctx.progress(1, 2, "half")
            await ctx.info("working")
            return "done"

        @server.tool
        async def hang() -> None:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()

        @server.tool
        async def confirm(ctx: Context) -> str:
            answer = await ctx.elicit("which?", {"type": "object", "properties": {"name": {"type": "string"}}})
            assert answer.content is not None
            return f"elicited: {answer.content['name']}"

        @server.tool
        async def think(ctx: Context) -> str:
            result = await ctx.sample("what?")
            assert isinstance(result.content, TextContent)
            return f"sampled: {result.content.text}"

        @server.tool
        def links() -> CallToolResult:
            contents = TextResourceContents(uri="orders://all", text="x")
            link, web = (ResourceLink(uri=uri, name="x") for uri in ("orders://all", "https://example.org/"))
            return CallToolResult(content=[link, web, EmbeddedResource(resource=contents)])

        @server.tool
        def fail() -> str:
            raise ToolError("no such order")

        @server.resource("orders://all")
        def everything() -> str:
            return "all orders"

        @server.resource("orders://{id}/lines")
        def lines(id: str) -> str:
            return f"lines of {id}"

        @server.prompt
        def review(id: str) -> Any:
            return [f"review {id}", ResourceLink(uri="orders://all", name="all")]

        @server.completion("review", "id")
        def ids(value: str) -> list[str]:
            return [f"{value}1", f"{value}2"]

        @server.completion(ResourceTemplateReference(uri="orders://{id}/lines"), "id")
        def line_ids(value: str) -> list[str]:
            return [f"{value}7"]


WAYS = ("in process", "over a transport", "nested")
CASES = [(way, era) for way in WAYS for era in ERAS]


@asynccontextmanager
async def hosted(way: str, era: str, **settings: Any) -> AsyncIterator[tuple[Client, Orders, Server]]:
    """A client that is not open, of a host that has the server mounted as `shop`."""
    orders, host = Orders(), Server("host")

    @host.tool
    def own() -> str:
        return "own"

    mounted: Any = InProcessTarget(orders.server) if way == "over a transport" else orders.server
    if way == "nested":
        between = Server("between")
        between.mount(mounted)
        mounted = between
    host.mount(mounted, prefix="shop")
    yield connect(host, versions=(era,), **settings), orders, host


@pytest.mark.parametrize(("way", "era"), CASES)
async def test_lists_calls_and_reads(way: str, era: str) -> None:
    async with hosted(way, era) as (made, orders, _), made as client:
        tools = {tool.name: tool for tool in await client.tools.list()}
        names = ("find", "work", "hang", "confirm", "think", "links", "fail")
        assert list(tools) == ["own", *(f"shop_{name}" for name in names)]
        assert tools["shop_find"].description == "Find orders."
        assert [row.uri for row in await client.resources.list()] == ["orders://shop/all"]
        assert [row.uri_template for row in await client.resources.templates()] == ["orders://shop/{id}/lines"]
        assert [row.name for row in await client.prompts.list()] == ["shop_review"]

        assert (await client.tools.call("own")).text == "own"
        found = (await client.tools.call("shop_find", {"query": "tea"})).text
        assert found.startswith("tea: the state of ")
        failed = await client.tools.call("shop_fail", raise_on_error=False)
        assert failed.is_error
        assert failed.error_text == "no such order"
        invalid = await client.tools.call("shop_find", {"query": 7}, raise_on_error=False)
        assert invalid.is_error

        for uri, text in (("orders://shop/all", "all orders"), ("orders://shop/5/lines", "lines of 5")):
            (contents,) = (await client.resources.read(uri)).contents
            assert isinstance(contents, TextResourceContents)
            assert (contents.uri, contents.text) == (uri, text)
        with pytest.raises(JsonRpcError, match="not found"):
            await client.resources.read("orders://shop/nothing")
        assert "tools/call" in orders.events, "the middleware of the mounted server runs"
    assert orders.events[0] == "up"
    assert orders.events[-1] == "down"


@pytest.mark.parametrize(("way", "era"), CASES)
async def test_links_prompts_and_completion(way: str, era: str) -> None:
    async with hosted(way, era) as (made, _, _), made as client:
        link, web, embedded = (await client.tools.call("shop_links")).content
        assert isinstance(link, ResourceLink)
        assert link.uri == "orders://shop/all"
        assert isinstance(web, ResourceLink)
        assert web.uri == "https://example.org/", "clients may load it directly"
        assert isinstance(embedded, EmbeddedResource)
        assert embedded.resource.uri == "orders://shop/all"

        prompt = await client.prompts.get("shop_review", {"id": "9"})
        assert isinstance(prompt.messages[0].content, TextContent)
        assert prompt.messages[0].content.text == "review 9"
        assert isinstance(prompt.messages[1].content, ResourceLink)
        assert prompt.messages[1].content.uri == "orders://shop/all"

        reference: Any = PromptReference(name="shop_review")
        assert (await client.completion.complete(reference, "id", "a")).values == ["a1", "a2"]
        reference = ResourceTemplateReference(uri="orders://shop/{id}/lines")
        assert (await client.completion.complete(reference, "id", "b")).values == ["b7"]
        for unknown in ("review", "shop_x"):
            with pytest.raises(JsonRpcError, match="unknown prompt"):
                await client.completion.complete(PromptReference(name=unknown), "id", "a")
            with pytest.raises(JsonRpcError, match="unknown prompt"):
                await client.prompts.get(unknown)
        with pytest.raises(JsonRpcError, match="unknown tool"):
            await client.tools.call("find")


@pytest.mark.parametrize(("way", "era"), CASES)
async def test_progress_log_messages_and_cancellation(way: str, era: str) -> None:
    async with hosted(way, era) as (made, orders, _):
        logged: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        @made.on_notification
        def received(notification: Notification) -> None:
            if notification.method == "notifications/message" and not logged.done():
                logged.set_result(notification.params)

        async with made as client:
            meta: dict[str, Any] = {}
            if era == HANDSHAKE:
                await client.logging.set_level("debug")
            else:
                meta[META_LOG_LEVEL] = "debug"
            progress: list[Any] = []
            result = await client.tools.call("shop_work", on_progress=progress.append, meta=meta)
            assert result.text == "done"
            assert [(row.progress, row.total, row.message) for row in progress] == [(1, 2, "half")]
            assert (await logged)["data"] == "working"

            call = client.submit("tools/call", {"name": "shop_hang"})
            await orders.started.wait()
            call.cancel()
            await orders.cancelled.wait()


@pytest.mark.parametrize(("way", "era"), CASES)
async def test_elicitation_and_sampling(way: str, era: str) -> None:
    async with hosted(way, era) as (made, _, _):

        @made.elicitation.handle
        async def answer(params: ElicitRequestParams) -> ElicitResult:
            assert params.message == "which?"
            return ElicitResult(action="accept", content={"name": "tea"})

        @made.sampling.handle
        async def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
            return CreateMessageResult(role="assistant", content=TextContent(text="42"), model="m")

        async with made as client:
            assert (await client.tools.call("shop_confirm")).text == "elicited: tea"
            assert (await client.tools.call("shop_think")).text == "sampled: 42"


@pytest.mark.parametrize(("way", "era"), CASES)
async def test_subscriptions(way: str, era: str) -> None:
    async with hosted(way, era) as (made, orders, _), made as client:
        updates: asyncio.Queue[Any] = asyncio.Queue()
        await client.resources.subscribe("orders://shop/all", updates.put_nowait)
        orders.server.notify_resource_updated("orders://all")
        assert await updates.get() == "orders://shop/all"
        await client.resources.unsubscribe("orders://shop/all")
        if way != "over a transport" and era == HANDSHAKE:  # a proxy leaves the decision to its server
            with pytest.raises(JsonRpcError, match="not found"):
                await client.resources.subscribe("orders://shop/nothing", updates.put_nowait)


@pytest.mark.parametrize("way", WAYS)
async def test_a_list_changes_once_for_each_change(way: str) -> None:
    async with hosted(way, HANDSHAKE) as (made, orders, _):
        changed: asyncio.Queue[str] = asyncio.Queue()

        @made.on_notification
        def received(notification: Notification) -> None:
            changed.put_nowait(notification.method)

        async with made as client:
            before = [tool.name for tool in await client.tools.list()]
            orders.server.catalogue.add_tools(
                *(
                    orders.server.tool_from_schema(
                        name, input_schema={"type": "object"}, handler=lambda _: None, validate=False
                    )
                    for name in ("one", "two")
                )
            )
            assert await changed.get() == "notifications/tools/list_changed"
            names = [tool.name for tool in await client.tools.list()]
            assert names == [*before, "shop_one", "shop_two"]
            orders.server.remove_prompt("review")
            assert await changed.get() == "notifications/prompts/list_changed", "nothing else came between"
            assert await client.prompts.list() == []


async def test_entries_keep_their_position() -> None:
    host, first, second = Server("host"), Server("first"), Server("second")
    for server in (first, second):
        server.add_tool("t", input_schema={"type": "object"}, handler=lambda _: None, validate=False)
        host.mount(server, prefix=server.name)
    host.add_tool("own", input_schema={"type": "object"}, handler=lambda _: None, validate=False)
    first.remove_tool("t")
    assert list(host.catalogue.tools) == ["second_t", "own"]
    first.add_tool("u", input_schema={"type": "object"}, handler=lambda _: None, validate=False)
    assert list(host.catalogue.tools) == ["first_u", "second_t", "own"]
    async with connect(host, versions=(STATELESS,)) as client:
        assert [tool.name for tool in await client.tools.list()] == ["first_u", "second_t", "own"]


async def test_scopes_of_a_mounted_tool_are_required() -> None:
    host, orders = Server("host"), Orders()
    host.mount(orders.server, prefix="shop")
    assert host.catalogue.tools["shop_find"].scopes == {"orders:read"}


async def test_without_a_prefix_names_and_uris_are_unchanged() -> None:
    host, orders = Server("host"), Orders()
    host.mount(orders.server)
    async with connect(host) as client:
        assert "find" in [tool.name for tool in await client.tools.list()]
        assert (await client.tools.call("links")).content[0].uri == "orders://all"  # type: ignore[union-attr]
        assert (await client.resources.read("orders://3/lines")).contents


async def test_a_server_is_mounted_while_the_host_runs() -> None:
    host, orders = Server("host", capabilities=("tools",)), Orders()
    async with connect(host) as client:
        assert await client.tools.list() == []
        host.mount(orders.server, prefix="late")
        assert (await client.tools.call("late_fail", raise_on_error=False)).error_text == "no such order"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("is_late", [False, True])
async def test_what_a_caller_does_not_see_cannot_be_called(era: str, is_late: bool) -> None:
    host, orders = Server("host", capabilities=("tools", "resources", "prompts")), Orders()
    for key in ("shop_find", "orders://shop/all", "shop_review"):
        host.visible(key, when=lambda _: False)
    if not is_late:
        host.mount(orders.server, prefix="shop")
    async with connect(host, versions=(era,)) as client:
        if is_late:
            host.mount(orders.server, prefix="shop")
        assert "shop_find" not in [tool.name for tool in await client.tools.list()]
        with pytest.raises(JsonRpcError, match="unknown tool"):
            await client.tools.call("shop_find", {"query": "x"})
        with pytest.raises(JsonRpcError, match="unknown prompt"):
            await client.prompts.get("shop_review", {"id": "1"})
        for uri in ("orders://shop/all", "orders://shop/nothing"):
            with pytest.raises(JsonRpcError, match="not found"):
                await client.resources.read(uri)
        assert (await client.tools.call("shop_fail", raise_on_error=False)).error_text == "no such order"


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_disabled_cannot_be_called_and_stays_disabled(way: str) -> None:
    async with hosted(way, HANDSHAKE) as (made, orders, host), made as client:
        host.disable("shop_find", "orders://shop/{id}/lines")
        for _ in range(2):
            with pytest.raises(JsonRpcError, match="unknown tool"):
                await client.tools.call("shop_find", {"query": "x"})
            with pytest.raises(JsonRpcError, match="not found"):
                await client.resources.read("orders://shop/5/lines")
            orders.server.remove_tool("fail")  # the list of the mounted server is read again
            while "shop_fail" in host.catalogue.tools:
                await asyncio.sleep(0.01)
            orders.server.tool(name="fail")(lambda: "again")
        host.enable("shop_find")
        assert (await client.tools.call("shop_find", {"query": "x"})).text.startswith("x: ")


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_cycle_is_refused() -> None:
    first, second, third = Server("first"), Server("second"), Server("third")
    with pytest.raises(UsageError, match="cannot mount 'first': this is a cycle: first -> first"):
        first.mount(first)
    first.mount(second, prefix="a")
    second.mount(third, prefix="b")
    with pytest.raises(UsageError, match="a cycle: third -> first -> second -> third"):
        third.mount(first, prefix="c")


def test_a_clash_of_names_is_refused_and_leaves_the_host_unchanged() -> None:
    host, other = Server("host"), Server("other")
    for server in (host, other):
        server.add_tool("x_t", input_schema={"type": "object"}, handler=lambda _: None, validate=False)
    with pytest.raises(UsageError, match="cannot mount 'x_t' of 'other': 'host' already has an entry of this name"):
        host.mount(other)
    assert list(host.catalogue.tools) == ["x_t"]
    host.mount(other, prefix="o")
    with pytest.raises(UsageError, match="prefix 'o' is used by another mount of 'host'"):
        host.mount(Server("third"), prefix="o")


def test_a_later_clash_leaves_the_entry_out(caplog: pytest.LogCaptureFixture) -> None:
    host, other = Server("host"), Server("other")
    host.add_tool("t", input_schema={"type": "object"}, handler=lambda _: None, validate=False)
    host.mount(other)
    other.add_tool("t", input_schema={"type": "object"}, handler=lambda _: None, validate=False)
    other.add_tool("u", input_schema={"type": "object"}, handler=lambda _: None, validate=False)
    assert list(host.catalogue.tools) == ["t", "u"]
    assert "cannot mount 't' of 'other'" in caplog.text


@pytest.mark.parametrize("prefix", ["a b", "-a", "x" * 65, "a/b"])
def test_an_invalid_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(UsageError, match="prefix must be"):
        Server("host").mount(Server("other"), prefix=prefix)


@pytest.mark.parametrize("other", [7, "nothing", None])
def test_something_that_cannot_be_mounted_is_refused(other: Any) -> None:
    with pytest.raises(UsageError, match=r"mount\(\) expected"):
        Server("host").mount(other)


async def test_a_startup_hook_that_fails_is_raised_by_the_host() -> None:
    host, other = Server("host"), Server("other")
    host.mount(other)

    @other.on_startup
    def fail() -> None:
        raise RuntimeError("no database")

    with pytest.raises(RuntimeError, match="no database"):
        await host.startup()


@on_fake_clock
async def test_bad_params_are_reported_as_without_mounts() -> None:
    host = Server("host", capabilities=("tools", "resources", "prompts", "completions"))
    host.mount(Server("other"), prefix="o")
    async with connect(host, versions=(HANDSHAKE,)) as client:
        for method in ("tools/call", "prompts/get", "resources/read", "completion/complete", "resources/subscribe"):
            with pytest.raises(JsonRpcError) as caught:
                await client.submit(method, {"name": 7, "uri": [], "ref": "x"})
            assert caught.value.code == -32602, method


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_resource_is_named_by_its_uri_at_the_host(era: str) -> None:
    files = Server("files")

    @files.resource("notes://{id}")
    def note(id: str) -> str:
        return id

    @files.resource("late://{id}")
    async def late(id: str) -> str:
        raise JsonRpcError(-32000, "gone", {"uri": f"late://{id}", "more": 1})

    host = Server("host")
    host.mount(files, prefix="files")
    async with connect(host, versions=(era,)) as client:
        with pytest.raises(JsonRpcError) as caught:
            await client.resources.read("notes://files/a/b")
        assert caught.value.data == {"uri": "notes://files/a/b"}
        with pytest.raises(JsonRpcError) as caught:
            await client.resources.read("late://files/x")
        assert caught.value.data == {"uri": "late://files/x", "more": 1}
