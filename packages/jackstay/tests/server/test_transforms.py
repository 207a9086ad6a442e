"""The table of transforms: renamed, described, hidden and preset, on a mount and on a whole server."""

from typing import Any

import pytest

from chaos.servers_own.conversation import STATELESS, connected
from jackstay.client import connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Argument, Server, ToolError, Transform, Transforms
from jackstay.transport import InProcessTarget
from scripted.between import ERAS


def make_child() -> Server:
    child = Server("child")

    @child.tool(tags={"public"})
    def search(q: str, limit: int = 10, verbose: bool = False) -> str:
        """Search."""
        return f"{q} {limit} {verbose}"

    @child.tool(tags={"internal"})
    def wipe() -> str:
        return "wiped"

    @child.tool
    def read_file() -> str:
        return "file"

    @child.prompt
    def review() -> str:
        return "review"

    @child.resource("notes://all")
    def notes() -> str:
        return "notes"

    return child


TABLE: Transforms = {
    "search": Transform(
        name="find",
        title="Find",
        description="Find things.",
        arguments={
            "q": Argument(name="query", description="What to find."),
            "limit": Argument(value=3),
            "verbose": Argument(hidden=True),
        },
    ),
    "#internal": None,
    "review": Transform(name="check", description="Check it."),
    "notes://*": Transform(description="All notes."),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("prefix", [None, "p"])
async def test_a_table_applies_to_lists_and_calls(era: str, prefix: str | None) -> None:
    host = Server("host")
    host.mount(make_child(), prefix=prefix, transforms=TABLE)
    before = f"{prefix}_" if prefix else ""
    async with connect(host, versions=(era,)) as client:
        found, read = await client.tools.list()
        assert (found.name, found.title, found.description) == (f"{before}find", "Find", "Find things.")
        assert read.name == f"{before}read_file"
        properties: Any = found.input_schema["properties"]
        assert list(properties) == ["query"]
        assert properties["query"]["description"] == "What to find."
        assert found.input_schema["required"] == ["query"]
        assert (await client.tools.call(f"{before}find", {"query": "x"})).text == "x 3 False"
        given = {"query": "x", "limit": 99, "verbose": True}
        assert (await client.tools.call(f"{before}find", given)).text == "x 3 False", "callers cannot override it"
        failed = await client.tools.call(f"{before}find", {"q": "x", "x": 1}, raise_on_error=False)
        expected = "Invalid arguments:\n- query: missing\n- x: unknown argument"
        assert failed.error_text == expected, "only the new name is accepted"
        for name in ("search", "wipe"):
            with pytest.raises(JsonRpcError, match="unknown tool"):
                await client.tools.call(f"{before}{name}")
        (prompt,) = await client.prompts.list()
        assert (prompt.name, prompt.description) == (f"{before}check", "Check it.")
        assert (await client.prompts.get(f"{before}check")).messages
        (resource,) = await client.resources.list()
        assert resource.description == "All notes."


async def test_the_first_row_that_matches_applies() -> None:
    host = Server("host")
    host.mount(make_child(), transforms={"read_*": Transform(), "#public": Transform(description="x"), "*": None})
    assert {name: entry.body.description for name, entry in host.catalogue.tools.items()} == {
        "search": "x",
        "read_file": None,
    }
    assert not host.catalogue.prompts
    assert list(host.catalogue.resources) == ["notes://all"], "a pattern of names does not match URIs"


async def test_a_server_elsewhere_is_transformed() -> None:
    host = Server("host")
    host.mount(InProcessTarget(make_child()), prefix="p", transforms={"search": TABLE["search"], "*": None})
    async with connect(host) as client:
        assert [tool.name for tool in await client.tools.list()] == ["p_find"]
        assert (await client.tools.call("p_find", {"query": "x"})).text == "x 3 False"
        failed = await client.tools.call("p_find", {"query": 1}, raise_on_error=False)
        assert failed.error_text == "Invalid arguments: query: expected str, got int"


async def test_errors_of_other_implementations_explain_the_names() -> None:
    child = Server("child")

    @child.tool
    async def search(q: str) -> str:
        raise ToolError("1 validation error\nq\n  Field required" if q else "no result")

    host = Server("host")
    host.mount(child, transforms={"search": Transform(arguments={"q": Argument(name="query")})})
    async with connect(host) as client:
        failed = await client.tools.call("search", {"query": "x"}, raise_on_error=False)
        assert failed.error_text.endswith("Field required\n(in the arguments of this tool, 'q' is 'query')")
        failed = await client.tools.call("search", {"query": ""}, raise_on_error=False)
        assert failed.error_text == "no result"


ERRORS: list[tuple[Any, str]] = [
    ({"search": {"name": "x"}}, r"transforms\['search'\] must be a Transform or None, not dict"),
    ({"search": Transform(name="a b")}, "name must be"),
    ({"search": Transform(arguments={"limt": Argument(value=1)})}, "has 'limt', which the tool does not have; did you"),
    ({"search": Transform(arguments={"q": Argument(hidden=True)})}, "hides 'q', which is required: set its value"),
    ({"search": Transform(arguments={"q": Argument(name="limit")})}, "renames 'q' to 'limit', which exists"),
    ({"search": Transform(name="read_file")}, "have the same name here"),
]


@pytest.mark.parametrize(("table", "message"), ERRORS)
def test_a_table_that_does_not_fit_is_refused(table: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Server("host").mount(make_child(), transforms=table)


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize("prefix", ["", "p"])
async def test_hidden_resources_are_not_served(version: str, is_elsewhere: bool, prefix: str) -> None:
    child, host = Server("child"), Server("host")
    child.resource("notes://secret", tags=["internal"])(lambda: "secret")
    child.resource("notes://other")(lambda: "secret")
    child.resource("notes://{name}")(lambda name: f"note {name}")
    child.resource("files://{name}")(lambda name: "secret")
    child.completion("files://{name}", "name")(lambda value: ["secret"])
    # The tags of a server elsewhere are not known.
    first = "notes://secret" if is_elsewhere else "#internal"
    table: Transforms = {first: None, "notes://{name}": Transform(), "notes://*": None, "files:*": None}
    host.mount(InProcessTarget(child) if is_elsewhere else child, prefix=prefix, transforms=table)
    start = f"{prefix}/" if prefix else ""
    async with connected(host, version) as peer:
        read = await peer.result("resources/read", {"uri": f"notes://{start}5"})
        assert read["contents"][0]["text"] == "note 5"
        for uri in (f"notes://{start}secret", f"notes://{start}other", f"files://{start}5"):
            assert (await peer.error("resources/read", {"uri": uri}))["data"] == {"uri": uri}
        reference = {"type": "ref/resource", "uri": f"files://{start}{{name}}"}
        await peer.error("completion/complete", {"ref": reference, "argument": {"name": "name", "value": ""}})


@pytest.mark.parametrize("version", ["2025-11-25", STATELESS])
async def test_changes_of_hidden_resources_are_not_notified(version: str) -> None:
    child, host = Server("child"), Server("host")
    child.resource("notes://secret")(lambda: "secret")
    child.resource("notes://{name}")(lambda name: f"note {name}")
    host.mount(child, prefix="p", transforms={"notes://secret": None})
    uris = ["notes://p/secret", "notes://p/5"]  # the first matches the template
    async with connected(host, version) as peer:
        if version == STATELESS:
            peer.send_request("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
            await peer.notification("notifications/subscriptions/acknowledged")
        else:
            for uri in uris:
                await peer.request("resources/subscribe", {"uri": uri})
        child.notify_resource_updated("notes://secret")
        child.notify_resource_updated("notes://5")
        assert (await peer.notification("notifications/resources/updated"))["uri"] == "notes://p/5"


def test_a_tool_that_does_not_fit_later_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    host, child = Server("host"), Server("child")
    host.mount(child, transforms={"late": Transform(arguments={"x": Argument(value=1)})})
    child.tool(name="late")(lambda: "")
    child.tool(name="other")(lambda: "")
    assert list(host.catalogue.tools) == ["other"]
    assert "cannot mount 'late' of 'child'" in caplog.text


async def test_arguments_that_are_not_an_object_are_left_to_the_tool() -> None:
    host = Server("host")
    host.mount(make_child(), transforms=TABLE)
    async with connect(host) as client:
        result = await client.submit("tools/call", {"name": "find", "arguments": [1]})
        assert result["isError"]


async def test_a_row_that_applies_to_nothing_is_reported_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelled name hides nothing: the entry would stay visible without a word."""
    host, shop = Server("host"), Server("shop")
    rows: Transforms = {"wip": None, "greet": Transform(title="x"), "admin_*": None, "#t": None, "a://b": None}
    host.mount(shop, transforms=rows)

    @shop.tool
    def wipe() -> str:
        return "wiped"

    @shop.prompt
    def greet() -> str:
        return "hello"

    async with connect(host):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        "transforms['wip'] applies to nothing: 'shop' has no such tool or prompt; did you mean 'wipe'?"
    ]
